"""Whom a pod could push out of many nodes at once: what `preemption.select_victims` says of one node, over columns.

In flow rows, what the filters say of them as sums over the pods there, and the disruption budgets; out flows for each row
what clearing it would cost, that it would not help, or that the row has to be tried by itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, repeat
from typing import Final

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.framework import BatchVerdict, Trials
from konverge.scheduler.importance import rank, started
from konverge.scheduler.limits import WEIGHTLESS, Limit, Limits, Weight
from konverge.scheduler.occupants import Lineup, Occupants
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.preemption import LIFT, Budgets, Candidate, Cost, none_needed
from konverge.scheduler.resources import LIMIT

_NEVER: Final = np.iinfo(np.int64).max
"""More than any weight: a limit that nothing exceeds. Also later than any start."""

_PRIORITY: Final = Weight("priority", lambda pod: pod.priority)
_STARTED: Final = Weight("started", started)


class Unclear(Enum):
    """A node of which columns do not tell: try it by itself."""

    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Prospect:
    """A node that the pod fits once some pods are gone."""

    row: int
    cost: Cost
    victims: IntArray
    """Their places among the pods of the row."""


Outlook = Prospect | Unclear | None
"""What there is to say of a node; None: clearing it would not help."""


class Clearing:
    """The less important pods of the nodes of one attempt."""

    def __init__(self, trials: Trials, pod: PodInfo, budgets: Budgets, reasons: Counter[str]) -> None:
        """Why clearing a node would not help is counted in `reasons`, node by node."""
        self._trials, self._pod, self._budgets, self._reasons = trials, pod, budgets, reasons
        self._protected = Weight(("protected", budgets), budgets.concern, alike=True)
        rows = ((trials.snapshot.row_of(name), pods) for name, pods in trials.nominated.items())
        self._nominated = {row: pods for row, pods in rows if row is not None}

    def outlooks(self, rows: IntArray, at_once: int) -> Iterator[Outlook]:
        """For each of `rows` in turn, which are reckoned so many at once when the first of them is asked for."""
        for begin in range(0, len(rows), at_once):
            some = rows[begin : begin + at_once]
            said = self._trials.limits(some)
            yield from repeat(Unclear.ASK, len(some)) if said is None else self._reckoned(some, said)

    def candidate(self, prospect: Prospect) -> Candidate:
        """Who has to go."""
        pods = self._trials.occupants.on(prospect.row)
        victims = tuple(sorted((pods[place] for place in prospect.victims.tolist()), key=rank))
        node = self._trials.snapshot.node(prospect.row)
        return Candidate(node.name, victims, prospect.cost.violations)

    def _reckoned(self, rows: IntArray, said: Sequence[Limits | BatchVerdict]) -> list[Outlook]:
        occupants = self._trials.occupants
        lineup = occupants.lineup(rows, self._pod.priority)
        lineup, violating = self._by_budget(lineup)
        crowd = _Crowd(
            occupants,
            lineup,
            {at: self._nominated[row] for at, row in enumerate(rows.tolist()) if row in self._nominated},
        )
        told, out, unsure = _refusals(said, crowd)
        for at, others in crowd.nominated.items():
            # Which of two refusals is told, with the nominated pods or without, only a trial says.
            unsure[at] |= out[at] or any(other.pod_affinity_text for other in others)
        for reason, mask in told:
            if count := int(np.count_nonzero(mask & ~unsure)):
                self._reasons[reason] += count
        outlooks: list[Outlook] = [Unclear.ASK if each else None for each in unsure.tolist()]
        good = np.flatnonzero(~out & ~unsure)
        gone = crowd.victims(good)
        for at, cost, places in zip(good.tolist(), self._costs(lineup, gone, violating, good), gone, strict=True):
            if cost.victims:
                outlooks[at] = Prospect(int(rows[at]), cost, lineup.places[at][places])
            else:
                self._reasons.update(none_needed(self._trials.snapshot.node(int(rows[at]))).reasons)
        return outlooks

    def _by_budget(self, lineup: Lineup) -> tuple[Lineup, BoolArray]:
        """The lineup with those first whose going would violate a budget, and which these are."""
        occupants = self._trials.occupants
        places, violating = lineup.places.copy(), np.zeros_like(lineup.there)
        protected = _of_lineup(occupants.weights(lineup.rows, self._protected), lineup)
        for at in np.flatnonzero(protected.any(axis=1)).tolist():
            pods = occupants.on(int(lineup.rows[at]))
            lower = lineup.places[at][lineup.there[at]].tolist()
            place_of = {pods[place].uid: place for place in lower}
            first, others = self._budgets.split([pods[place] for place in lower])
            places[at, : len(lower)] = [place_of[pod.uid] for pod in chain(first, others)]
            violating[at, : len(first)] = True
        return Lineup(lineup.rows, places, lineup.there), violating

    def _costs(self, lineup: Lineup, gone: BoolArray, violating: BoolArray, good: IntArray) -> Iterator[Cost]:
        """What it costs that those go who are `gone`, for the `good` ones of the lineup's rows."""
        some = Lineup(lineup.rows[good], lineup.places[good], lineup.there[good])
        occupants = self._trials.occupants
        priorities = _of_lineup(occupants.weights(some.rows, _PRIORITY), some)
        starts = _of_lineup(occupants.weights(some.rows, _STARTED), some)
        highest = np.where(gone, priorities, -LIFT).max(axis=1, initial=-LIFT)
        longest = np.where(gone & (priorities == highest[:, np.newaxis]), starts, _NEVER).min(axis=1, initial=_NEVER)
        columns = (
            (violating[good] & gone).sum(axis=1),
            highest,
            np.where(gone, priorities + LIFT, 0).sum(axis=1),
            gone.sum(axis=1),
            -longest,
        )
        return map(Cost._make, zip(*(column.tolist() for column in columns), strict=True))


