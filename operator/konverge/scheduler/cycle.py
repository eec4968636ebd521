"""One attempt to place one pod: snapshot -> prefilter -> filter -> score -> normalize -> weigh -> pick.

In flow a profile, the snapshot and a pod; out flows the node, or a diagnosis. Nothing here yields or writes, so the
snapshot holds still. A plugin that raises, or answers what it must not, ends this attempt with `PluginFailed`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from konverge.ports import Random
from konverge.scheduler.columns import IntArray
from konverge.scheduler.company import Companies
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import BatchVerdict, Code, CycleState, Filter, Point, PreFilterResult
from konverge.scheduler.memo import Memo
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.postfilter import post_filter
from konverge.scheduler.profile import Profile
from konverge.scheduler.scoring import Scoring, total_of
from konverge.scheduler.sieve import Sieve, Sieves
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.watch import UNWATCHED, PluginWatch, misplaced

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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What each filter says of each node, whatever the others say."""

    rows: IntArray
    """The nodes that the prefilters leave; why not the others, `diagnosis` tells."""
    diagnosis: Diagnosis
    verdicts: Sequence[tuple[Filter, BatchVerdict]]
    """About `rows`; filters that have nothing to do for the pod are left out."""


class Cycle:
    """The algorithm. Between pods it keeps where the next search for nodes begins, and what it may of plugins' answers."""

    def __init__(
        self,
        snapshot: Snapshot,
        random: Random,
        watch: PluginWatch = UNWATCHED,
        nominations: Nominations | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._random = random
        self._watch = watch
        self._nominations = nominations if nominations is not None else Nominations()
        memo = Memo(snapshot)
        self._sieves, self._scoring = (
            Sieves(snapshot, memo, watch, self._nominations, random),
            Scoring(snapshot, memo, watch),
        )
        self._companies = Companies(snapshot, self._nominations, self._place)
        self._start = 0

    def schedule(self, profile: Profile, pod: PodInfo) -> Choice | Diagnosis:
        """Choose a node for `pod`, or say why none will do. Raises: PluginFailed."""
        state = CycleState()
        feasible = self._feasible(profile, state, pod)
        if isinstance(feasible, Diagnosis):
            return feasible
        row = feasible[0] if len(feasible) == 1 else self._pick(profile, state, pod, feasible)
        return Choice(self._snapshot.node(int(row)).name, state)

    def rank(self, profile: Profile, pod: PodInfo) -> Ranking | Diagnosis:
        """Score every node that `schedule` would choose from, or say why none will do. Raises: PluginFailed."""
        state = CycleState()
        feasible = self._feasible(profile, state, pod)
        if isinstance(feasible, Diagnosis):
            return feasible
        scores = self._scoring.scores(profile, state, pod, feasible)
        names = tuple(node.name for node in self._snapshot.nodes(feasible))
        return Ranking(names, scores, total_of(scores, len(feasible)))

    def judge(self, profile: Profile, pod: PodInfo) -> Judgement:
        """Ask every filter about every node, also about those that another turned away. Raises: PluginFailed."""
        state, diagnosis = CycleState(), Diagnosis(nodes=len(self._snapshot))
        rows = self._pre_filter(profile, state, pod, diagnosis, state.skipped)
        verdicts = []
        for plugin in profile.filters if len(rows) else ():
            if plugin.name not in state.skipped:
                with self._watch.call(plugin, Point.FILTER):
                    verdicts.append((plugin, plugin.filter_batch(state, pod, self._snapshot, rows)))
        return Judgement(rows, diagnosis, verdicts)

    def still_fits(self, profile: Profile, pod: PodInfo, node_name: str) -> bool:
        """Whether the pod, which is counted nowhere now, fits that node as things are. Raises: PluginFailed.

        Plugins that reserve are not asked: what the pod was promised is in their books already.
        """
        asked = _without_books(profile)
        state, diagnosis = CycleState(), Diagnosis(nodes=len(self._snapshot))
        rows = self._pre_filter(asked, state, pod, diagnosis, state.skipped)
        rows = rows[rows == self._snapshot.row_of(node_name)]
        return bool(len(rows) and len(self._sieves.sieve(asked, state, pod).passing(rows)))

    # Inside

    def _place(self, profile: Profile, pod: PodInfo) -> str | Diagnosis:
        found = self.schedule(profile, pod)
        return found.node_name if isinstance(found, Choice) else found

    def _feasible(self, profile: Profile, state: CycleState, pod: PodInfo) -> IntArray | Diagnosis:
        """The nodes to choose from, as rows; or why there are none, and the way out that PostFilter plugins see."""
        diagnosis = Diagnosis(nodes=len(self._snapshot))
        if not diagnosis.nodes:
            return diagnosis
        found = self._find(profile, state, pod, diagnosis)
        if len(found):
            return found
        trials = self._sieves.trials(profile, state, pod)
        post_filter(profile, self._watch, state, pod, trials, diagnosis, self._companies)
        return diagnosis

    def _find(self, profile: Profile, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> IntArray:
        """The nodes that fit, as rows: all of them, or as many as the profile wants to score."""
        rows = self._pre_filter(profile, state, pod, diagnosis, state.skipped)
        if not len(rows):
            return rows
        sieve = self._sieves.sieve(profile, state, pod)
        nominated = self._snapshot.row_of(pod.nominated_node)
        if nominated is not None and nominated in rows:
            alone = sieve.passing(rows[rows == nominated])
            if len(alone):
                return alone
            sieve.forget()
        wanted = nodes_wanted(profile.percentage_of_nodes_to_score, len(rows)) if profile.scores else 1
        found = self._search(sieve, rows, wanted, diagnosis.nodes)
        if not len(found):
            sieve.explain(diagnosis)
        return found

    def _pre_filter(
        self, profile: Profile, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, skipped: set[str]
    ) -> IntArray:
        rows = self._snapshot.rows
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        for plugin in profile.pre_filters:
            with self._watch.call(plugin, Point.PRE_FILTER) as call:
                answer = plugin.pre_filter(state, pod, self._snapshot)
                call.code = answer.verdict.code
            verdict = answer.verdict
            if verdict.code is Code.SKIP:
                skipped.add(plugin.name)
            elif verdict.rejected:
                diagnosis.whole = verdict.reasons
                diagnosis.plugins.add(plugin.name)
                return rows[:0]
            elif verdict.code is not Code.SUCCESS:
                raise misplaced(plugin, Point.PRE_FILTER, verdict)
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

    def _search(self, sieve: Sieve, rows: IntArray, wanted: int, nodes: int) -> IntArray:
        """Filter from the rotating start until enough nodes fit; move the start on by the nodes looked at."""
        count = len(rows)
        if wanted >= count:
            self._start = (self._start + count) % nodes
            return sieve.passing(rows)
        start = self._start % count
        order = np.concatenate((rows[start:], rows[:start])) if start else rows
        found: list[IntArray] = []
        missing, looked_at = wanted, 0
        while missing > 0 and looked_at < count:
            chunk = order[looked_at : looked_at + max(wanted, MIN_FEASIBLE)]
            passing = sieve.passing(chunk)
            if len(passing) >= missing:
                passing = passing[:missing]
                chunk = chunk[: int(np.flatnonzero(chunk == passing[-1])[0]) + 1]
            found.append(passing)
            missing -= len(passing)
            looked_at += len(chunk)
        self._start = (self._start + looked_at) % nodes
        return np.concatenate(found)

    def _pick(self, profile: Profile, state: CycleState, pod: PodInfo, rows: IntArray) -> int:
        """The row of the highest score; chance decides between equals."""
        best = self._scoring.best(profile, state, pod, rows)
        return int(best[int(self._random.random() * len(best))])


def _without_books(profile: Profile) -> Profile:
    keeps = {plugin.name for plugin in profile.reserves}
    return replace(
        profile,
        pre_filters=tuple(plugin for plugin in profile.pre_filters if plugin.name not in keeps),
        filters=tuple(plugin for plugin in profile.filters if plugin.name not in keeps),
    )


def nodes_wanted(percentage: int, nodes: int) -> int:
    """How many feasible nodes end the search. `percentage` 0 adapts: 50 % falling to 5 % as the cluster grows."""
    if nodes < MIN_FEASIBLE:
        return nodes
    share = percentage or max(5, 50 - nodes // 125)
    return max(MIN_FEASIBLE, nodes * share // 100)


def _both(names: frozenset[str] | None, answer: PreFilterResult) -> frozenset[str] | None:
    if names is None or answer.node_names is None:
        return answer.node_names
    return names & answer.node_names
