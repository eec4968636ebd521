"""NodePorts: no two pods of a node hold the same port on the same address."""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, PodChange
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
from konverge.scheduler.limits import Limit, Limits, Weight
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

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """The ports that the pod wants."""
        return pod.host_ports

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A pod that left with a port that the pod wants; any new node."""
        match cause:
            case PodChange(old=PodInfo() as gone):
                return any(wanted.conflicts(port) for wanted in pod.host_ports for port in gone.host_ports)
            case _:
                return True

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

    def limits(self, _state: CycleState, pod: PodInfo, _snapshot: Snapshot, rows: IntArray, /) -> Limits:
        """None of the ports that conflict may stay."""
        wanted = pod.host_ports

        def conflicts(other: PodInfo) -> int:
            return sum(port.conflicts(taken) for port in wanted for taken in other.host_ports)

        return Limits((Limit(TAKEN, Weight(("ports", wanted), conflicts), None, np.zeros(len(rows), dtype=np.int64)),))
