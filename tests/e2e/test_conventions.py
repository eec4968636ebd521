"""What users and reviewers expect of any operator, as far as no other test is about it; docs/conventions.md has the list."""

from pathlib import Path

import pytest

from konverge.controllers.database import Database
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import Limited, generated
from tests.e2e.operator_process import OperatorProcess, refusals
from tests.e2e.shipped import NAMESPACE
from tests.e2e.test_examples import install_crds

WEB = Path(__file__).parents[2] / "examples" / "web.py"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:konverge"


def allowed(kubectl: Kubectl, account: str) -> dict[str, set[str]]:
    """What `kubectl auth can-i --list` says: the verbs on each resource, named `plural.group`."""
    rows = kubectl("auth", "can-i", "--list", "--no-headers", f"--as={account}").splitlines()
    found: dict[str, set[str]] = {}
    for row in rows:
        resource, _, rest = row.partition(" ")
        if not row.startswith(" "):  # those that start so are URLs
            found.setdefault(resource, set()).update(rest.rpartition("[")[2].rstrip("]").split())
    return found


@pytest.mark.usefixtures("rights")
class TestTheOperatorMay:
    def test_do_nothing_by_a_wildcard_and_give_nobody_rights(self, system: Kubectl) -> None:
        may = allowed(system, OPERATOR)
        assert may["databases.data.konverge.dev"] >= {"get", "list", "watch"}
        assert [resource for resource in may if "*" in resource] == []
        given = {"*", "escalate", "bind", "impersonate"}
        assert {resource: verbs for resource, verbs in may.items() if verbs & given} == {}
        assert [resource for resource in may if "rbac.authorization.k8s.io" in resource] == []

    def test_update_the_finalizers_of_what_it_reconciles(self, system: Kubectl) -> None:
        may = allowed(system, OPERATOR)
        for resource in (Database.resource, SchedulingPolicy.resource):
            assert may[f"{resource.name}/finalizers"] == {"update"}

    def test_neither_install_crds_nor_change_webhooks(self, system: Kubectl) -> None:
        writes = {"create", "update", "patch", "delete"}
        ours = {name: verbs & writes for name, verbs in allowed(system, OPERATOR).items()}
        assert not ours.get("customresourcedefinitions.apiextensions.k8s.io")
        assert [name for name, verbs in ours.items() if verbs and name.endswith(".admissionregistration.k8s.io")] == []


def test_secrets_are_reached_only_where_a_reconciler_declares_them() -> None:
    def reaches(module: str) -> bool:
        rules = [rule for role in generated(module) for rule in role["rules"]]
        return any("secrets" in rule["resources"] for rule in rules)

    assert reaches("konverge.controllers.database")
    assert not reaches("konverge.controllers.scheduling_policy")
    assert not reaches(str(WEB))


def test_roles_in_a_namespace_are_enough_for_an_operator_of_that_namespace(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    install_crds(cluster, WEB, tmp_path, "webs.demo.dev")
    here = kubectl.namespace
    roles = generated(str(WEB), "--namespace", here, "--operator-namespace", here)
    assert {role["kind"] for role in roles} == {"Role"}
    kubectl("create", "serviceaccount", "operator")
    kubectl.apply(*roles)
    for role in roles:
        name = role["metadata"]["name"]
        kubectl("create", "rolebinding", name, f"--role={name}", f"--serviceaccount={here}:operator")
    limited = Limited(cluster, tmp_path / "kubeconfig", kubectl("create", "token", "operator").strip())
    flags = ("--namespace", here, "--leader-elect", "--lease-namespace", here)
    web = {"apiVersion": "demo.dev/v1", "kind": "Web", "metadata": {"name": "shop"}, "spec": {"image": "nginx:1.27"}}
    with OperatorProcess(limited, tmp_path / "log", str(WEB), *flags) as operator:
        kubectl.apply(web)
        kubectl.wait_ready("web/shop")
        assert refusals(operator) == []


def test_our_kinds_have_a_category_of_their_own_and_are_not_among_all(kubectl: Kubectl, crds: None) -> None:
    kinds = set(kubectl("api-resources", "--categories=konverge", "--output=name").split())
    assert kinds >= {"databases.data.konverge.dev", "schedulingpolicies.scheduling.konverge.dev"}
    assert not kinds & set(kubectl("api-resources", "--categories=all", "--output=name").split())


def test_events_have_specific_reasons(kubectl: Kubectl, cluster: Cluster, crds: None, tmp_path: Path) -> None:
    with OperatorProcess(cluster, tmp_path / "log", "konverge.controllers.database", "-n", kubectl.namespace):
        kubectl.apply(
            {
                "apiVersion": "data.konverge.dev/v1alpha1",
                "kind": "Database",
                "metadata": {"name": "orders"},
                "spec": {"version": "17.2", "replicas": 1, "storage": {"size": "1Gi"}},
            }
        )
        kubectl.wait_ready("database/orders")
        until(lambda: "Running" in kubectl("events", "--for=database/orders"), "the event of the last phase")
    rows = [row.split() for row in kubectl("events", "--for=database/orders", "--no-headers").splitlines()]
    reasons = [row[2] for row in rows]
    assert reasons[-1] == "Running"
    assert set(reasons) <= {"Pending", "Provisioning", "Running"}
