"""NodePorts: no two pods of a node hold the same port on the same address."""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    BatchVerdict,
    CycleState,
    Filter,
    PreFilter,
    PreFilterResult,
    Verdict,
    unschedulable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(PreFilter, Filter):
    """See the module."""

    name: ClassVar[str] = "NodePorts"
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.POD_GONE})

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """The ports that the pod wants."""
        return pod.host_ports

    def pre_filter(self, _state: CycleState, pod: PodInfo, _snapshot: Snapshot, /) -> PreFilterResult:
        """Skip a pod without host ports."""
        return PreFilterResult(SUCCESS if pod.host_ports else SKIP)

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Reject where a pod that is there holds a port that conflicts."""
        taken = [port for other in node.pods.values() for port in other.host_ports]
        conflict = any(wanted.conflicts(port) for wanted in pod.host_ports for port in taken)
        return unschedulable(TAKEN) if conflict else SUCCESS

    def filter_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same from the index of ports."""
        conflicting: set[int] = set()
        for wanted in pod.host_ports:
            conflicting |= snapshot.ports.conflicting(wanted)
        return BatchVerdict({TAKEN: np.isin(rows, np.fromiter(conflicting, np.int64, len(conflicting)))})
