"""Keeping pods that belong together in one domain: the nodes whose label has the same value.

In flow a pod's family and the snapshot; out flows which domains the pod may go to, and how good each is. Where the
family has pods on nodes, its domains are those. The first pod chooses among the domains with room for all that wait;
that room is reckoned from requests alone, as if all were like the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.framework import MAX_SCORE
from konverge.scheduler.gangs import Family, relatives, unplaced
from konverge.scheduler.handle import Lister
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import PODS
from konverge.scheduler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Gathering:
    """Where one pod finds its family. A node's domain is the value of the first of `keys` that it has as a label."""

    keys: tuple[str, ...]
    pods: Mapping[str, int]
    """The family's pods by domain."""
    rooms: Mapping[str, int] = field(default_factory=dict)
    """Where `pods` is empty: how many such pods each domain has room for, up to `needed`."""
    needed: int = 1

    @classmethod
    def of(cls, keys: tuple[str, ...], family: Family, pod: PodInfo, snapshot: Snapshot, lister: Lister) -> "Gathering":
        """Look where the family of `pod` is, and where it could go."""
        pods = _by_domain(keys, snapshot, relatives(family, snapshot)[snapshot.rows])
        if pods:
            return cls(keys, pods)
        needed = max(1, unplaced(family, lister, snapshot))
        return cls(keys, pods, _by_domain(keys, snapshot, _rooms(pod, snapshot, needed)), needed)

    def domain(self, node: NodeInfo) -> str | None:
        """The domain of a node; None where it has none of the labels."""
        return next((node.labels[key] for key in self.keys if key in node.labels), None)

    def allows(self, domain: str) -> bool:
        """Whether the pod would be with its family there, or its family would find as much room as anywhere."""
        if self.pods:
            return domain in self.pods
        return self.rooms.get(domain, 0) >= min(self.needed, max(self.rooms.values(), default=0))

    def score(self, domain: str | None) -> int:
        """0-100: the share of the family that is there, of the domain that has most; or how much of it has room there."""
        if domain is None:
            return 0
        if self.pods:
            return self.pods.get(domain, 0) * MAX_SCORE // max(self.pods.values())
        return min(self.rooms.get(domain, 0), self.needed) * MAX_SCORE // self.needed

    def judge(self, snapshot: Snapshot, rows: IntArray) -> tuple[BoolArray, BoolArray]:
        """For many nodes: which are in no domain, and which are in one that is not allowed."""
        outside, elsewhere = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
        for key in self.keys:
            column = snapshot.label(key)
            here = outside & (column.ids(rows) != 0)
            elsewhere |= here & ~column.judge_bool(rows, lambda value: value is not None and self.allows(value))
            outside &= ~here
        return outside, elsewhere

    def scores(self, snapshot: Snapshot, rows: IntArray) -> IntArray:
        """The scores of many nodes."""
        outside, result = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.int64)
        for key in self.keys:
            column = snapshot.label(key)
            here = outside & (column.ids(rows) != 0)
            result[here] = column.judge_int(rows, self.score)[here]
            outside &= ~here
        return result


def _by_domain(keys: tuple[str, ...], snapshot: Snapshot, amounts: IntArray) -> dict[str, int]:
    """The sums by domain of what is given for each of the snapshot's rows; domains with nothing are left out."""
    rows = snapshot.rows
    outside = np.ones(len(rows), dtype=np.bool_)
    result: dict[str, int] = {}
    for key in keys:
        column = snapshot.label(key)
        ids = column.ids(rows)
        here = outside & (ids != 0)
        sums = np.zeros(len(column.values), dtype=np.int64)
        np.add.at(sums, ids[here], amounts[here])
        for number in np.flatnonzero(sums).tolist():
            value = column.values[number]
            assert value is not None  # id 0, which was left out
            result[value] = result.get(value, 0) + int(sums[number])
        outside &= ~here
    return result


def _rooms(pod: PodInfo, snapshot: Snapshot, needed: int) -> IntArray:
    """How many pods like this one each node has room for, up to `needed`."""
    rows = snapshot.rows
    room = snapshot.allocatable(PODS, rows) - snapshot.requested(PODS, rows)
    for name, amount in pod.requests.amounts.items():
        if amount > 0:
            room = np.minimum(room, (snapshot.allocatable(name, rows) - snapshot.requested(name, rows)) // amount)
    room[snapshot.unschedulable.judge_bool(rows, bool)] = 0
    clipped: IntArray = np.clip(room, 0, needed)
    return clipped
