"""TaintToleration: a node's NoSchedule and NoExecute taints must be tolerated; PreferNoSchedule ones count against it."""

from collections.abc import Hashable
from typing import ClassVar, Final

from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange
from konverge.scheduler.framework import (
    ALL_PASS,
    SUCCESS,
    BatchVerdict,
    CycleState,
    Filter,
    Score,
    Verdict,
    unresolvable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.normalizing import share_of_largest
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, tolerated

UNTOLERATED: Final = "node(s) had untolerated taint(s)"

Taints = tuple[Taint, ...]


class TaintToleration(Filter, Score):
    """See the module."""

    name: ClassVar[str] = "TaintToleration"
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINT})

    node_only = True

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """What the pod tolerates."""
        return pod.tolerations

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """What the pod tolerates."""
        return pod.tolerations

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A node whose taints the pod tolerates, and that is new or had others before."""
        match cause:
            case NodeChange(old=old, new=NodeInfo() as new):
                return not forbids(pod, new.taints) and (old is None or forbids(pod, old.taints))
            case _:
                return True

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable when a taint that forbids scheduling is not tolerated."""
        return unresolvable(UNTOLERATED) if forbids(pod, node.taints) else SUCCESS

    def filter_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same, judged once a distinct set of taints."""
        forbidden = snapshot.taints.judge_bool(rows, lambda taints: forbids(pod, taints))
        return BatchVerdict({UNTOLERATED: forbidden}, forbidden) if forbidden.any() else ALL_PASS

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The number of PreferNoSchedule taints that are not tolerated."""
        return _disliked(pod, node.taints)

    def score_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same, judged once a distinct set of taints."""
        return snapshot.taints.judge_int(rows, lambda taints: _disliked(pod, taints))

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """Fewest is best."""
        return share_of_largest(scores, reverse=True)


def forbids(pod: PodInfo, taints: Taints) -> bool:
    """Whether one of a node's taints keeps the pod away."""
    return any(taint.effect in {NO_SCHEDULE, NO_EXECUTE} and not tolerated(taint, pod.tolerations) for taint in taints)


def _disliked(pod: PodInfo, taints: Taints) -> int:
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerated(taint, pod.tolerations) for taint in taints)
