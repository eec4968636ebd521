"""PodTopologySpread: keep the pods of a workload evenly spread over domains: the nodes that share a label's value.

In flow the constraints of the pod, or the profile's for a pod without any, and the counts of the pods that they select;
out flow rejections of domains that hold too many (DoNotSchedule) and scores that prefer those that hold few
(ScheduleAnyway).
"""

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange, PodChange
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
from konverge.scheduler.handle import Handle
from konverge.scheduler.limits import WEIGHTLESS, Limit, Limits, Weight
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_affinity import Required
from konverge.scheduler.plugins.spread_constraints import HOSTNAME, Constraint, Constraints, SpreadArgs
from konverge.scheduler.plugins.taint_toleration import forbids
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import LIMIT
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.workloads import READS

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNEVEN} (missing required label)"

_MISSING: Final = 0
"""The id of None in a label's column."""


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

    @property
    def most(self) -> IntArray:
        """By id of the label's value: with how many pods a domain would just not be too full, when only it lost any."""
        constraint = self.constraint
        domains = np.flatnonzero(self.counted)
        others = np.zeros(len(self.counts), dtype=np.int64)
        if len(domains) >= constraint.min_domains:
            order = domains[np.argsort(self.counts[domains], kind="stable")]
            others[:] = self.counts[order[0]]
            # What is emptiest of all has the next one to compare with; alone, it cannot be too full.
            others[order[0]] = self.counts[order[1]] if len(order) > 1 else LIMIT
        return others + constraint.max_skew - self.matches_self

    def skewed(self, count: int | IntArray) -> Any:
        """Whether one more pod in a domain with `count` makes it too full."""
        return count + self.matches_self - self.fewest > self.constraint.max_skew


@dataclass(frozen=True, slots=True)
class _Hard:
    domains: tuple[_Domains, ...]


_NO_CONSTRAINTS: Final = _Hard(())


@dataclass(frozen=True, slots=True)
class _Soft:
    """`weights` by constraint; `ignored` are the nodes to be scored that lack a key, where all keys are needed."""

    domains: tuple[_Domains, ...]
    weights: tuple[float, ...]
    ignored: BoolArray
    needs_all_keys: bool


