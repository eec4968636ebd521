"""Who has the cluster's own `view`, `edit` or `admin` in a namespace may do the like with our kinds there."""

from collections.abc import Iterator

import pytest

from konverge.errors import ClusterError
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import generated

pytestmark = pytest.mark.usefixtures("crds")

DATABASES, POLICIES = "databases.data.konverge.dev", "schedulingpolicies.scheduling.konverge.dev"
NAME = "rbac-test"
USERS = {"victor": "view", "edith": "edit", "ada": "admin"}


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Iterator[Kubectl]:
    """A namespace in which each of the three has their role, in a cluster with our roles for people."""
    kubectl = Kubectl(cluster, cluster.create_namespace("rbac"))
    roles = generated("--users", "--name", NAME)
    kubectl.apply(*roles)
    for user, role in USERS.items():
        kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    until(lambda: may(kubectl, "ada", "deletecollection", DATABASES), "the aggregation of the last role")
    until(lambda: may(kubectl, "victor", "get", DATABASES), "the aggregation of the first")
    until(lambda: may(kubectl, "edith", "patch", DATABASES), "the aggregation of the second")
    yield kubectl
    kubectl("delete", *(f"clusterrole/{role['metadata']['name']}" for role in roles))
    cluster.delete_namespace(kubectl.namespace)


def may(kubectl: Kubectl, user: str, verb: str, resource: str, subresource: str = "") -> bool:
    """What `kubectl auth can-i` says of that user in the namespace."""
    try:
        return kubectl("auth", "can-i", verb, resource, f"--subresource={subresource}", f"--as={user}").strip() == "yes"
    except ClusterError:
        return False


@pytest.mark.parametrize(
    ("verb", "resource", "subresource", "who"),
    [
        ("get", DATABASES, "", {"victor", "edith", "ada"}),
        ("watch", DATABASES, "", {"victor", "edith", "ada"}),
        ("get", DATABASES, "status", {"victor", "edith", "ada"}),
        ("create", DATABASES, "", {"edith", "ada"}),
        ("delete", DATABASES, "", {"edith", "ada"}),
        ("patch", DATABASES, "scale", {"edith", "ada"}),
        ("deletecollection", DATABASES, "", {"ada"}),
        ("patch", DATABASES, "status", set()),
        ("get", POLICIES, "", set()),
        ("patch", POLICIES, "", set()),
    ],
)
def test_may_do_what_their_role_says_and_nothing_else(
    home: Kubectl, verb: str, resource: str, subresource: str, who: set[str]
) -> None:
    assert {user for user in USERS if may(home, user, verb, resource, subresource)} == who


def test_the_roles_are_also_there_to_be_bound_by_themselves(home: Kubectl) -> None:
    home("create", "clusterrolebinding", f"{NAME}-paul", f"--clusterrole={NAME}-schedulingpolicy-editor", "--user=paul")
    try:
        until(lambda: may(home, "paul", "patch", POLICIES), "the binding")
        assert not may(home, "paul", "patch", DATABASES)
    finally:
        home("delete", f"clusterrolebinding/{NAME}-paul")
