"""Konverge's scheduler as it is held against kube-scheduler: in, what the API server shows; out, its ranking of nodes.

Snapshot, caches and cycle are kept from pod to pod, so that what they remember is judged too.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.cycle import Choice, Cycle, Ranking
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.snapshot import Snapshot
from konverge.testing.kubescheduler import PARITY, PARITY_VARIANTS
from tests.parity.wire import PODS, Wire
from tests.unit.scheduler.storage import RESOURCES, Storage


class Ours:
    """A scheduler that binds nothing."""

    def __init__(self, wire: Wire, seed: int) -> None:
        self._wire = wire
        self._snapshot, self._storage = Snapshot(), Storage()
        self._cycle = Cycle(self._snapshot, Random(seed))
        self._profiles = {
            name: compile_profile(ProfileConfig(name, args=args), Registry.default(), self._storage.handle)
            for name, args in {PARITY: {}, **PARITY_VARIANTS}.items()
        }

    def read(self) -> str:
        """Read everything that is there; the resourceVersion of the pods that were read."""
        for raw in self._wire.items("/api/v1/namespaces"):
            self._snapshot.set_namespace(raw)
        for raw in self._wire.items("/api/v1/nodes"):
            self._snapshot.set_node(raw)
        self.reread(RESOURCES)
        pods = self._wire.request("GET", PODS)
        for raw in pods["items"]:
            self.see("ADDED", raw)
        version: str = pods["metadata"]["resourceVersion"]
        return version

    def reread(self, kinds: Iterable[str]) -> None:
        """Read what plugins read of these kinds."""
        for kind in kinds:
            self._storage.show(*({**raw, "kind": kind} for raw in self._wire.items(RESOURCES[kind].path())))

    def see(self, event: str, raw: dict[str, Any]) -> None:
        """Take over what happened to a pod."""
        pod = PodInfo(raw)
        if event == "DELETED":
            self._snapshot.forget(pod.uid)
        elif pod.node_name:
            self._snapshot.place(pod)

    def where(self) -> dict[str, str]:
        """The node of each pod that has one, by the pod's name."""
        return {pod.name: node.name for node in self._snapshot.nodes(self._snapshot.rows) for pod in node.pods.values()}

    def rank(self, raw: dict[str, Any]) -> Ranking | Diagnosis:
        """The nodes for a new pod with their scores, or why there are none; what the cycle chooses is among the best."""
        pod = PodInfo(raw)
        profile = self._profiles[pod.scheduler_name]
        result = self._cycle.rank(profile, pod)
        if isinstance(result, Ranking):
            choice = self._cycle.schedule(profile, pod)
            assert isinstance(choice, Choice), choice
            assert choice.node_name in result.best, f"chose {choice.node_name} from {result}"
        return result
