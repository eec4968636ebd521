"""The filters of one attempt: rows flow in, those that every filter passes flow out, and why the others were turned away.

Filters with a `signature` answer from their columns; the others are asked about the rows that are left.
"""

from typing import Final

import numpy as np

from konverge.ports import Random
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import BatchVerdict, Code, CycleState, Filter, Point, Verdict
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.memo import FilterColumn, Memo
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.occupants import Occupants
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.trial import PodTrials
from konverge.scheduler.watch import PluginWatch

_SETS: Final = 128
"""So many sets of nodes that fit are kept: 8 bytes a node each."""


class _Passing:
    """The rows that all of some columns pass. It is the same array as long as it has the same rows."""

    def __init__(self) -> None:
        self.asked: IntArray | None = None
        self.versions: tuple[int, ...] = ()
        self.rows: IntArray = np.zeros(0, dtype=np.int64)


class Sieves:
    """Makes the sieve of each attempt; keeps the sets of nodes that fit."""

    def __init__(
        self, snapshot: Snapshot, memo: Memo, watch: PluginWatch, nominations: Nominations, random: Random
    ) -> None:
        self.snapshot, self.memo, self.watch = snapshot, memo, watch
        self.occupants = Occupants(snapshot)
        self.nominations, self.random = nominations, random
        self.passing: LatestUsed[tuple[FilterColumn, ...], _Passing] = LatestUsed(_SETS)

    def sieve(self, profile: Profile, state: CycleState, pod: PodInfo) -> "Sieve":
        """The filters of `profile`, less those that the attempt skips, for one pod. Raises: PluginFailed."""
        return Sieve(self, profile, state, pod)

    def trials(self, profile: Profile, state: CycleState, pod: PodInfo) -> PodTrials:
        """What may be tried for a pod in this attempt."""
        return PodTrials(profile, state, pod, self.snapshot, self.nominations, self.random, self.occupants)


class Sieve:
    """A node is turned away by the first filter that rejects it."""

    def __init__(self, shared: Sieves, profile: Profile, state: CycleState, pod: PodInfo) -> None:
        self._shared, self._profile, self._state, self._pod = shared, profile, state, pod
        self._steps = [(plugin, self._column(plugin)) for plugin in profile.filters if plugin.name not in state.skipped]
        self._beside = shared.nominations.beside(pod)
        self._turned_away: list[tuple[Filter, IntArray, BatchVerdict | FilterColumn]] = []

    def passing(self, rows: IntArray) -> IntArray:
        """Those of `rows` that every filter passes. Raises: PluginFailed."""
        return self._passing(self._leaving_room(rows) if self._beside else rows)

    def _passing(self, rows: IntArray) -> IntArray:
        if rows is not self._shared.snapshot.rows:
            return self._walk(rows)
        columns = tuple(column for _, column in self._steps if column is not None)
        if len(columns) < len(self._steps):
            return self._walk(rows)
        known = self._shared.passing.get(columns, _Passing)
        versions = tuple(column.version for column in columns)
        # An empty set is worked out anew, since `explain` needs to know who turned them away.
        if known.asked is not rows or known.versions != versions or not len(known.rows):
            known.asked, known.versions, known.rows = rows, versions, self._walk(rows)
        return known.rows

    def forget(self) -> None:
        """Leave what was asked so far out of `explain`."""
        self._turned_away.clear()

    def explain(self, diagnosis: Diagnosis) -> None:
        """Add to `diagnosis` why nodes were turned away so far."""
        resolvable = [diagnosis.resolvable]
        for plugin, rows, answer in self._turned_away:
            verdict = answer.verdict(rows) if isinstance(answer, FilterColumn) else answer
            rejected = verdict.rejected(len(rows))
            resolvable.append(rows[rejected if verdict.unresolvable is None else rejected & ~verdict.unresolvable])
            diagnosis.plugins.add(plugin.name)
            for reason, mask in verdict.reasons.items():
                if count := int(np.count_nonzero(mask)):
                    diagnosis.reasons[reason] += count
        diagnosis.resolvable = np.sort(np.concatenate(resolvable))

    def _leaving_room(self, rows: IntArray) -> IntArray:
        """Those of `rows` on which the pod fits beside the more important pods that are nominated there."""
        shared, snapshot, full = self._shared, self._shared.snapshot, set[int]()
        trials = shared.trials(self._profile, self._state, self._pod)
        for row in map(snapshot.row_of, self._beside):
            if row is None or row not in rows:
                continue
            with trials.on(snapshot.node(row)) as trial:
                refusal = trial.crowded()
            if refusal is not None:
                full.add(row)
                self._turned_away.append((refusal.plugin, np.array([row], dtype=np.int64), _batch(refusal.verdict)))
        return rows[~np.isin(rows, list(full))] if full else rows

    def _walk(self, rows: IntArray) -> IntArray:
        for plugin, column in self._steps:
            if not len(rows):
                break
            if column is None:
                answer: BatchVerdict | FilterColumn
                answer, rejected = self._ask(plugin, rows)
            else:
                answer, rejected = column, column.rejected[rows]
            if rejected.any():
                self._turned_away.append((plugin, rows, answer))
                rows = rows[~rejected]
        return rows

    def _ask(self, plugin: Filter, rows: IntArray) -> tuple[BatchVerdict, BoolArray]:
        with self._shared.watch.call(plugin, Point.FILTER):
            verdict = plugin.filter_batch(self._state, self._pod, self._shared.snapshot, rows)
            return verdict, verdict.rejected(len(rows))

    def _column(self, plugin: Filter) -> FilterColumn | None:
        with self._shared.watch.call(plugin, Point.FILTER):
            return self._shared.memo.filtered(plugin, self._state, self._pod)


def _batch(verdict: Verdict) -> BatchVerdict:
    """The verdict on one node as one on many."""
    return BatchVerdict(
        {
            reason: np.ones(1, dtype=np.bool_)
            for reason in verdict.reasons or ("node(s) were rejected without a reason",)
        },
        np.array([verdict.code is Code.UNRESOLVABLE]),
    )
