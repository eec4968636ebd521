"""NodeResourcesFit: a node has room for what the pod asks, and is ranked by how full it would be.

Filter and score read integers only; the arithmetic is kube-scheduler's, divisions truncate.
"""

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange, PodChange
from konverge.scheduler.framework import (
    MAX_SCORE,
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    PluginArgs,
    Score,
    Verdict,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.limits import Limit, Limits, Weight
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import CPU, LIMIT, MEMORY, PODS, is_scalar
from konverge.scheduler.snapshot import Snapshot

TOO_MANY_PODS: Final = "Too many pods"

_SHAPE_UNIT: Final = MAX_SCORE // 10
"""A shape's scores go to 10."""

_SAFE: Final = (2**63 - 1) // MAX_SCORE
"""Above this, multiplying by a score leaves int64."""


class ResourceWeight(PluginArgs):
    """How much a resource counts in the score."""

    name: str = Field(min_length=1)
    weight: int = Field(default=1, ge=1, le=100)


class ShapePoint(PluginArgs):
    """A point of the line from utilization, in percent, to score, 0-10."""

    utilization: int = Field(ge=0, le=100)
    score: int = Field(ge=0, le=10)


class RatioShape(PluginArgs):
    """The line that RequestedToCapacityRatio scores by: straight between its points, level beyond them."""

    shape: tuple[ShapePoint, ...] = Field(min_length=1)

    @field_validator("shape")
    @classmethod
    def _rises(cls, shape: tuple[ShapePoint, ...]) -> tuple[ShapePoint, ...]:
        if any(left.utilization >= right.utilization for left, right in pairwise(shape)):
            raise ValueError("utilization must rise from point to point")
        return shape

    def scores(self) -> list[int]:
        """The score, 0-100, of each utilization from 0 to 100 %."""
        return [self._score(percent) for percent in range(101)]

    def _score(self, percent: int) -> int:
        first = self.shape[0]
        if percent <= first.utilization:
            return first.score * _SHAPE_UNIT
        for left, right in pairwise(self.shape):
            if percent <= right.utilization:
                rise = (right.score - left.score) * _SHAPE_UNIT * (percent - left.utilization)
                # Truncated toward zero, also where the line falls.
                step = abs(rise) // (right.utilization - left.utilization)
                return left.score * _SHAPE_UNIT + (step if rise >= 0 else -step)
        return self.shape[-1].score * _SHAPE_UNIT


class ScoringStrategy(PluginArgs):
    """How nodes are ranked: the emptiest first, the fullest, or by a line from utilization to score."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    requested_to_capacity_ratio: RatioShape | None = None
    """For RequestedToCapacityRatio, and only for it."""
    resources: tuple[ResourceWeight, ...] = (ResourceWeight(name=CPU), ResourceWeight(name=MEMORY))

    @field_validator("resources")
    @classmethod
    def _names_each_once(cls, resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
        if not resources:
            raise ValueError("must name a resource; leave it out for cpu and memory")
        if len({resource.name for resource in resources}) < len(resources):
            raise ValueError("names a resource more than once")
        return resources

    @model_validator(mode="after")
    def _has_its_shape(self) -> "ScoringStrategy":
        if (self.type == "RequestedToCapacityRatio") != (self.requested_to_capacity_ratio is not None):
            raise ValueError(
                "requestedToCapacityRatio.shape goes with the type RequestedToCapacityRatio, and only with it"
            )
        return self


class FitArgs(PluginArgs):
    """The arguments of NodeResourcesFit."""

    scoring_strategy: ScoringStrategy = ScoringStrategy()
    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that the filter leaves to somebody else."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """The same for all resources `GROUP/...`."""


class NodeResourcesFit(Filter, Score):
    """See the module."""

    name: ClassVar[str] = "NodeResourcesFit"
    Args = FitArgs
    events = frozenset(
        {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.POD_GONE, ClusterEvent.POD_SHRUNK}
    )

    def __init__(self, args: FitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored, self._ignored_groups = args.ignored_resources, args.ignored_resource_groups
        self._weights = {resource.name: resource.weight for resource in args.scoring_strategy.resources}
        self._most = args.scoring_strategy.type == "MostAllocated"
        ratio = args.scoring_strategy.requested_to_capacity_ratio
        self._shape = np.array(ratio.scores(), dtype=np.int64) if ratio else None

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """What the pod asks for, with the defaults that only scoring counts."""
        requests = pod.requests
        of_containers = frozenset((requests.of_containers or {}).items())
        return frozenset(requests.amounts.items()), requests.scored_cpu, requests.scored_memory, of_containers

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """What the pod asks for."""
        return frozenset(pod.requests.amounts.items())

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A node that would hold the pod and has more of what it asks for, any pod that left, one that asks for less."""
        match cause:
            case NodeChange(old=old, new=NodeInfo() as new):
                wanted = {PODS: 1, **self._wanted(pod)}
                fits = all(amount <= new.allocatable.get(name, 0) for name, amount in wanted.items())
                return fits and (old is None or _has_more(new, old, wanted))
            case PodChange(old=PodInfo() as before, new=PodInfo() as after):
                had, has = before.requests.amounts, after.requests.amounts
                return any(has.get(name, 0) < had.get(name, 0) for name in self._wanted(pod))
            case _:
                return True

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """`Too many pods`, and `Insufficient NAME` for each resource that falls short."""
        reasons, final = [], False
        if node.requested[PODS] + 1 > node.allocatable.get(PODS, 0):
            reasons.append(TOO_MANY_PODS)
        for name, amount in self._wanted(pod).items():
            capacity = node.allocatable.get(name, 0)
            if amount > capacity - node.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                final |= amount > capacity
        if not reasons:
            return SUCCESS
        return Verdict(Code.UNRESOLVABLE if final else Code.UNSCHEDULABLE, tuple(reasons))

    def filter_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the columns."""
        reasons: dict[str, BoolArray] = {}
        final = np.zeros(len(rows), dtype=np.bool_)
        full = snapshot.requested(PODS, rows) >= snapshot.allocatable(PODS, rows)
        if full.any():
            reasons[TOO_MANY_PODS] = full
        for name, amount in self._wanted(pod).items():
            capacity = snapshot.allocatable(name, rows)
            short = amount > capacity - snapshot.requested(name, rows)
            if short.any():
                reasons[f"Insufficient {name}"] = short
                final |= amount > capacity
        return BatchVerdict(reasons, final)

    def limits(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Limits:
        """Each resource by itself; where so much is requested that the columns are cut off, only the node knows."""
        found = [Limit(TOO_MANY_PODS, _ONE, snapshot.requested(PODS, rows), snapshot.allocatable(PODS, rows) - 1)]
        unsure = np.zeros(len(rows), dtype=np.bool_)
        for name, amount in self._wanted(pod).items():
            used = snapshot.requested(name, rows)
            unsure |= used >= LIMIT
            most = snapshot.allocatable(name, rows) - amount
            found.append(Limit(f"Insufficient {name}", Weight(("requests", name), partial(_asked, name)), used, most))
        return Limits(tuple(found), unsure=unsure)

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The weighted mean of what is free (or used, or what the line says of it) of each resource, in percent."""
        total = weights = 0
        for name, weight in self._weights.items():
            wanted, capacity = _scored(pod, name), node.allocatable.get(name, 0)
            if capacity == 0 or (wanted == 0 and is_scalar(name)):
                continue
            used = {CPU: node.scored_cpu, MEMORY: node.scored_memory}.get(name, node.requested.get(name, 0)) + wanted
            part = min(used, capacity)
            if self._shape is None:
                total += weight * ((part if self._most else capacity - part) * MAX_SCORE // capacity)
                weights += weight
            elif score := int(self._shape[part * MAX_SCORE // capacity]):
                total += weight * score
                weights += weight
        if not weights:
            return 0
        return total // weights if self._shape is None else (2 * total + weights) // (2 * weights)

    def score_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the columns."""
        total, weights = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for name, weight in self._weights.items():
            wanted = _scored(pod, name)
            if wanted == 0 and is_scalar(name):
                continue
            capacity = snapshot.allocatable(name, rows)
            part = np.minimum(_used(snapshot, name, rows) + wanted, capacity)
            if self._shape is None:
                total += weight * _percent(part if self._most else capacity - part, capacity)
                weights += weight * (capacity > 0)
            else:
                scores = np.where(capacity > 0, self._shape[_percent(part, capacity)], 0)
                total += weight * scores
                weights += weight * (scores > 0)
        if self._shape is None:
            return total // np.maximum(weights, 1)
        rounded: IntArray = (2 * total + weights) // np.maximum(2 * weights, 1)
        return rounded

    def _wanted(self, pod: PodInfo) -> Mapping[str, int]:
        amounts = pod.requests.amounts
        return {name: amount for name, amount in amounts.items() if amount > 0 and not self._ignores(name)}

    def _ignores(self, name: str) -> bool:
        if not (self._ignored or self._ignored_groups) or "/" not in name or "kubernetes.io/" in name:
            return False
        return name in self._ignored or name.split("/", 1)[0] in self._ignored_groups


_ONE: Final = Weight("one", lambda _: 1, alike=True)


def _asked(name: str, pod: PodInfo) -> int:
    return pod.requests.amounts.get(name, 0)


def _has_more(new: NodeInfo, old: NodeInfo, names: Iterable[str]) -> bool:
    return any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in names)


def _scored(pod: PodInfo, name: str) -> int:
    """What the pod that is to be placed counts for, unlike those that are: by its containers only.

    kube-scheduler's scorer is never told of resources of the pod as a whole.
    """
    requests = pod.requests
    if requests.of_containers is not None:
        return requests.of_containers.get(name, 0)
    if name == CPU:
        return requests.scored_cpu
    return requests.scored_memory if name == MEMORY else requests.amounts.get(name, 0)


def _used(snapshot: Snapshot, name: str, rows: IntArray) -> IntArray:
    if name == CPU:
        return snapshot.scored_cpu(rows)
    return snapshot.scored_memory(rows) if name == MEMORY else snapshot.requested(name, rows)


def _percent(part: IntArray, whole: IntArray) -> IntArray:
    """`part * 100 // whole`, 0 where `whole` is 0. Exact at any size: beyond int64 it goes through Python's integers."""
    if whole.max(initial=0) > _SAFE:
        exact = [p * MAX_SCORE // w if w else 0 for p, w in zip(part.tolist(), whole.tolist(), strict=True)]
        return np.array(exact, dtype=np.int64)
    return part * MAX_SCORE // np.maximum(whole, 1)
