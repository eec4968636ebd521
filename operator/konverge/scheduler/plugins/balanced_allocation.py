"""NodeResourcesBalancedAllocation: prefer nodes that the pod makes evenly full, cpu against memory.

A node's balance is 100 less the standard deviation of how full its resources are, in percent; the score is how much the
pod betters it, around 75.
"""

import math
from collections.abc import Hashable
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    CycleState,
    PluginArgs,
    PreScore,
    Score,
    Verdict,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import CPU, MEMORY, is_scalar
from konverge.scheduler.snapshot import Snapshot

_HALF = MAX_SCORE // 2
_Floats = npt.NDArray[np.float64]


class BalancedResource(PluginArgs):
    """A resource that counts. All count the same."""

    name: str = Field(min_length=1)
    weight: int = Field(default=1, ge=1, le=1)


class BalancedArgs(PluginArgs):
    """The arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[BalancedResource, ...] = (BalancedResource(name=CPU), BalancedResource(name=MEMORY))

    @field_validator("resources")
    @classmethod
    def _names_each_once(cls, resources: tuple[BalancedResource, ...]) -> tuple[BalancedResource, ...]:
        if not resources:
            raise ValueError("must name a resource; leave it out for cpu and memory")
        if len({resource.name for resource in resources}) < len(resources):
            raise ValueError("names a resource more than once")
        return resources


class NodeResourcesBalancedAllocation(PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    Args = BalancedArgs

    def __init__(self, args: BalancedArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = [resource.name for resource in args.resources]

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """What the pod asks for of the resources that count."""
        return tuple(pod.requests.amounts.get(name, 0) for name in self._names)

    def pre_score(self, _state: CycleState, pod: PodInfo, _snapshot: Snapshot, _rows: IntArray, /) -> Verdict:
        """Skip a pod that asks for none of the resources: all such pods would go to one node."""
        return SUCCESS if any(pod.requests.amounts.get(name, 0) for name in self._names) else SKIP

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """50-100, the more the better the balance gets."""
        before, after = [], []
        for name in self._counted(pod):
            capacity = node.allocatable.get(name, 0)
            if capacity:
                used = node.requested.get(name, 0)
                before.append(min(1.0, float(used) / float(capacity)))
                after.append(min(1.0, float(used + pod.requests.amounts.get(name, 0)) / float(capacity)))
        return _HALF + (_HALF + _balance(after) - _balance(before)) // 2

    def score_batch(self, _state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the columns."""
        before, after, present = [], [], []
        for name in self._counted(pod):
            capacity = snapshot.allocatable(name, rows)
            used = snapshot.requested(name, rows)
            there = capacity > 0
            before.append(_fractions(used, capacity, there))
            after.append(_fractions(used + pod.requests.amounts.get(name, 0), capacity, there))
            present.append(there)
        if not present:
            return np.full(len(rows), _HALF + _HALF // 2, dtype=np.int64)
        scores: IntArray = _HALF + (_HALF + _balances(after, present) - _balances(before, present)) // 2
        return scores

    def _counted(self, pod: PodInfo) -> list[str]:
        return [name for name in self._names if pod.requests.amounts.get(name, 0) or not is_scalar(name)]


def _balance(fractions: list[float]) -> int:
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        deviation = math.sqrt(_sum([(each - mean) * (each - mean) for each in fractions]) / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


def _fractions(used: IntArray, capacity: IntArray, there: BoolArray) -> _Floats:
    fractions = np.zeros(len(used), dtype=np.float64)
    np.divide(used, capacity, out=fractions, where=there)
    return np.minimum(fractions, 1.0, out=fractions)


def _balances(fractions: list[_Floats], present: list[BoolArray]) -> IntArray:
    """The same for many nodes; where a node lacks a resource, its fraction is 0 and does not count."""
    if len(fractions) == 1:
        return np.full(len(fractions[0]), MAX_SCORE, dtype=np.int64)
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2) * (present[0] & present[1])
    else:
        deviation = _deviations(fractions, present)
    balances: IntArray = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return balances


def _deviations(fractions: list[_Floats], present: list[BoolArray]) -> _Floats:
    count = np.sum(present, axis=0)
    divisor = np.maximum(count, 1)
    mean = _sum_arrays(fractions) / divisor
    pairs = list(zip(fractions, present, strict=True))
    squares = [np.where(there, (each - mean) * (each - mean), 0.0) for each, there in pairs]
    deviation = np.sqrt(_sum_arrays(squares) / divisor)
    highest = np.max([np.where(there, each, -1.0) for each, there in pairs], axis=0)
    lowest = np.min([np.where(there, each, 2.0) for each, there in pairs], axis=0)
    return np.where(count == 2, (highest - lowest) / 2, np.where(count > 2, deviation, 0.0))


def _sum(values: list[float]) -> float:
    """Plain left-to-right addition: `sum` may compensate for rounding, which kube-scheduler does not."""
    total = 0.0
    for value in values:
        total += value
    return total


def _sum_arrays(values: list[_Floats]) -> _Floats:
    total = np.zeros_like(values[0])
    for value in values:
        total += value
    return total
