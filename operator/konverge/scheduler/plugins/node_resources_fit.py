"""NodeResourcesFit: a node has room for what the pod asks, and is ranked by how full it would be.

Filter and score read integers only; the arithmetic is kube-scheduler's, divisions truncate.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import Field, field_validator

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    MAX_SCORE,
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    Handle,
    PluginArgs,
    Score,
    Verdict,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import CPU, MEMORY, PODS, is_scalar
from konverge.scheduler.snapshot import Snapshot

TOO_MANY_PODS: Final = "Too many pods"

_SAFE: Final = (2**63 - 1) // MAX_SCORE
"""Above this, multiplying by a score leaves int64."""


class ResourceWeight(PluginArgs):
    """How much a resource counts in the score."""

    name: str = Field(min_length=1)
    weight: int = Field(default=1, ge=1, le=100)


class ScoringStrategy(PluginArgs):
    """How nodes are ranked: the emptiest first, or the fullest."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: tuple[ResourceWeight, ...] = (ResourceWeight(name=CPU), ResourceWeight(name=MEMORY))

    @field_validator("resources")
    @classmethod
    def _names_each_once(cls, resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
        if not resources:
            raise ValueError("must name a resource; leave it out for cpu and memory")
        if len({resource.name for resource in resources}) < len(resources):
            raise ValueError("names a resource more than once")
        return resources


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

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The weighted mean of what is free (or used) of each resource, in percent."""
        total = weights = 0
        for name, weight in self._weights.items():
            wanted, capacity = _scored(pod, name), node.allocatable.get(name, 0)
            if capacity == 0 or (wanted == 0 and is_scalar(name)):
                continue
            used = {CPU: node.scored_cpu, MEMORY: node.scored_memory}.get(name, node.requested.get(name, 0)) + wanted
            part = min(used, capacity)
            total += weight * ((part if self._most else capacity - part) * MAX_SCORE // capacity)
            weights += weight
        return total // weights if weights else 0

    def score_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the columns."""
        total, weights = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for name, weight in self._weights.items():
            wanted = _scored(pod, name)
            if wanted == 0 and is_scalar(name):
                continue
            capacity = snapshot.allocatable(name, rows)
            part = np.minimum(_used(snapshot, name, rows) + wanted, capacity)
            total += weight * _percent(part if self._most else capacity - part, capacity)
            weights += weight * (capacity > 0)
        return total // np.maximum(weights, 1)

    def _wanted(self, pod: PodInfo) -> Mapping[str, int]:
        amounts = pod.requests.amounts
        return {name: amount for name, amount in amounts.items() if amount > 0 and not self._ignores(name)}

    def _ignores(self, name: str) -> bool:
        if not (self._ignored or self._ignored_groups) or "/" not in name or "kubernetes.io/" in name:
            return False
        return name in self._ignored or name.split("/", 1)[0] in self._ignored_groups


def _scored(pod: PodInfo, name: str) -> int:
    if name == CPU:
        return pod.requests.scored_cpu
    return pod.requests.scored_memory if name == MEMORY else pod.requests.amounts.get(name, 0)


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
