"""The real cluster of one seed: nodes and pods on the API server, decisions by kube-scheduler, and ours beside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pytest

from konverge.scheduler.cycle import Ranking
from konverge.scheduler.diagnosis import Diagnosis
from konverge.testing import LocalCluster
from konverge.testing.kubescheduler import PARITY
from konverge.testing.processes import wait_for
from tests.parity.ours import Ours
from tests.parity.scorelog import ScoreLog
from tests.parity.wire import Json, PodEvents, Wire
from tests.parity.workloads import Workload

READY = "parity.example.dev/ready"


class Side:
    """See the module. Nothing but the test and kube-scheduler moves pods, one at a time."""

    nodes = 12
    rereads: ClassVar[tuple[str, ...]] = ()
    """The kinds of objects that plugins read and that change from pod to pod."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster, self.workload, self.seed = cluster, Workload(seed), seed
        self.wire, self.log = Wire(cluster), ScoreLog(cluster.log("kube-scheduler"))
        self.namespace = cluster.create_namespace(f"seed-{seed}")
        self.path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.ours = Ours(self.wire, seed)
        self.events = PodEvents(cluster, self.ours.read())

    @classmethod
    @contextmanager
    def furnished(cls, cluster: LocalCluster, seed: int) -> Iterator[Self]:
        """A side with its nodes, which are taken away afterwards."""
        side = cls(cluster, seed)
        try:
            side.furnish()
            side.ours.read()
            yield side
        finally:
            side.clear()

    def furnish(self) -> None:
        """Make the nodes, and wait until kube-scheduler has seen them as they stay."""
        for number in range(self.nodes):
            self.wire.request("POST", "/api/v1/nodes", self.workload.node(f"s{self.seed}-n{number}"))
        for service in self.workload.services():
            self.wire.request("POST", f"/api/v1/namespaces/{self.namespace}/services", service)
        assert wait_for(self._settled, 30)
        self.wire.request("PATCH", f"/api/v1/nodes/s{self.seed}-n0", {"metadata": {"labels": {READY: f"s{self.seed}"}}})
        probe = self.workload.pod("probe", PARITY)
        probe["spec"] |= {
            "containers": [{"name": "c", "image": "registry.example/app:1"}],
            "initContainers": [],
            "nodeSelector": {READY: f"s{self.seed}"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {},
            "topologySpreadConstraints": [],
        }
        self.wire.request("POST", self.path, probe)
        self.until("probe", lambda pod: pod["spec"].get("nodeName"))  # perhaps refused before the label was seen

    def clear(self) -> None:
        """Take pods and nodes away; the next seed starts with none."""
        self.events.close()
        self.log.close()
        self.wire.request("DELETE", self.path, {"gracePeriodSeconds": 0})
        self.wire.request("DELETE", "/api/v1/nodes")
        assert wait_for(lambda: not self.wire.items(self.path), 30)
        self.cluster.delete_namespace(self.namespace)
        self.wire.close()

    def ask(self, pod: Json) -> tuple[Json, Ranking | Diagnosis]:
        """Create a pod, and hear what we would do with it on the state that is there when it comes."""
        self.ours.reread(self.rereads)
        created: Json = self.wire.request("POST", self.path, pod)
        self.until(created["metadata"]["name"], lambda _: True)  # so all that was before it has been seen
        return created, self.ours.rank(created)

    def decision(self, name: str) -> Json:
        """The pod with its node, or with the condition that says why it has none."""
        return self.until(name, lambda pod: bool(pod["spec"].get("nodeName") or refusal(pod)))

    def until(self, name: str, condition: Callable[[Json], Any]) -> Json:
        """Follow what happens to pods until the condition holds of one of ours."""
        last: Json = {}
        while True:
            try:
                event, pod = self.events.next()
            except TimeoutError:
                pytest.fail(f"waited in vain for the pod {name}; the last that was seen of it: {last.get('status')}")
            self.ours.see(event, pod)
            head = pod["metadata"]
            if head["name"] == name and head["namespace"] == self.namespace:
                if condition(pod):
                    return pod
                last = pod

    def delete(self, name: str) -> None:
        """Take the pod away at once."""
        self.wire.request("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})

    def _settled(self) -> bool:
        """Whether the controllers have tainted the cordoned nodes, and taken the taints of new nodes away."""
        for node in self.wire.items("/api/v1/nodes"):
            own = {taint["key"] for taint in node["spec"].get("taints", []) if "/" in taint["key"]}
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            if not ready or own != (
                {"node.kubernetes.io/unschedulable"} if node["spec"].get("unschedulable") else set()
            ):
                return False
        return True


def refusal(pod: Json) -> str:
    """Why kube-scheduler finds no node, if it said so."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition["message"])
    return ""
