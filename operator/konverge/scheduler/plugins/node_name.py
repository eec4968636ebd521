"""NodeName: a pod that names its node fits nowhere else."""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import ALL_PASS, SUCCESS, BatchVerdict, CycleState, Filter, Verdict, unresolvable
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

OTHER_NODE: Final = "node(s) didn't match the requested node name"


class NodeName(Filter):
    """See the module."""

    name: ClassVar[str] = "NodeName"
    events = frozenset({ClusterEvent.NODE_ADDED})

    node_only = True

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """The node that the pod names."""
        return pod.node_name

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable on any other node."""
        return SUCCESS if pod.node_name in {"", node.name} else unresolvable(OTHER_NODE)

    def filter_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same, by row."""
        if not pod.node_name:
            return ALL_PASS
        row = snapshot.row_of(pod.node_name)
        other = np.ones(len(rows), dtype=np.bool_) if row is None else rows != row
        return BatchVerdict({OTHER_NODE: other}, other)