class _Crowd:
    """The pods of some rows, and those that are nominated to them, held against limits."""

    def __init__(self, occupants: Occupants, lineup: Lineup, nominated: dict[int, Sequence[PodInfo]]) -> None:
        self._occupants, self._lineup, self.nominated = occupants, lineup, nominated
        self._sums: list[tuple[IntArray, IntArray, IntArray]] = []

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._lineup.rows)

    def exceeded(self, limit: Limit) -> BoolArray:
        """Where the limit is exceeded even when all of the lineup are gone; else it is kept to from now on."""
        weight = limit.weight
        if weight is WEIGHTLESS and limit.used is not None:
            return limit.used > limit.most
        weights = self._occupants.weights(self._lineup.rows, weight)
        if limit.counted is not None:
            weights[~limit.counted] = 0
        lower = _of_lineup(weights, self._lineup)
        used = weights.sum(axis=1) if limit.used is None else limit.used
        left = used - lower.sum(axis=1)
        for at, others in self.nominated.items():
            if limit.counted is None or limit.counted[at]:
                # The pod must fit with them, but not because of them.
                left[at] += min(max(0, sum(map(weight.of, others))), LIMIT)
        most = limit.most
        if limit.waived_at is not None:
            most = np.where(weights.sum(axis=1) == limit.waived_at, _NEVER, most)
        self._sums.append((left, lower, most))
        exceeded: BoolArray = left > most
        return exceeded

    def victims(self, good: IntArray) -> BoolArray:
        """Who has to go: of the `good` rows, those of the lineup that no limit lets stay when all before them are heard."""
        there = self._lineup.there[good]
        sums = [(left[good], lower[good], most[good]) for left, lower, most in self._sums if lower.any()]
        stays = np.zeros_like(there)
        for place in range(there.shape[1]):
            fits = there[:, place].copy()
            for left, lower, most in sums:
                fits &= left + lower[:, place] <= most
            for left, lower, _ in sums:
                np.add(left, lower[:, place] * fits, out=left)
            stays[:, place] = fits
        gone: BoolArray = there & ~stays
        return gone


def _refusals(
    said: Sequence[Limits | BatchVerdict], crowd: _Crowd
) -> tuple[list[tuple[str, BoolArray]], BoolArray, BoolArray]:
    """Where the pod does not fit even when all of the lineup are gone: for which reasons, where at all, and where in doubt."""
    told: list[tuple[str, BoolArray]] = []
    out, unsure = np.zeros(crowd.count, dtype=np.bool_), np.zeros(crowd.count, dtype=np.bool_)
    for each in said:
        before = out.copy()
        if isinstance(each, BatchVerdict):
            for reason, mask in each.reasons.items():
                told.append((reason, mask & ~before))
                out |= mask
            continue
        if each.unsure is not None:
            unsure |= each.unsure
        for limit in each.limits:
            mask = crowd.exceeded(limit)
            told.append((limit.reason, mask & ~(out if each.first_only else before)))
            out = out | mask
    return told, out, unsure


def _of_lineup(weights: IntArray, lineup: Lineup) -> IntArray:
    """The weights by row and place in the lineup."""
    found: IntArray = np.where(lineup.there, np.take_along_axis(weights, lineup.places, axis=1), 0)
    return found