class PodTopologySpread(PreFilter, Filter, PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "PodTopologySpread"
    Args = SpreadArgs
    reads = READS
    events = frozenset(
        {
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_GONE,
            ClusterEvent.NODE_LABEL,
            ClusterEvent.NODE_TAINT,
            ClusterEvent.POD_GONE,
            ClusterEvent.POD_PLACED,
        }
    )

    def __init__(self, args: SpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._constraints = Constraints(args, handle.lister)

    def hint_key(self, pod: PodInfo, /) -> Hashable | None:
        """The pod's constraints and all that they look at; None for the defaults, which follow from other objects."""
        entries = pod.spec.get("topologySpreadConstraints")
        if not entries:
            return None
        labels, selector = frozenset(pod.labels.items()), frozenset(pod.node_selector.items())
        text = json.dumps(entries, sort_keys=True)
        return pod.namespace, labels, text, selector, pod.node_affinity_text, pod.tolerations

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A pod that is counted came, left or changed; a node with all keys did, by its labels or taints.

        Beyond kube-scheduler: so did a node by whether it matches the pod's node affinity, if only such ones count.
        """
        constraints = self._constraints.of(pod, "DoNotSchedule")
        match cause:
            case PodChange(old=old, new=new):
                here = [each if each and each.namespace == pod.namespace else None for each in (old, new)]
                return any(len({bool(each and one.counts(each)) for each in here}) > 1 for one in constraints)
            case NodeChange(old=old, new=new):
                return _standing(pod, constraints, old) != _standing(pod, constraints, new)
            case _:
                return True

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Count the pods in each domain; skip a pod without a hard constraint."""
        constraints = self._constraints.of(pod, "DoNotSchedule")
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

    def limits(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Limits:
        """A domain loses the pods that leave the node, and may so become the emptiest."""
        hard = (state.read(_Hard) or _NO_CONSTRAINTS).domains
        everywhere = _in_all_domains(tuple(domains.constraint for domains in hard), snapshot, rows)
        found: list[Limit] = []
        for domains in hard:
            constraint = domains.constraint
            ids = snapshot.label(constraint.key).ids(rows)
            missing = (ids == _MISSING).astype(np.int64)
            weight = Weight(
                ("spread", pod.namespace, constraint.selector), partial(_counts, pod.namespace, constraint), alike=True
            )
            counted = everywhere & _eligible(pod, constraint, snapshot, rows)
            found += (
                Limit(NO_LABEL, WEIGHTLESS, missing, np.zeros_like(missing)),
                Limit(UNEVEN, weight, domains.counts[ids], domains.most[ids], counted),
            )
        return Limits(tuple(found), first_only=True)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
        """Count the pods in each domain of the nodes to be scored; skip a pod without a soft constraint."""
        constraints = self._constraints.of(pod, "ScheduleAnyway")
        if not constraints:
            return SKIP
        needs_all = self._constraints.need_all_keys(pod)
        ignored = ~_in_all_domains(constraints, snapshot, rows) if needs_all else np.zeros(len(rows), dtype=np.bool_)
        weights = tuple(
            math.log(_domains_among(constraint.key, snapshot, rows[~ignored]) + 2) for constraint in constraints
        )
        domains = _count(pod, constraints, snapshot, needs_all_keys=needs_all)
        state.write(_Soft(domains, weights, ignored, needs_all))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The pods in the node's domains, those of a key with many domains weighing more; fewer is better."""
        soft = state.read(_Soft)
        if soft is None:
            return 0
        total = 0.0
        for domains, weight in zip(soft.domains, soft.weights, strict=True):
            constraint = domains.constraint
            if constraint.key not in node.labels:
                if soft.needs_all_keys:
                    return 0
                continue
            if constraint.key == HOSTNAME:
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
        ignored = np.zeros(len(rows), dtype=np.bool_)
        for domains, weight in zip(soft.domains, soft.weights, strict=True):
            ids = snapshot.label(domains.constraint.key).ids(rows)
            missing = ids == _MISSING
            ignored |= missing & soft.needs_all_keys
            counts = domains.by_row[rows] if domains.constraint.key == HOSTNAME else domains.counts[ids]
            total += np.where(missing, 0.0, counts * weight + (domains.constraint.max_skew - 1))
        return np.where(ignored, 0, _rounded(total))

    def normalize(self, state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """The emptiest is 100; a node that lacks a key is 0."""
        soft = state.read(_Soft)
        if soft is None or soft.ignored.all():
            return np.zeros_like(scores)
        judged = scores[~soft.ignored]
        low, high = int(judged.min()), int(judged.max())
        result: IntArray = MAX_SCORE * (high + low - scores) // high if high else np.full_like(scores, MAX_SCORE)
        return np.where(soft.ignored, 0, result)


def _counts(namespace: str, constraint: Constraint, pod: PodInfo) -> int:
    return pod.namespace == namespace and constraint.counts(pod)


def _standing(pod: PodInfo, constraints: tuple[Constraint, ...], node: NodeInfo | None) -> object:
    """All of a node that the constraints look at; None where they do not look at it."""
    if node is None or any(each.key not in node.labels for each in constraints):
        return None
    matches = any(each.honors_affinity for each in constraints) and Required.of(pod).matches(node)
    return tuple(node.labels[each.key] for each in constraints), node.taints, matches


def _count(
    pod: PodInfo, constraints: tuple[Constraint, ...], snapshot: Snapshot, *, needs_all_keys: bool = True
) -> tuple[_Domains, ...]:
    """The pods by domain of each constraint: on the nodes that are eligible and, if needed, in a domain of every one."""
    if not constraints:
        return ()
    result = []
    rows = snapshot.rows
    everywhere = _in_all_domains(constraints if needs_all_keys else (), snapshot, rows)
    for constraint in constraints:
        column = snapshot.label(constraint.key)
        size = len(column.values)
        what = "spread", constraint.selector
        pods = snapshot.groups.by_row(pod.namespace, what, constraint.counts).up_to(snapshot.size)
        eligible = everywhere & _eligible(pod, constraint, snapshot, rows)
        among = rows if eligible.all() else rows[eligible]
        ids = _domain_ids(constraint.key, snapshot, among)
        result.append(
            _Domains(
                constraint=constraint,
                matches_self=constraint.selector.matches(pod.labels),
                values=tuple(column.values),
                by_row=pods,
                counts=np.bincount(ids, weights=pods[among], minlength=size).astype(np.int64),
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


def _domain_ids(key: str, snapshot: Snapshot, rows: IntArray) -> IntArray:
    """The ids of the domains of `rows`; those that lack the key count as one with those whose value is empty."""
    column = snapshot.label(key)
    ids = column.ids(rows)
    missing = ids == _MISSING
    if not missing.any() or "" not in column.values:
        return ids
    return np.where(missing, column.values.index(""), ids)


def _domains_among(key: str, snapshot: Snapshot, rows: IntArray) -> int:
    return len(rows) if key == HOSTNAME else len(np.unique(_domain_ids(key, snapshot, rows)))


def _rounded(values: npt.NDArray[np.float64]) -> IntArray:
    """To the nearest integer, halves up: of positive numbers."""
    floor = np.floor(values)
    result: IntArray = (floor + (values - floor >= 0.5)).astype(np.int64)
    return result
