"""Memory bandwidth: what nodes say that they have, and what pods say that they take, in thousandths of GB/s."""

from typing import Final

from konverge.model.meta import annotations_of
from konverge.model.quantity import to_milli
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo

MEMORY_BANDWIDTH: Final = "topology.konverge.dev/memory-bandwidth"
"""In GB/s: the label or annotation of a node that says what it has, the annotation of a pod that says what it takes."""


def bandwidth_asked(pod: PodInfo) -> int:
    """What the pod declares; nothing without the annotation. Raises: ValueError that says what is wrong with it."""
    try:
        amount = to_milli(annotations_of(pod.raw).get(MEMORY_BANDWIDTH, 0))
    except ValueError as error:
        raise ValueError(f"annotation {MEMORY_BANDWIDTH}: {error}") from None
    if amount < 0:
        raise ValueError(f"annotation {MEMORY_BANDWIDTH}: must not be negative")
    return amount


def bandwidth_of(node: NodeInfo) -> int:
    """What the node has; nothing where it does not say so, or not clearly."""
    return _milli(node.labels.get(MEMORY_BANDWIDTH, annotations_of(node.raw).get(MEMORY_BANDWIDTH)))


def bandwidth_taken(node: NodeInfo) -> int:
    """What the pods on the node declare."""
    return sum(_milli(annotations_of(pod.raw).get(MEMORY_BANDWIDTH)) for pod in node.pods.values())


def _milli(text: str | None) -> int:
    try:
        return max(0, to_milli(text)) if text is not None else 0
    except ValueError:
        return 0
