"""PodTopologySpread: keep the pods of a workload evenly spread over domains: the nodes that share a label's value.

In flow the pod's `topologySpreadConstraints` and the counts of the pods that they select; out flow rejections of domains
that hold too many (DoNotSchedule) and scores that prefer those that hold few (ScheduleAnyway).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from konverge.model.selectors import Operator, Requirement, Selector
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    BatchVerdict,
    CycleState,
    Filter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_affinity import Required
from konverge.scheduler.plugins.taint_toleration import forbids
from konverge.scheduler.podgroups import PodGroup, count_by_row
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNEVEN} (missing required label)"

_HOSTNAME: Final = "kubernetes.io/hostname"
_MISSING: Final = 0
"""The id of None in a label's column."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One entry of `topologySpreadConstraints`, with its defaults."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool

    def counts(self, other: PodGroup | PodInfo) -> bool:
        """Whether pods of the same namespace are among those to spread: not those on their way out.

        A selector that requires nothing counts nothing here, unlike elsewhere.
        """
        return not other.deleting and bool(self.selector.requirements) and self.selector.matches(other.labels)


def constraints_of(pod: PodInfo, when_unsatisfiable: str) -> tuple[Constraint, ...]:
    """The constraints of a pod with that `whenUnsatisfiable`."""
    entries: list[Mapping[str, Any]] = pod.spec.get("topologySpreadConstraints") or []
    return tuple(_constraint(pod, entry) for entry in entries if entry.get("whenUnsatisfiable") == when_unsatisfiable)


