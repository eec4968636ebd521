"""Konverge's scheduler decides as kube-scheduler does: random pods, placed one at a time by the real one, judged by both.

kube-scheduler breaks ties by chance, so its node must be among those that we score highest; where it finds none, so must
we, with the same message. Its profile `parity` runs the plugins that we have.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, compile_profile
from konverge.scheduler.snapshot import Snapshot
from konverge.testing import LocalCluster
from konverge.testing.components import PARITY
from konverge.testing.processes import wait_for
from tests.parity.workloads import Workload
from tests.unit.scheduler.storage import RESOURCES, Storage

pytestmark = pytest.mark.e2e

NODES, PODS = 12, 60
SEEDS = range(1, 1 + int(os.environ.get("KONVERGE_PARITY_SEEDS", "3")))
"""Each seed is a cluster and so many decisions; by hand, take more."""
READY = "parity.example.dev/ready"


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalCluster]:
    """A cluster of our own, whose nodes are the test's alone and whose kube-scheduler has the profile."""
    with LocalCluster(f"pytest-parity-{os.getpid()}", nodes=0) as started:
        yield started


class Side:
    """The real cluster: nodes and pods on the API server, decisions by kube-scheduler."""

    nodes = NODES

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster, self.workload, self.seed = cluster, Workload(seed), seed
        self.namespace = cluster.create_namespace(f"seed-{seed}")
        self.path = f"/api/v1/namespaces/{self.namespace}/pods"

    def furnish(self) -> None:
        """Make the nodes, and wait until kube-scheduler has seen them as they stay."""
        for number in range(self.nodes):
            self.cluster.request("POST", "/api/v1/nodes", self.workload.node(f"s{self.seed}-n{number}"))
        for service in self.workload.services():
            self.cluster.request("POST", f"/api/v1/namespaces/{self.namespace}/services", service)
        assert wait_for(self._settled, 30)
        self.cluster.kubectl("label", "node", f"s{self.seed}-n0", f"{READY}=s{self.seed}")
        probe = self.workload.pod("probe", PARITY)
        probe["spec"] |= {
            "containers": [{"name": "c", "image": "registry.example/app:1"}],
            "initContainers": [],
            "nodeSelector": {READY: f"s{self.seed}"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {},
            "topologySpreadConstraints": [],
        }
        self.create(probe)
        assert self.decision("probe")["spec"].get("nodeName"), "the nodes are not usable"

    def clear(self) -> None:
        """Take pods and nodes away; the next seed starts with none."""
        self.cluster.request("DELETE", self.path, {"gracePeriodSeconds": 0})
        self.cluster.request("DELETE", "/api/v1/nodes")
        assert wait_for(lambda: not self.cluster.request("GET", self.path)["items"], 30)
        self.cluster.delete_namespace(self.namespace)

    def snapshot(self) -> Snapshot:
        """What a scheduler that starts now would see."""
        snapshot = Snapshot()
        for raw in self.cluster.request("GET", "/api/v1/namespaces")["items"]:
            snapshot.set_namespace(raw)
        for raw in self.cluster.request("GET", "/api/v1/nodes")["items"]:
            snapshot.set_node(raw)
        for raw in self.cluster.request("GET", "/api/v1/pods")["items"]:
            if raw["spec"].get("nodeName"):
                snapshot.place(PodInfo(raw))
        return snapshot

    def profile(self) -> Profile:
        """The profile `parity` of a scheduler that starts now."""
        held = Storage()
        for kind, resource in RESOURCES.items():
            for raw in self.cluster.request("GET", resource.path())["items"]:
                held.show({**raw, "kind": kind})
        return compile_profile(ProfileConfig(PARITY), Registry.default(), held.handle)

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = self.cluster.request("POST", self.path, pod)
        return created

    def decision(self, name: str) -> dict[str, Any]:
        """The pod with its node, or with the condition that says why it has none."""
        pod: dict[str, Any] = {}

        def decided() -> bool:
            pod.update(self.cluster.request("GET", f"{self.path}/{name}"))
            return bool(pod["spec"].get("nodeName") or refusal(pod))

        assert wait_for(decided, 20, poll=0.01), f"kube-scheduler says nothing of {name}"
        return pod

    def delete(self, name: str) -> None:
        self.cluster.request("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})

    def _settled(self) -> bool:
        """Whether the controllers have tainted the cordoned nodes, and taken the taints of new nodes away."""
        for node in self.cluster.request("GET", "/api/v1/nodes")["items"]:
            own = {taint["key"] for taint in node["spec"].get("taints", []) if "/" in taint["key"]}
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            if not ready or own != (
                {"node.kubernetes.io/unschedulable"} if node["spec"].get("unschedulable") else set()
            ):
                return False
        return True


def refusal(pod: dict[str, Any]) -> str:
    """Why kube-scheduler finds no node, if it said so."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition["message"])
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_decisions_are_those_of_kube_scheduler(empty: LocalCluster, seed: int) -> None:
    side = Side(empty, seed)
    side.furnish()
    outcomes: Counter[str] = Counter()
    try:
        for number in range(PODS):
            outcomes[judge(side, f"p{number}")] += 1
    finally:
        side.clear()
    assert outcomes["placed"] > PODS // 4, outcomes
    assert outcomes["refused"] > PODS // 20, outcomes


def judge(side: Side, name: str) -> str:
    """Let kube-scheduler decide on one more pod, and compare; what became of the pod."""
    return compare(side, side.workload.pod(name, PARITY))


def compare(side: Side, pod: dict[str, Any]) -> str:
    """The same of a given pod."""
    name = pod["metadata"]["name"]
    snapshot, profile = side.snapshot(), side.profile()
    created = side.create(pod)
    ours = Cycle(snapshot, Random(0)).rank(profile, PodInfo(created))
    theirs = side.decision(name)
    about = f"seed {side.seed}, pod {name}: {created['spec']}"
    if isinstance(ours, Diagnosis):
        assert refusal(theirs) == ours.message, about
        side.delete(name)
        return "refused"
    assert theirs["spec"].get("nodeName") in ours.best, f"{ours}; {refusal(theirs)}; {about}"
    return "placed" if len(ours.best) < len(ours.node_names) else "anywhere"
