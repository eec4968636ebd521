"""The pods on each row of the snapshot, the most important first, and what they weigh: matrices, a row a node.

In flow the snapshot and its log of rows that changed; out flow the pods below a priority, which are the last ones of each
row. Nothing is read before somebody asks, and then only rows that he asks about and that changed.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray, grown
from konverge.scheduler.importance import rank
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.limits import Weight
from konverge.scheduler.podgroups import GroupKey, group_key
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

_MATRICES: Final = 16
"""So many are kept, the latest used ones: 8 bytes a pod each, and for each node as many as the fullest one has."""

_TABLES: Final = 64
"""So many tables of what kinds of pods weigh are kept."""

_KINDS: Final = 4096
"""With that many kinds more than twice the pods, all is read anew: most of them are gone."""


@dataclass(frozen=True, slots=True)
class Lineup:
    """The less important pods of some rows; the shapes are rows by places."""

    rows: IntArray
    places: IntArray
    """Where each stands in its row, the most important of them first."""
    there: BoolArray
    """Which places are those of pods: rows have different numbers."""


class Occupants:
    """See the module."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._forget()

    def _forget(self) -> None:
        self._mark = -1
        self._pods: list[list[PodInfo]] = []
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._versions: IntArray = np.zeros(0, dtype=np.int64)
        self._stale: BoolArray = np.zeros(0, dtype=np.bool_)
        self._matrices: LatestUsed[Hashable, _Matrix] = LatestUsed(_MATRICES)
        self._kinds: dict[GroupKey, int] = {}
        self._examples: list[PodInfo] = []
        self._tables: LatestUsed[Hashable, _Table] = LatestUsed(_TABLES)

    def on(self, row: int) -> list[PodInfo]:
        """The pods of a row that a `lineup` was asked of, the most important first."""
        return self._pods[row]

    def lineup(self, rows: IntArray, priority: int) -> Lineup:
        """The pods below `priority`."""
        self._read(rows)
        priorities = self._matrix(rows, "priority", lambda pod: pod.priority)
        counts = self._counts[rows]
        lower = ((priorities < priority) & self._there(rows, priorities.shape[1])).sum(axis=1)
        places = np.arange(int(lower.max(initial=0)))
        there = places < lower[:, np.newaxis]
        return Lineup(rows, np.where(there, (counts - lower)[:, np.newaxis] + places, 0), there)

    def weights(self, rows: IntArray, weight: Weight) -> IntArray:
        """What the pods of each row weigh, by row and place, nothing where there is none. Rows as for `on`."""
        if not weight.alike:
            found = self._matrix(rows, weight.what, weight.of)
        else:
            kinds = self._matrix(rows, "kind", self._kind)
            found = self._tables.get(weight.what, _Table).of(kinds, weight, self._examples)
        return np.where(self._there(rows, found.shape[1]), found, 0)

    def _read(self, rows: IntArray) -> None:
        """Bring `rows` up to date."""
        if len(self._examples) > _KINDS + 2 * int(self._counts.sum()):
            self._forget()
        size, log = self._snapshot.size, self._snapshot.changes
        if size > len(self._pods):
            self._pods += [[] for _ in range(size - len(self._pods))]
            self._counts, self._versions = grown(self._counts, size), grown(self._versions, size)
            known, self._stale = len(self._stale), grown(self._stale, size)
            self._stale[known:] = True
        noted = log.since(self._mark)
        self._stale[slice(None) if noted is None else noted] = True
        self._mark = log.end
        for row in rows[self._stale[rows]].tolist():
            pods = self._pods[row] = sorted(self._snapshot.node(row).pods.values(), key=rank)
            self._counts[row] = len(pods)
            self._versions[row] += 1
        self._stale[rows] = False

    def _there(self, rows: IntArray, width: int) -> BoolArray:
        there: BoolArray = np.arange(width) < self._counts[rows][:, np.newaxis]
        return there

    def _matrix(self, rows: IntArray, what: Hashable, of: Callable[[PodInfo], int]) -> IntArray:
        matrix = self._matrices.get(what, _Matrix)
        matrix.fit(len(self._counts), int(self._counts[rows].max(initial=0)))
        for row in rows[matrix.versions[rows] != self._versions[rows]].tolist():
            matrix.write(row, [of(pod) for pod in self._pods[row]], int(self._versions[row]))
        return matrix.values[rows, : int(self._counts[rows].max(initial=0))]

    def _kind(self, pod: PodInfo) -> int:
        key = group_key(pod)
        number = self._kinds.setdefault(key, len(self._examples))
        if number == len(self._examples):
            self._examples.append(pod)
        return number


class _Matrix:
    """A number a pod, by row and place."""

    def __init__(self) -> None:
        self.values: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.versions: IntArray = np.zeros(0, dtype=np.int64)
        """Those of the rows when they were written."""

    def fit(self, rows: int, width: int) -> None:
        """Make it at least that large."""
        had_rows, had_width = self.values.shape
        if rows > had_rows or width > had_width:
            larger = np.zeros((max(rows, had_rows), max(width, had_width)), dtype=np.int64)
            larger[:had_rows, :had_width] = self.values
            self.values = larger
        if rows > len(self.versions):
            self.versions = grown(self.versions, rows)

    def write(self, row: int, values: list[int], version: int) -> None:
        """Set a row; what was further to the right in it stays, and is nobody's."""
        if len(values) > self.values.shape[1]:
            self.fit(len(self.values), len(values))
        self.values[row, : len(values)] = values
        self.versions[row] = version


class _Table:
    """What each kind of pods weighs, asked once a kind."""

    def __init__(self) -> None:
        self._values: IntArray = np.zeros(0, dtype=np.int64)
        self._known: BoolArray = np.zeros(0, dtype=np.bool_)

    def of(self, kinds: IntArray, weight: Weight, examples: list[PodInfo]) -> IntArray:
        """The weights of a matrix of kinds."""
        if len(examples) > len(self._known):
            self._values, self._known = grown(self._values, len(examples)), grown(self._known, len(examples))
        for kind in np.unique(kinds[~self._known[kinds]]).tolist():
            self._values[kind] = weight.of(examples[kind])
            self._known[kind] = True
        found: IntArray = self._values[kinds]
        return found
