"""What happens in a cluster that may let a waiting pod fit: the kinds, and how a change of a node or pod maps to them."""

from enum import Enum
from typing import Final

from konverge.model.resource import Object
from konverge.scheduler.podinfo import PodInfo


class ClusterEvent(Enum):
    """A change that can help. What only takes room away is no event; a pod that comes may be one that others wait for."""

    NODE_ADDED = "node added"
    NODE_ALLOCATABLE = "node allocatable changed"
    NODE_LABEL = "node labels changed"
    NODE_TAINT = "node taints changed, or it was cordoned or uncordoned"
    POD_GONE = "a pod left its node"
    POD_PLACED = "a pod came onto a node, or one there got other labels"
    POD_SHRUNK = "a pod on a node asks for less"


ANY_EVENT: Final = frozenset(ClusterEvent)


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
