"""A node with the pods on it: what a plugin's per-node methods read, and what the snapshot's columns mirror."""

from collections.abc import Mapping

from konverge.model import meta
from konverge.model.resource import Object
from konverge.scheduler.images import images_of
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import PODS, Amounts, capacity_of
from konverge.scheduler.taints import Taint


class NodeInfo:
    """One node. Plugins read it; only the snapshot changes it."""

    def __init__(self, raw: Object) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {PODS: 0}
        self.scored_cpu = 0
        self.scored_memory = 0
        self.update(raw)

    def update(self, raw: Object) -> None:
        """Take over a newer version of the node."""
        self.raw = raw
        self.name: str = raw["metadata"]["name"]
        self.labels: Mapping[str, str] = meta.labels_of(raw)
        spec = raw.get("spec") or {}
        self.unschedulable = bool(spec.get("unschedulable"))
        self.taints = tuple(Taint.of(entry) for entry in spec.get("taints") or ())
        status = raw.get("status") or {}
        self.allocatable: Amounts = capacity_of(status.get("allocatable") or {})
        self.images = images_of(status)
        """Sizes in bytes by name."""

    def add(self, pod: PodInfo) -> None:
        """Count `pod` as running here."""
        self._count(pod, 1)
        self.pods[pod.uid] = pod

    def remove(self, uid: str) -> PodInfo:
        """Count it no longer, and return it."""
        pod = self.pods.pop(uid)
        self._count(pod, -1)
        return pod

    def _count(self, pod: PodInfo, sign: int) -> None:
        requests = pod.requests
        self.requested[PODS] += sign
        for name, amount in requests.amounts.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        self.scored_cpu += sign * requests.scored_cpu
        self.scored_memory += sign * requests.scored_memory

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, {len(self.pods)} pods)"