def _constraint(pod: PodInfo, entry: Mapping[str, Any]) -> Constraint:
    selector = Selector.of(entry.get("labelSelector"))
    same = [
        Requirement(key, Operator.IN, frozenset({pod.labels[key]}))
        for key in entry.get("matchLabelKeys") or ()
        if key in pod.labels
    ]
    if same and not selector.never:
        selector = Selector((*selector.requirements, *same))
    return Constraint(
        key=entry["topologyKey"],
        max_skew=entry["maxSkew"],
        min_domains=entry.get("minDomains") or 1,
        selector=selector,
        honors_affinity=(entry.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=entry.get("nodeTaintsPolicy") == "Honor",
    )


@dataclass(frozen=True)
class _Domains:
    """The pods that one constraint counts, by domain."""

    constraint: Constraint
    matches_self: bool
    values: tuple[str | None, ...]
    """The label's values by id."""
    by_row: IntArray
    """Pods by row of the snapshot."""
    counts: IntArray
    """Pods by id of the label's value."""
    counted: BoolArray
    """Which values are domains: some node with it is eligible."""

    @cached_property
    def by_value(self) -> Mapping[str | None, int]:
        """The counts by value, zero left out."""
        return {self.values[number]: int(self.counts[number]) for number in np.flatnonzero(self.counts).tolist()}

    @cached_property
    def fewest(self) -> int:
        """The count of the emptiest domain; 0 when there are fewer domains than wanted."""
        domains = self.counts[self.counted]
        return int(domains.min()) if len(domains) >= self.constraint.min_domains else 0

    def skewed(self, count: int | IntArray) -> Any:
        """Whether one more pod in a domain with `count` makes it too full."""
        return count + self.matches_self - self.fewest > self.constraint.max_skew


@dataclass(frozen=True, slots=True)
class _Hard:
    domains: tuple[_Domains, ...]


_NO_CONSTRAINTS: Final = _Hard(())


@dataclass(frozen=True, slots=True)
class _Soft:
    """`weights` by constraint; `ignored` are the nodes to be scored that lack a key."""

    domains: tuple[_Domains, ...]
    weights: tuple[float, ...]
    ignored: BoolArray


class PodTopologySpread(PreFilter, Filter, PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "PodTopologySpread"
    events = frozenset(
        {
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_LABEL,
            ClusterEvent.NODE_TAINT,
            ClusterEvent.POD_GONE,
            ClusterEvent.POD_PLACED,
        }
    )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Count the pods in each domain; skip a pod without a hard constraint."""
        constraints = constraints_of(pod, "DoNotSchedule")
        state.write(_Hard(_count(pod, constraints, snapshot)))
        return PreFilterResult(SUCCESS if constraints else SKIP)

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Reject a node whose domain would hold too many more than the emptiest; for good one that is in no domain."""
        for domains in (state.read(_Hard) or _NO_CONSTRAINTS).domains:
            value = node.labels.get(domains.constraint.key)
            if value is None:
                return unresolvable(NO_LABEL)
            if domains.skewed(domains.by_value.get(value, 0)):
                return unschedulable(UNEVEN)
        return SUCCESS

    def filter_batch(self, state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the label columns."""
        missing, uneven = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
        for domains in (state.read(_Hard) or _NO_CONSTRAINTS).domains:
            ids = snapshot.label(domains.constraint.key).ids(rows)
            missing |= (ids == _MISSING) & ~uneven
            uneven |= domains.skewed(domains.counts[ids]) & ~missing
        return BatchVerdict({NO_LABEL: missing, UNEVEN: uneven}, missing)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
        """Count the pods in each domain of the nodes to be scored; skip a pod without a soft constraint."""
        constraints = constraints_of(pod, "ScheduleAnyway")
        if not constraints:
            return SKIP
        ignored = ~_in_all_domains(constraints, snapshot, rows)
        weights = tuple(
            math.log(_domains_among(constraint.key, snapshot, rows[~ignored]) + 2) for constraint in constraints
        )
        state.write(_Soft(_count(pod, constraints, snapshot), weights, ignored))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The pods in the node's domains, those of a key with many domains weighing more; fewer is better."""
        soft = state.read(_Soft)
        if soft is None or any(domains.constraint.key not in node.labels for domains in soft.domains):
            return 0
        total = 0.0
        for domains, weight in zip(soft.domains, soft.weights, strict=True):
            constraint = domains.constraint
            if constraint.key == _HOSTNAME:
                here = [other for other in node.pods.values() if other.namespace == pod.namespace]
                count = sum(map(constraint.counts, here))
            else:
                count = domains.by_value.get(node.labels[constraint.key], 0)
            total += count * weight + (constraint.max_skew - 1)
        return int(_rounded(np.array([total]))[0])

    def score_batch(self, state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the label columns."""
        total = np.zeros(len(rows), dtype=np.float64)
        soft = state.read(_Soft)
        if soft is None:
            return total.astype(np.int64)
        present = np.ones(len(rows), dtype=np.bool_)
        for domains, weight in zip(soft.domains, soft.weights, strict=True):
            ids = snapshot.label(domains.constraint.key).ids(rows)
            present &= ids != _MISSING
            counts = domains.by_row[rows] if domains.constraint.key == _HOSTNAME else domains.counts[ids]
            total += counts * weight + (domains.constraint.max_skew - 1)
        return np.where(present, _rounded(total), 0)

    def normalize(self, state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """The emptiest is 100; a node that lacks a key is 0."""
        soft = state.read(_Soft)
        if soft is None or soft.ignored.all():
            return np.zeros_like(scores)
        judged = scores[~soft.ignored]
        low, high = int(judged.min()), int(judged.max())
        result: IntArray = MAX_SCORE * (high + low - scores) // high if high else np.full_like(scores, MAX_SCORE)
        return np.where(soft.ignored, 0, result)


def _count(pod: PodInfo, constraints: tuple[Constraint, ...], snapshot: Snapshot) -> tuple[_Domains, ...]:
    """The pods by domain of each constraint: on the nodes that are in a domain of every constraint, and eligible."""
    result = []
    rows = snapshot.rows
    everywhere = _in_all_domains(constraints, snapshot, rows)
    for constraint in constraints:
        column = snapshot.label(constraint.key)
        size = len(column.values)
        pods = count_by_row(snapshot.groups.of(pod.namespace), constraint.counts, snapshot.size)
        eligible = everywhere & _eligible(pod, constraint, snapshot, rows)
        ids = column.ids(rows)[eligible]
        result.append(
            _Domains(
                constraint=constraint,
                matches_self=constraint.selector.matches(pod.labels),
                values=tuple(column.values),
                by_row=pods,
                counts=np.bincount(ids, weights=pods[rows[eligible]], minlength=size).astype(np.int64),
                counted=np.bincount(ids, minlength=size) > 0,
            )
        )
    return tuple(result)


def _eligible(pod: PodInfo, constraint: Constraint, snapshot: Snapshot, rows: IntArray) -> BoolArray:
    """The nodes whose pods count: by default those that the pod's own node affinity allows."""
    result = np.ones(len(rows), dtype=np.bool_)
    if constraint.honors_affinity:
        result &= Required.of(pod).matches_rows(snapshot, rows)
    if constraint.honors_taints:
        result &= ~snapshot.taints.judge_bool(rows, lambda taints: forbids(pod, taints))
    return result


def _in_all_domains(constraints: tuple[Constraint, ...], snapshot: Snapshot, rows: IntArray) -> BoolArray:
    result = np.ones(len(rows), dtype=np.bool_)
    for constraint in constraints:
        result &= snapshot.label(constraint.key).ids(rows) != _MISSING
    return result


def _domains_among(key: str, snapshot: Snapshot, rows: IntArray) -> int:
    return len(rows) if key == _HOSTNAME else len(np.unique(snapshot.label(key).ids(rows)))


def _rounded(values: npt.NDArray[np.float64]) -> IntArray:
    """To the nearest integer, halves up: of positive numbers."""
    floor = np.floor(values)
    result: IntArray = (floor + (values - floor >= 0.5)).astype(np.int64)
    return result
