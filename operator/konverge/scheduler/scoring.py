"""The scores of one attempt: rows that fit flow in; out flow weighted scores by plugin, or just the best rows.

Totals are kept by the columns that they are summed from: while the same nodes fit, only the rows whose scores changed
are summed again.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from konverge.errors import PluginFailed
from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import MAX_SCORE, Code, CycleState, Point, Score
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.memo import Memo, ScoreColumn
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.watch import PluginWatch, misplaced

_TOTALS: Final = 128
"""So many totals are kept: 16 bytes a node each."""

_OUTSIDE: Final = -1
"""Marks the rows that do not belong to a set of nodes; sums of scores are never negative."""

_Weighted = tuple[tuple[ScoreColumn, int], ...]


class Scoring:
    """Pre-score, score, normalise, weigh."""

    def __init__(self, snapshot: Snapshot, memo: Memo, watch: PluginWatch) -> None:
        self._snapshot, self._memo, self._watch = snapshot, memo, watch
        self._totals: LatestUsed[_Weighted, _Totals] = LatestUsed(_TOTALS)

    def best(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> IntArray:
        """The rows of the highest total. Raises: PluginFailed."""
        steps = self._steps(profile, state, pod, rows)
        weighted = tuple((column, weight) for _, weight, column in steps if column is not None)
        if len(weighted) == len(steps):
            kept = self._totals.get(weighted, lambda: _Totals(weighted, self._watch))
            return kept.best(state, pod, rows)
        totals = total_of(self._scores(steps, state, pod, rows), len(rows))
        best: IntArray = rows[totals == totals.max()]
        return best

    def scores(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> dict[str, IntArray]:
        """The weighted scores of `rows` by plugin. Raises: PluginFailed."""
        return self._scores(self._steps(profile, state, pod, rows), state, pod, rows)

    def _scores(
        self, steps: list[tuple[Score, int, ScoreColumn | None]], state: CycleState, pod: PodInfo, rows: IntArray
    ) -> dict[str, IntArray]:
        result: dict[str, IntArray] = {}
        for plugin, weight, column in steps:
            if column is not None:
                raw = column.raw[rows]
            else:
                with self._watch.call(plugin, Point.SCORE):
                    raw = plugin.score_batch(state, pod, self._snapshot, rows)
            result[plugin.name] = weight * _normalized(self._watch, plugin, state, pod, raw, rows)
        return result

    def _steps(
        self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray
    ) -> list[tuple[Score, int, ScoreColumn | None]]:
        """The plugins that have something to say about the pod, with their weights, and their columns where they have any."""
        skipped = self._pre_score(profile, state, pod, rows)
        steps = []
        for plugin, weight in profile.scores:
            if plugin.name not in skipped:
                with self._watch.call(plugin, Point.SCORE):
                    steps.append((plugin, weight, self._memo.scored(plugin, state, pod)))
        return steps

    def _pre_score(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> set[str]:
        skipped: set[str] = set()
        for plugin in profile.pre_scores:
            with self._watch.call(plugin, Point.PRE_SCORE) as call:
                verdict = plugin.pre_score(state, pod, self._snapshot, rows)
                call.code = verdict.code
            if verdict.code is Code.SKIP:
                skipped.add(plugin.name)
            elif verdict.code is not Code.SUCCESS:
                raise misplaced(plugin, Point.PRE_SCORE, verdict)
        return skipped


class _Totals:
    """The sums of weighted columns over a set of rows; the set is known by the identity of its array."""

    def __init__(self, weighted: _Weighted, watch: PluginWatch) -> None:
        self._watch = watch
        self._absolute = [(column, weight) for column, weight in weighted if not column.relative]
        self._relative = [(column, weight) for column, weight in weighted if column.relative]
        self._rows: IntArray | None = None
        self._marks: dict[ScoreColumn, int] = {}
        self._fixed: IntArray = np.zeros(0, dtype=np.int64)
        """What the relative columns add up to, by row."""
        self._sums: IntArray = self._fixed

    def best(self, state: CycleState, pod: PodInfo, rows: IntArray) -> IntArray:
        """Those of `rows` with the highest total. Raises: PluginFailed."""
        changed = self._changed(rows)
        self._rows = None  # until it is right again
        if changed is None:
            self._fill(state, pod, rows)
        elif changed:
            self._update(np.array(changed, dtype=np.int64))
        self._rows = rows
        self._marks = {column: column.changes.end for column, _ in (*self._absolute, *self._relative)}
        return np.flatnonzero(self._sums == self._sums.max())

    def _changed(self, rows: IntArray) -> list[int] | None:
        """The rows whose sum is out of date; None for all."""
        if rows is not self._rows:
            return None
        if any(column.changes.end != self._marks[column] for column, _ in self._relative):
            return None
        changed: list[int] = []
        for column, _ in self._absolute:
            since = column.changes.since(self._marks[column])
            if since is None:
                return None
            changed += since
        return changed

    def _fill(self, state: CycleState, pod: PodInfo, rows: IntArray) -> None:
        size = int(rows.max()) + 1
        fixed = np.zeros(len(rows), dtype=np.int64)
        for column, weight in self._relative:
            fixed += weight * _normalized(self._watch, column.plugin, state, pod, column.raw[rows], rows)
        self._fixed = np.full(size, _OUTSIDE, dtype=np.int64)
        self._fixed[rows] = fixed
        self._sums = np.full(size, _OUTSIDE, dtype=np.int64)
        self._update(rows)

    def _update(self, rows: IntArray) -> None:
        rows = rows[rows < len(self._fixed)]
        rows = rows[self._fixed[rows] != _OUTSIDE]
        sums = self._fixed[rows]
        for column, weight in self._absolute:
            raw = column.raw[rows]
            _check_range(column.plugin, raw)
            sums += weight * raw
        self._sums[rows] = sums


def total_of(scores: Mapping[str, IntArray], count: int) -> IntArray:
    """The sum over the plugins, for each of `count` nodes."""
    return sum(scores.values(), start=np.zeros(count, dtype=np.int64))


def _normalized(
    watch: PluginWatch, plugin: Score, state: CycleState, pod: PodInfo, raw: IntArray, rows: IntArray
) -> IntArray:
    with watch.call(plugin, Point.SCORE):
        scores = plugin.normalize(state, pod, raw)
        if scores.shape != rows.shape:
            raise ValueError(f"{len(scores)} scores for {len(rows)} nodes")
    _check_range(plugin, scores)
    return scores


def _check_range(plugin: Score, scores: IntArray) -> None:
    wrong = scores[(scores < 0) | (scores > MAX_SCORE)]
    if len(wrong):
        raise PluginFailed(
            plugin.name,
            f"plugin {plugin.name!r} returns an invalid score {wrong[0]}, it should in the range of [0, 100] "
            "after normalizing",
        )
