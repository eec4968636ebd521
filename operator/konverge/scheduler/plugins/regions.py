"""Regions: parts of a cluster that suit different pods, and shares of a group of pods between them.

A region is the nodes that its terms match; a node in several is in the first. What the region's `kind` says of a pod:

- HighIO: pods that ask for fast disks are better off there; to others it is like any place.
- GPUAffinity: pods that ask for GPUs are better off there, others elsewhere.
- CostOptimal: the cheaper a node the better. For pods that can bear to be interrupted spot nodes are better than others,
  for the rest they are the worst.
- Custom: all pods are better off there.

With `spread` the pods of one gang or controller are shared out between regions by percent: the region that lacks most
of its share is best. Of equals the region that is named first is better, and any region better than none. The plugin ranks;
it keeps nobody out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from konverge.model.meta import annotations_of
from konverge.scheduler.columns import IntArray
from konverge.scheduler.devices import asks_gpu
from konverge.scheduler.framework import SUCCESS, CycleState, PluginArgs, PreScore, Score, Verdict
from konverge.scheduler.gangs import Family, family_of, relatives
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_selector import Term, parse_terms
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import STORAGE
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.spot import PRICE, bears_interruption, is_spot, price_of, spot_rows

IO: Final = "scheduling.konverge.dev/io"
"""The annotation of a pod that asks for fast disks: `high`. A request of ephemeral-storage asks for them too."""

MAX_REGIONS: Final = 32

_ALL: Final = 100
"""Percent."""

_BEST: Final = 1000
_NEUTRAL: Final = 500
_WORST: Final = 0
"""How well a region suits a pod: all between `_WORST` and `_BEST`."""

_SPOT: Final = 600
_ON_DEMAND: Final = 200
_CHEAPNESS: Final = 400
"""In a CostOptimal region: where a spot node and another one begin, and what the lowest price adds."""


class RegionTerm(PluginArgs):
    """A node selector term, as in a pod's node affinity."""

    match_expressions: tuple[Mapping[str, Any], ...] = ()
    match_fields: tuple[Mapping[str, Any], ...] = ()

    @model_validator(mode="after")
    def _matches_something(self) -> "RegionTerm":
        self.parsed()
        return self

    def parsed(self) -> Term:
        """The term, ready to match nodes. Raises: ValueError for one that could match nothing."""
        raw = {"matchExpressions": self.match_expressions, "matchFields": self.match_fields}
        try:
            found = parse_terms([raw])
        except (KeyError, TypeError, AttributeError):
            found = ()
        if not found:
            raise ValueError(
                "matches no node: give matchExpressions of {key, operator, values} with In or NotIn and values, Exists or "
                "DoesNotExist without, Gt or Lt and one whole number, or matchFields on metadata.name"
            )
        return found[0]


class Region(PluginArgs):
    """A part of the cluster."""

    name: str = Field(min_length=1, max_length=63)
    kind: Literal["HighIO", "GPUAffinity", "CostOptimal", "Custom"] = "Custom"
    node_selector_terms: tuple[RegionTerm, ...] = Field(min_length=1, max_length=16)
    """Its nodes: those that any of the terms matches."""


class Share(PluginArgs):
    """How much of a group of pods goes to a region."""

    region: str
    percent: int = Field(ge=0, le=100)


