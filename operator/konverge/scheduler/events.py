"""What happens in a cluster that may let a waiting pod fit: the kinds, and how the change of an object maps to them.

A kind of event goes with its cause, the object before and after: plugins can tell from it which pods it helps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from konverge.model.resource import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceType,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo


class ClusterEvent(Enum):
    """A change that can help. What only takes room away is no event; a pod that comes may be one that others wait for."""

    NODE_ADDED = "node added"
    NODE_ALLOCATABLE = "node allocatable changed"
    NODE_LABEL = "node labels changed"
    NODE_TAINT = "node taints changed, or it was cordoned or uncordoned"
    NODE_GONE = "a node went away"
    POD_GONE = "a pod left its node"
    POD_PLACED = "a pod came onto a node, or one there got other labels or began to leave"
    POD_SHRUNK = "a pod on a node asks for less"
    CLAIM_CHANGED = "a PersistentVolumeClaim changed"
    VOLUME_CHANGED = "a PersistentVolume changed"
    STORAGE_CLASS_CHANGED = "a StorageClass changed"
    STORAGE_CAPACITY_CHANGED = "a CSIStorageCapacity changed"
    DRIVER_CHANGED = "a CSIDriver changed"
    NODE_DRIVERS_CHANGED = "a CSINode changed"
    ATTACHMENT_CHANGED = "a VolumeAttachment changed"
    WORKLOAD_CHANGED = "a Service, ReplicaSet, StatefulSet or ReplicationController changed"
    BUDGET_CHANGED = "a PodDisruptionBudget changed"
    OTHER_CHANGED = "an object of another resource that a plugin reads changed"


ANY_EVENT: Final = frozenset(ClusterEvent)


class NodeChange:
    """A node that came (no `old`), changed, or went (no `new`). The nodes are parsed when asked for, and bear no pods."""

    def __init__(self, old: Object | None, new: Object | None) -> None:
        self._old, self._new = old, new

    @cached_property
    def old(self) -> NodeInfo | None:
        """The node before."""
        return None if self._old is None else NodeInfo(self._old)

    @cached_property
    def new(self) -> NodeInfo | None:
        """The node now."""
        return None if self._new is None else NodeInfo(self._new)


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod that came onto a node (no `old`), changed there, or left it (no `new`). It may have been nominated only."""

    old: PodInfo | None
    new: PodInfo | None

    @property
    def uid(self) -> str:
        """Which pod it is."""
        pod = self.new or self.old
        return pod.uid if pod else ""


@dataclass(frozen=True, slots=True)
class ReadChange:
    """An object of a resource that plugins read, which came (no `old`), changed, or went (no `new`)."""

    resource: ResourceType
    old: Object | None
    new: Object | None


Cause = NodeChange | PodChange | ReadChange
"""What brought an event."""

_READ: Final[Mapping[ResourceType, ClusterEvent]] = {
    PersistentVolumeClaim: ClusterEvent.CLAIM_CHANGED,
    PersistentVolume: ClusterEvent.VOLUME_CHANGED,
    StorageClass: ClusterEvent.STORAGE_CLASS_CHANGED,
    CSIStorageCapacity: ClusterEvent.STORAGE_CAPACITY_CHANGED,
    CSIDriver: ClusterEvent.DRIVER_CHANGED,
    CSINode: ClusterEvent.NODE_DRIVERS_CHANGED,
    VolumeAttachment: ClusterEvent.ATTACHMENT_CHANGED,
    Service: ClusterEvent.WORKLOAD_CHANGED,
    ReplicaSet: ClusterEvent.WORKLOAD_CHANGED,
    StatefulSet: ClusterEvent.WORKLOAD_CHANGED,
    ReplicationController: ClusterEvent.WORKLOAD_CHANGED,
    PodDisruptionBudget: ClusterEvent.BUDGET_CHANGED,
}


def read_events(resource: ResourceType, old: Object | None, new: Object | None) -> tuple[ClusterEvent, ...]:
    """What it means that an object of `resource`, which plugins read, came, changed or went.

    Of workloads only the spec is read; their status changes with each of their pods.
    """
    event = _READ.get(resource, ClusterEvent.OTHER_CHANGED)
    if event is ClusterEvent.WORKLOAD_CHANGED and old and new and old.get("spec") == new.get("spec"):
        return ()
    return (event,)


def node_events(old: Object, new: Object) -> frozenset[ClusterEvent]:
    """What the update of a node means. Heartbeats and conditions mean nothing."""
    old_spec, new_spec = old.get("spec") or {}, new.get("spec") or {}
    changed = {
        ClusterEvent.NODE_ALLOCATABLE: _allocatable(old) != _allocatable(new),
        ClusterEvent.NODE_LABEL: old["metadata"].get("labels") != new["metadata"].get("labels"),
        ClusterEvent.NODE_TAINT: any(
            (old_spec.get(field) or None) != (new_spec.get(field) or None) for field in ("taints", "unschedulable")
        ),
    }
    return frozenset(event for event, holds in changed.items() if holds)


def shrunk(old: PodInfo, new: PodInfo) -> bool:
    """Whether a pod on a node asks for less of anything than it did."""
    amounts = new.requests.amounts
    return any(amounts.get(name, 0) < amount for name, amount in old.requests.amounts.items())


def _allocatable(node: Object) -> object:
    return (node.get("status") or {}).get("allocatable")
