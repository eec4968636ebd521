"""NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon's taint."""

from collections.abc import Hashable
from typing import ClassVar, Final

from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange
from konverge.scheduler.framework import ALL_PASS, SUCCESS, BatchVerdict, CycleState, Filter, Verdict, unresolvable
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.taints import NO_SCHEDULE, Taint, tolerated

CORDONED: Final = "node(s) were unschedulable"

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable(Filter):
    """See the module."""

    name: ClassVar[str] = "NodeUnschedulable"
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINT})

    node_only = True

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """Whether the pod tolerates the cordon."""
        return tolerated(_CORDON, pod.tolerations)

    def hint_key(self, _pod: PodInfo, /) -> Hashable:
        """Nothing: whoever tolerates the cordon is not turned away."""
        return ()

    def hint(self, _pod: PodInfo, cause: Cause, /) -> bool:
        """A node that is not cordoned, and is new or was before."""
        match cause:
            case NodeChange(old=old, new=NodeInfo() as new):
                return not new.unschedulable and (old is None or old.unschedulable)
            case _:
                return True

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable on a cordoned node."""
        rejects = node.unschedulable and not tolerated(_CORDON, pod.tolerations)
        return unresolvable(CORDONED) if rejects else SUCCESS

    def filter_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the column."""
        cordoned = snapshot.unschedulable.judge_bool(rows, bool)
        if not cordoned.any() or tolerated(_CORDON, pod.tolerations):
            return ALL_PASS
        return BatchVerdict({CORDONED: cordoned}, cordoned)
