"""One attempt to place one pod: snapshot -> prefilter -> filter -> score -> normalize -> weigh -> pick.

In flow a profile, the snapshot and a pod; out flows the node, or a diagnosis. Nothing here yields or writes, so the
snapshot holds still. A plugin that raises, or answers what it must not, ends this attempt with `PluginFailed`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from konverge.errors import PluginFailed
from konverge.ports import Random
from konverge.scheduler.columns import IntArray
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import MAX_SCORE, Code, CycleState, Plugin, Point, PreFilterResult, Verdict
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.snapshot import Snapshot

MIN_FEASIBLE: Final = 100
"""The search never stops before so many nodes fit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The node for a pod, and what the plugins noted on the way."""

    node_name: str
    state: CycleState


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nodes that fit a pod, with their scores."""

    node_names: tuple[str, ...]
    scores: Mapping[str, IntArray]
    """By plugin, after normalising and weighting; a plugin that had nothing to say is not in it."""
    totals: IntArray

    @property
    def best(self) -> frozenset[str]:
        """The nodes of the highest total: `schedule` chooses one of these."""
        highest = self.totals.max(initial=0)
        return frozenset(name for name, total in zip(self.node_names, self.totals, strict=True) if total == highest)


class Cycle:
    """The algorithm. It keeps one thing between pods: where the next search for nodes begins."""

    def __init__(self, snapshot: Snapshot, random: Random) -> None:
        self._snapshot = snapshot
        self._random = random
        self._start = 0

    def schedule(self, profile: Profile, pod: PodInfo) -> Choice | Diagnosis:
        """Choose a node for `pod`, or say why none will do. Raises: PluginFailed."""
        state = CycleState()
        diagnosis = Diagnosis(nodes=len(self._snapshot))
        if not diagnosis.nodes:
            return diagnosis
        feasible = self._find(profile, state, pod, diagnosis)
        if not len(feasible):
            return diagnosis
        row = feasible[0] if len(feasible) == 1 else self._pick(profile, state, pod, feasible)
        return Choice(self._snapshot.node(int(row)).name, state)

    def rank(self, profile: Profile, pod: PodInfo) -> Ranking | Diagnosis:
        """Score every node that `schedule` would choose from, or say why none will do. Raises: PluginFailed."""
        state = CycleState()
        diagnosis = Diagnosis(nodes=len(self._snapshot))
        feasible = self._find(profile, state, pod, diagnosis) if diagnosis.nodes else self._snapshot.rows
        if not len(feasible):
            return diagnosis
        scores = self._scores(profile, state, pod, feasible)
        names = tuple(node.name for node in self._snapshot.nodes(feasible))
        return Ranking(names, scores, _total(scores, len(feasible)))

    # Filtering

    def _find(self, profile: Profile, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> IntArray:
        """The nodes that fit, as rows: all of them, or as many as the profile wants to score."""
        skipped: set[str] = set()
        rows = self._pre_filter(profile, state, pod, diagnosis, skipped)
        nominated = self._snapshot.row_of(pod.nominated_node)
        if nominated is not None and nominated in rows:
            alone = self._passing(profile, state, pod, rows[rows == nominated], Diagnosis(diagnosis.nodes), skipped)
            if len(alone):
                return alone
        return self._search(profile, state, pod, rows, diagnosis, skipped)

    def _pre_filter(
        self, profile: Profile, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, skipped: set[str]
    ) -> IntArray:
        rows = self._snapshot.rows
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        for plugin in profile.pre_filters:
            with _blamed(plugin, Point.PRE_FILTER):
                answer = plugin.pre_filter(state, pod, self._snapshot)
            verdict = answer.verdict
            if verdict.code is Code.SKIP:
                skipped.add(plugin.name)
            elif verdict.rejected:
                diagnosis.whole = verdict.reasons
                diagnosis.plugins.add(plugin.name)
                return rows[:0]
            elif verdict.code is not Code.SUCCESS:
                raise _misplaced(plugin, Point.PRE_FILTER, verdict)
            if answer.node_names is not None:
                narrowing.append(plugin.name)
                names = _both(names, answer)
        if names is None:
            return rows
        return self._narrowed(names, sorted(narrowing), diagnosis)

    def _narrowed(self, names: frozenset[str], plugins: list[str], diagnosis: Diagnosis) -> IntArray:
        """The rows of the only nodes that prefilter plugins leave; every other node is turned away in their name."""
        found = sorted(row for row in map(self._snapshot.row_of, names) if row is not None)
        listed = f"[{' '.join(plugins)}]"
        diagnosis.plugins.update(plugins)
        if not names:
            one = len(plugins) == 1
            which = f"plugin {plugins[0]}" if one else f"plugin(s) {listed} simultaneously"
            diagnosis.whole = (f"node(s) didn't satisfy {which}",)
        elif len(found) < diagnosis.nodes:
            diagnosis.reasons[f"node(s) didn't satisfy plugin(s) {listed}"] += diagnosis.nodes - len(found)
        return np.array(found, dtype=np.int64)

    def _search(
        self,
        profile: Profile,
        state: CycleState,
        pod: PodInfo,
        rows: IntArray,
        diagnosis: Diagnosis,
        skipped: set[str],
    ) -> IntArray:
        """Filter from the rotating start until enough nodes fit; move the start on by the nodes looked at."""
        count = len(rows)
        if not count:
            return rows
        wanted = nodes_wanted(profile.percentage_of_nodes_to_score, count) if profile.scores else 1
        start = self._start % count
        order = np.concatenate((rows[start:], rows[:start])) if start else rows
        found: list[IntArray] = []
        missing, looked_at = wanted, 0
        while missing > 0 and looked_at < count:
            chunk = order[looked_at : looked_at + max(wanted, MIN_FEASIBLE)]
            passing = self._passing(profile, state, pod, chunk, diagnosis, skipped)
            if len(passing) >= missing:
                passing = passing[:missing]
                chunk = chunk[: int(np.flatnonzero(chunk == passing[-1])[0]) + 1]
            found.append(passing)
            missing -= len(passing)
            looked_at += len(chunk)
        self._start = (self._start + looked_at) % diagnosis.nodes
        return np.concatenate(found)

    def _passing(
        self,
        profile: Profile,
        state: CycleState,
        pod: PodInfo,
        rows: IntArray,
        diagnosis: Diagnosis,
        skipped: set[str],
    ) -> IntArray:
        """Those of `rows` that every filter passes. A node is turned away by the first filter that rejects it."""
        for plugin in profile.filters:
            if plugin.name in skipped or not len(rows):
                continue
            with _blamed(plugin, Point.FILTER):
                verdict = plugin.filter_batch(state, pod, self._snapshot, rows)
                rejected = verdict.rejected(len(rows))
            if not rejected.any():
                continue
            diagnosis.plugins.add(plugin.name)
            for reason, mask in verdict.reasons.items():
                if count := int(np.count_nonzero(mask)):
                    diagnosis.reasons[reason] += count
            rows = rows[~rejected]
        return rows

    # Scoring

    def _pick(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> int:
        """The row of the highest score; chance decides between equals."""
        totals = _total(self._scores(profile, state, pod, rows), len(rows))
        best = rows[totals == totals.max()]
        return int(best[int(self._random.random() * len(best))])

    def _scores(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> dict[str, IntArray]:
        """The weighted scores by plugin."""
        result: dict[str, IntArray] = {}
        skipped = self._pre_score(profile, state, pod, rows)
        for plugin, weight in profile.scores:
            if plugin.name in skipped:
                continue
            with _blamed(plugin, Point.SCORE):
                raw = plugin.score_batch(state, pod, self._snapshot, rows)
                scores = plugin.normalize(state, pod, raw)
                if scores.shape != rows.shape:
                    raise ValueError(f"{len(scores)} scores for {len(rows)} nodes")
            wrong = scores[(scores < 0) | (scores > MAX_SCORE)]
            if len(wrong):
                raise PluginFailed(
                    plugin.name,
                    f"plugin {plugin.name!r} returns an invalid score {wrong[0]}, it should in the range of [0, 100] "
                    "after normalizing",
                )
            result[plugin.name] = weight * scores
        return result

    def _pre_score(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> set[str]:
        skipped: set[str] = set()
        for plugin in profile.pre_scores:
            with _blamed(plugin, Point.PRE_SCORE):
                verdict = plugin.pre_score(state, pod, self._snapshot, rows)
            if verdict.code is Code.SKIP:
                skipped.add(plugin.name)
            elif verdict.code is not Code.SUCCESS:
                raise _misplaced(plugin, Point.PRE_SCORE, verdict)
        return skipped


def nodes_wanted(percentage: int, nodes: int) -> int:
    """How many feasible nodes end the search. `percentage` 0 adapts: 50 % falling to 5 % as the cluster grows."""
    if nodes < MIN_FEASIBLE:
        return nodes
    share = percentage or max(5, 50 - nodes // 125)
    return max(MIN_FEASIBLE, nodes * share // 100)


def _total(scores: Mapping[str, IntArray], count: int) -> IntArray:
    return sum(scores.values(), start=np.zeros(count, dtype=np.int64))


def _both(names: frozenset[str] | None, answer: PreFilterResult) -> frozenset[str] | None:
    if names is None or answer.node_names is None:
        return answer.node_names
    return names & answer.node_names


@contextmanager
def _blamed(plugin: Plugin, point: Point) -> Iterator[None]:
    """Name the plugin in whatever it raises."""
    try:
        yield
    except Exception as error:
        raise PluginFailed(
            plugin.name, f"running {plugin.name!r} {point.value} plugin: {type(error).__name__}: {error}"
        ) from error


def _misplaced(plugin: Plugin, point: Point, verdict: Verdict) -> PluginFailed:
    reasons = ", ".join(verdict.reasons) or "no reason given"
    return PluginFailed(plugin.name, f"running {plugin.name!r} {point.value} plugin: {verdict.code.value}: {reasons}")
