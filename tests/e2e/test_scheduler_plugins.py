"""Plugins that kube-scheduler does not have, as a person with kubectl meets them: one from a package, and gangs."""

from collections.abc import Iterator
from typing import Any

import pytest

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.test_scheduling_policy import Policy
from tests.samples.installing import install

GANG = "scheduling.konverge.dev/gang"


@pytest.fixture(scope="module")
def operator(cluster: Cluster, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Konverge's own operator, with the sample package beside it."""
    site = tmp_path_factory.mktemp("site")
    install(site)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(site))
        with OperatorProcess(cluster, tmp_path_factory.mktemp("operator") / "log") as running:
            yield running


@pytest.fixture
def placing(kubectl: Kubectl, operator: OperatorProcess) -> Iterator[Policy]:
    made = Policy(kubectl)
    yield made
    made.delete()


def message(kubectl: Kubectl, pod: str) -> str:
    """Why the pod has no node."""
    conditions: list[Any] = (kubectl.get(f"pod/{pod}").get("status") or {}).get("conditions") or []
    return next((str(each.get("message")) for each in conditions if each["type"] == "PodScheduled"), "")


def test_a_plugin_from_a_package_is_used_by_its_name(placing: Policy) -> None:
    """Each node takes one pod, and there is one pod more than nodes."""
    kubectl, names = placing.kubectl, [f"p{number}" for number in range(len(placing.kubectl.list("nodes")) + 1)]
    enabled = {"multiPoint": {"enabled": [{"name": "QuietNodes", "weight": 5}]}}
    placing.apply({"plugins": enabled, "pluginConfig": [{"name": "QuietNodes", "args": {"maxPods": 1}}]})
    placing.wait_ready()
    for name in names:
        placing.pod(name)
    until(lambda: any("not quiet" in message(kubectl, name) for name in names), "a pod that found all nodes taken")
    taken = [pod["spec"]["nodeName"] for pod in kubectl.list("pods") if pod["spec"].get("nodeName")]
    assert len(taken) == len(set(taken))


def test_a_gang_is_placed_whole_once_it_is_complete(placing: Policy) -> None:
    placing.apply({}, gang={"minCount": 3})
    placing.wait_ready()
    for number in range(2):
        placing.pod(f"p{number}", labels={GANG: "train"})
    gang = f"gang {placing.kubectl.namespace}/train has"
    until(lambda: f"{gang} 2 of at least 3 pods, 1 missing" in message(placing.kubectl, "p1"), "what p1 waits for")
    assert f"{gang} " in message(placing.kubectl, "p0")
    assert not any(pod["spec"].get("nodeName") for pod in placing.kubectl.list("pods"))
    placing.pod("p2", labels={GANG: "train"})
    placing.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
