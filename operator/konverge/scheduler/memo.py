"""What plugins said of nodes, kept: only rows that changed since are judged again.

In flow a pod and the snapshot; out flow columns, up to date, of one plugin's rejections or raw scores for all pods with
the same `Plugin.signature`. A column holds nothing that a fresh call would not give: tests compare the two.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray, grown
from konverge.scheduler.framework import BatchVerdict, CycleState, Filter, Plugin, Score
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.rowlog import RowLog
from konverge.scheduler.snapshot import Snapshot

_FEW: Final = 8
"""Up to so many rows are judged one by one: the per-node method beats a round of array operations."""

_MANY: Final = 256
"""More rows than that are summed again faster all at once."""

_NEVER: Final = -1
"""The mark of a column that was never filled."""

_COLUMNS: Final = 256
"""So many columns of each kind are kept: 1 byte a node and reason, or 8 bytes a node, each."""


class _Column:
    """Which rows of a column are out of date."""

    def __init__(self, plugin: Plugin) -> None:
        self._node_only = plugin.node_only
        self._mark = _NEVER

    def _stale(self, snapshot: Snapshot) -> IntArray | None:
        """The rows to judge again, None for none. The caller calls `_fresh` once it has."""
        log = self._log(snapshot)
        if log.end == self._mark:
            return None
        noted = log.since(self._mark)
        if noted is None or len(noted) > _FEW + len(snapshot) // 4:
            return snapshot.rows
        return np.array([row for row in noted if snapshot.in_use(row)], dtype=np.int64)

    def _fresh(self, snapshot: Snapshot) -> None:
        self._mark = self._log(snapshot).end

    def _log(self, snapshot: Snapshot) -> RowLog:
        return snapshot.node_changes if self._node_only else snapshot.changes


class FilterColumn(_Column):
    """Whom a filter rejects, by row. Rows that are not in use hold anything."""

    def __init__(self, plugin: Filter) -> None:
        super().__init__(plugin)
        self._plugin = plugin
        self.rejected: BoolArray = np.zeros(0, dtype=np.bool_)
        self.version = 0
        """Another number whenever `rejected` changed."""
        self._reasons: dict[str, BoolArray] = {}
        self._final: BoolArray = np.zeros(0, dtype=np.bool_)

    def refresh(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> None:
        """Bring it up to date. Raises: what the plugin raises."""
        rows = self._stale(snapshot)
        if rows is None:
            return
        if len(rows):
            self._grow(snapshot.size)
            few = len(rows) <= _FEW
            judge = Filter.filter_batch if few else type(self._plugin).filter_batch
            self._write(rows, judge(self._plugin, state, pod, snapshot, rows))
        self._fresh(snapshot)

    def verdict(self, rows: IntArray) -> BatchVerdict:
        """What a call of the plugin would say of `rows` now."""
        return BatchVerdict({reason: mask[rows] for reason, mask in self._reasons.items()}, self._final[rows])

    def _write(self, rows: IntArray, verdict: BatchVerdict) -> None:
        rejected = verdict.rejected(len(rows))
        if (self.rejected[rows] != rejected).any():
            self.version += 1
            self.rejected[rows] = rejected
        for mask in self._reasons.values():
            mask[rows] = False
        for reason, found in verdict.reasons.items():
            if found.any():
                self._reasons.setdefault(reason, np.zeros_like(self.rejected))[rows] = found
        self._final[rows] = False if verdict.unresolvable is None else verdict.unresolvable

    def _grow(self, size: int) -> None:
        if size > len(self.rejected):
            self.rejected, self._final = grown(self.rejected, size), grown(self._final, size)
            self._reasons = {reason: grown(mask, size) for reason, mask in self._reasons.items()}


class ScoreColumn(_Column):
    """The raw scores of a plugin, by row. Rows that are not in use hold anything."""

    def __init__(self, plugin: Score) -> None:
        super().__init__(plugin)
        self.plugin = plugin
        self.raw: IntArray = np.zeros(0, dtype=np.int64)
        self.changes = RowLog()
        """The rows whose score changed."""
        self.relative = type(plugin).normalize is not Score.normalize
        """Whether the raw score of one node can change the normalised score of another."""

    def refresh(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> None:
        """Bring it up to date. Raises: what the plugin raises; ValueError for too many or too few scores."""
        rows = self._stale(snapshot)
        if rows is None:
            return
        if len(rows):
            if snapshot.size > len(self.raw):
                self.raw = grown(self.raw, snapshot.size)
            few = len(rows) <= _FEW
            judge = Score.score_batch if few else type(self.plugin).score_batch
            scores = judge(self.plugin, state, pod, snapshot, rows)
            if scores.shape != rows.shape:
                raise ValueError(f"{len(scores)} scores for {len(rows)} nodes")
            changed = rows[self.raw[rows] != scores]
            if len(changed) > _MANY:
                self.changes.note_all()
            else:
                for row in changed.tolist():
                    self.changes.note(row)
            self.raw[rows] = scores
        self._fresh(snapshot)


class Memo:
    """All columns, by plugin and signature."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._filters: LatestUsed[tuple[Filter, Hashable], FilterColumn] = LatestUsed(_COLUMNS)
        self._scores: LatestUsed[tuple[Score, Hashable], ScoreColumn] = LatestUsed(_COLUMNS)

    def filtered(self, plugin: Filter, state: CycleState, pod: PodInfo) -> FilterColumn | None:
        """The filter's column for pods like this one; None where it must be asked each time. Raises: what it raises."""
        signature = plugin.signature(state, pod)
        if signature is None:
            return None
        column = self._filters.get((plugin, signature), lambda: FilterColumn(plugin))
        column.refresh(state, pod, self._snapshot)
        return column

    def scored(self, plugin: Score, state: CycleState, pod: PodInfo) -> ScoreColumn | None:
        """The same for raw scores."""
        signature = plugin.signature(state, pod)
        if signature is None:
            return None
        column = self._scores.get((plugin, signature), lambda: ScoreColumn(plugin))
        column.refresh(state, pod, self._snapshot)
        return column
