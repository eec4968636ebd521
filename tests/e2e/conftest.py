"""Everything below this directory needs a Kubernetes API server; the fixtures `cluster` and `namespace` give one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from konverge.controllers.database import Database
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, install
from tests.e2e.operator_process import OperatorProcess

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


@pytest.fixture
def kubectl(cluster: Cluster, namespace: str) -> Kubectl:
    """kubectl in the test's namespace."""
    return Kubectl(cluster, namespace)
