"""Spot nodes, which the cloud may take back at any time: how to tell them, who bears that, and what nodes cost."""

import re
from collections.abc import Mapping
from functools import partial
from operator import eq
from typing import Final

import numpy as np

from konverge.model.meta import annotations_of
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.taints import NO_SCHEDULE, Taint, tolerated

SPOT_LABELS: Final = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
"""The labels, and taints, by which the clouds mark spot nodes."""

SPOT: Final = "scheduling.konverge.dev/spot"
"""The annotation of a pod that bears to be interrupted, though it has no toleration that says so: `tolerated`."""

PRICE: Final = "scheduling.konverge.dev/price"
"""The label of a node that says what it costs, in any unit: a decimal number such as 0.384."""

NO_PRICE: Final = -1

_DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def is_spot(labels: Mapping[str, str]) -> bool:
    """Whether a node's labels say that it is a spot node."""
    return any(labels.get(key) == value for key, value in SPOT_LABELS)


def spot_rows(snapshot: Snapshot, rows: IntArray) -> BoolArray:
    """The same for many nodes."""
    result = np.zeros(len(rows), dtype=np.bool_)
    for key, value in SPOT_LABELS:
        result |= snapshot.label(key).judge_bool(rows, partial(eq, value))
    return result


def bears_interruption(pod: PodInfo) -> bool:
    """Whether the pod may run on spot nodes: it tolerates one of their taints, or its annotation says so."""
    if annotations_of(pod.raw).get(SPOT) == "tolerated":
        return True
    return any(tolerated(Taint(key, value, NO_SCHEDULE), pod.tolerations) for key, value in SPOT_LABELS)


def price_of(label: str | None) -> int:
    """What the label says, in thousandths of its unit, rounded down; negative where it says nothing of use."""
    if label is None or not _DECIMAL.fullmatch(label):
        return NO_PRICE
    whole, _, fraction = label.partition(".")
    return int(whole) * 1000 + int(f"{fraction}000"[:3])