class RegionsArgs(PluginArgs):
    """The arguments of Regions."""

    regions: tuple[Region, ...] = Field(min_length=1, max_length=MAX_REGIONS)
    spread: tuple[Share, ...] = ()

    @field_validator("regions")
    @classmethod
    def _names_each_once(cls, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        if len({region.name for region in regions}) < len(regions):
            raise ValueError("two regions have the same name; each needs its own")
        return regions

    @model_validator(mode="after")
    def _shares_are_of_regions(self) -> "RegionsArgs":
        names, shares = [region.name for region in self.regions], [share.region for share in self.spread]
        for name in shares:
            if name not in names:
                raise ValueError(f"spread names the region {name!r}, which is not among: {', '.join(names)}")
            if shares.count(name) > 1:
                raise ValueError(f"spread names the region {name!r} more than once")
        total = sum(share.percent for share in self.spread)
        if self.spread and total != _ALL:
            raise ValueError(f"the percents of spread must make {_ALL}, not {total}")
        return self


@dataclass(frozen=True, slots=True)
class _Place:
    """One region, ready to be asked."""

    kind: str
    terms: tuple[Term, ...]
    percent: int
    """Its share of each group of pods."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What matters for one pod."""

    lacking: Mapping[int, int]
    """By region: how well it suits the shares of the pod's family; empty where there are none."""
    bears: bool
    """Whether it can bear to be interrupted."""
    low: int
    high: int
    """The range of the prices of the nodes to be ranked, in thousandths."""


class Regions(PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "Regions"
    Args = RegionsArgs

    def __init__(self, args: RegionsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        percents = {share.region: share.percent for share in args.spread}
        self._places = [
            _Place(
                region.kind,
                tuple(term.parsed() for term in region.node_selector_terms),
                percents.get(region.name, 0),
            )
            for region in args.regions
        ]
        self._spreads = bool(args.spread)
        self._steps = len(self._places) + 1
        self._grades = 100 // self._steps - 1

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
        """Count the pod's family by region, and find the range of prices."""
        family = family_of(pod)
        prices = snapshot.label(PRICE).judge_int(rows, price_of)
        prices = prices[prices >= 0]
        state.write(
            _Plan(
                lacking=self._lacking(family, snapshot) if self._spreads and family is not None else {},
                bears=bears_interruption(pod),
                low=int(prices.min(initial=prices.max(initial=0))),
                high=int(prices.max(initial=0)),
            )
        )
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """How well the node's region suits the pod; of equals the earlier region."""
        plan = state.read(_Plan)
        if plan is None:
            return 0
        number = self._region_of(node)
        return self._score(plan, pod, number, is_spot(node.labels), price_of(node.labels.get(PRICE)))

    def score_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same, once for each region, kind of node and price."""
        plan = state.read(_Plan)
        if plan is None:
            return np.zeros(len(rows), dtype=np.int64)
        numbers, spot = self._regions_of(snapshot, rows), spot_rows(snapshot, rows)
        prices = snapshot.label(PRICE).judge_int(rows, price_of)
        cases, which = np.unique(np.stack((numbers, spot, prices), axis=1), axis=0, return_inverse=True)
        scores = [self._score(plan, pod, number, bool(spot), price) for number, spot, price in cases.tolist()]
        result: IntArray = np.array(scores, dtype=np.int64)[which.reshape(-1)]
        return result

    # Inside

    def _score(self, plan: _Plan, pod: PodInfo, number: int, spot: bool, price: int) -> int:
        """Grades of how well it suits, each wider than the order of all regions: so order decides only between equals."""
        place = self._places[number] if number < len(self._places) else None
        suits = _NEUTRAL if place is None else _suits(place.kind, plan, pod, spot, price)
        if plan.lacking:
            suits = (suits + plan.lacking.get(number, _WORST)) // 2
        return suits * self._grades // _BEST * self._steps + len(self._places) - number

    def _region_of(self, node: NodeInfo) -> int:
        """The number of the first region that the node is in; one more than the last for none."""
        for number, place in enumerate(self._places):
            if any(term.matches(node) for term in place.terms):
                return number
        return len(self._places)

    def _regions_of(self, snapshot: Snapshot, rows: IntArray) -> IntArray:
        """The same for many nodes."""
        numbers = np.full(len(rows), len(self._places), dtype=np.int64)
        for number in reversed(range(len(self._places))):
            for term in self._places[number].terms:
                numbers[term.matches_rows(snapshot, rows)] = number
        return numbers

    def _lacking(self, family: Family, snapshot: Snapshot) -> Mapping[int, int]:
        """For each region with a share: best where most is lacking of what it should have with one pod more."""
        rows = snapshot.rows
        counts = np.zeros(len(self._places) + 1, dtype=np.int64)
        np.add.at(counts, self._regions_of(snapshot, rows), relatives(family, snapshot)[rows])
        placed = int(counts[:-1].sum())
        lack = {
            number: place.percent * (placed + 1) - int(counts[number]) * _ALL
            for number, place in enumerate(self._places)
            if place.percent
        }
        most = max(lack.values())
        return {number: _BEST if lack[number] == most else _NEUTRAL * (lack[number] > 0) for number in lack}


def _suits(kind: str, plan: _Plan, pod: PodInfo, spot: bool, price: int) -> int:
    """How well a node in a region of that kind suits the pod; `price` is negative where it is not known."""
    match kind:
        case "HighIO":
            return _BEST if _asks_fast_disks(pod) else _NEUTRAL
        case "GPUAffinity":
            return _BEST if asks_gpu(pod) else _WORST
        case "CostOptimal":
            if spot and not plan.bears:
                return _WORST
            return (_SPOT if spot else _ON_DEMAND) + _cheapness(plan, price)
    return _BEST


def _cheapness(plan: _Plan, price: int) -> int:
    if price < 0:
        return _CHEAPNESS // 2
    if plan.high <= plan.low:
        return _CHEAPNESS
    return _CHEAPNESS * (plan.high - price) // (plan.high - plan.low)


def _asks_fast_disks(pod: PodInfo) -> bool:
    return annotations_of(pod.raw).get(IO) == "high" or pod.requests.amounts.get(STORAGE, 0) > 0
