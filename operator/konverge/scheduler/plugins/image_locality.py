"""ImageLocality: prefer nodes that hold the pod's images already, by their size and by how widely they are spread.

The share of the nodes that hold an image scales its size, so that the few nodes of a rare image are not overrun.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import MAX_SCORE, SKIP, SUCCESS, CycleState, PreScore, Score, Verdict
from konverge.scheduler.images import normalized
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
"""Bytes of images up to which a node scores 0."""
_MOST: Final = 1000 * _MIB
"""Bytes of images a container from which a node scores 100."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The bytes that each of the pod's images is worth, those that no node holds left out."""

    worth: dict[str, int]
    containers: int


class ImageLocality(PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "ImageLocality"

    node_only = True

    def signature(self, state: CycleState, _pod: PodInfo, /) -> Hashable | None:
        """What each of the pod's images is worth, which other nodes have a part in."""
        wanted = state.read(_Wanted)
        return wanted and (frozenset(wanted.worth.items()), wanted.containers)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, _rows: IntArray, /) -> Verdict:
        """Weigh the pod's images; skip where no node holds any."""
        worth: dict[str, int] = {}
        for name, times in Counter(map(normalized, _images(pod))).items():
            image = snapshot.images.get(name)
            if image is not None:
                worth[name] = times * int(float(image.size) * (len(image.rows) / len(snapshot)))
        spec = pod.spec
        state.write(_Wanted(worth, len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())))
        return SUCCESS if worth else SKIP

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
        """Where the bytes that are there lie between least and most, in percent."""
        wanted = state.read(_Wanted)
        if wanted is None or not wanted.containers:
            return 0
        most = _MOST * wanted.containers
        held = sum(worth for name, worth in wanted.worth.items() if name in node.images)
        return MAX_SCORE * (min(max(held, _LEAST), most) - _LEAST) // (most - _LEAST)

    def score_batch(self, state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same from the index of images."""
        wanted = state.read(_Wanted)
        if wanted is None or not wanted.containers:
            return np.zeros(len(rows), dtype=np.int64)
        most = _MOST * wanted.containers
        held = np.zeros(snapshot.size, dtype=np.int64)
        for name, worth in wanted.worth.items():
            image = snapshot.images.get(name)
            if image is not None:
                held[np.fromiter(image.rows, np.int64, len(image.rows))] += min(worth, most)
        scores: IntArray = MAX_SCORE * (np.clip(held[rows], _LEAST, most) - _LEAST) // (most - _LEAST)
        return scores


def _images(pod: PodInfo) -> Iterator[str]:
    """The images of containers, init containers and image volumes."""
    spec: dict[str, Any] = dict(pod.spec)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        yield container.get("image") or ""
    for volume in spec.get("volumes") or ():
        if volume.get("image"):
            yield volume["image"].get("reference") or ""
