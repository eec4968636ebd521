"""Everything below this directory needs a Kubernetes API server; the fixtures `cluster` and `namespace` give one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from konverge.controllers.database import Database
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, install, until
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.shipped import NAMESPACE, PROMETHEUS, built, find, rights_in, stand_ins

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """The CRDs of Database and SchedulingPolicy are installed."""
    install(cluster, Database, SchedulingPolicy)


@pytest.fixture(scope="module")
def operator(cluster: Cluster, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Konverge's own operator, running as long as the module's tests."""
    with OperatorProcess(cluster, tmp_path_factory.mktemp("operator") / "log") as running:
        yield running


@pytest.fixture(scope="session")
def system(cluster: Cluster, crds: None) -> Iterator[Kubectl]:
    """kubectl in the shipped Namespace, in a cluster that knows the kinds of cert-manager and the Prometheus Operator."""
    kubectl = Kubectl(cluster, NAMESPACE)
    kubectl.apply(find(built(cluster, "default"), "Namespace", NAMESPACE), *stand_ins())
    names = [each["metadata"]["name"] for each in stand_ins()]
    cluster.wait_for_crds(*names)
    until(lambda: kubectl.get("serviceaccount/default"), "ServiceAccounts in the namespace")
    yield kubectl
    kubectl("delete", "--wait=false", *(f"crd/{name}" for name in names), f"namespace/{NAMESPACE}")


@pytest.fixture(scope="module")
def rights(cluster: Cluster, system: Kubectl) -> Iterator[None]:
    """What the overlay for production lets the operator and Prometheus do; both have their ServiceAccounts."""
    manifests = rights_in(built(cluster, "overlays/prod"))
    monitoring = Kubectl(cluster, PROMETHEUS)
    if not monitoring.get(f"namespace/{PROMETHEUS}"):
        monitoring("create", "namespace", PROMETHEUS)
    monitoring.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus-k8s"}})
    system.apply(*manifests)
    yield
    monitoring("delete", "serviceaccount", "prometheus-k8s")
    system("delete", "--ignore-not-found", *(f"{each['kind']}/{each['metadata']['name']}" for each in manifests))


@pytest.fixture
def kubectl(cluster: Cluster, namespace: str) -> Kubectl:
    """kubectl in the test's namespace."""
    return Kubectl(cluster, namespace)
