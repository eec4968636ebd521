"""InterPodAffinity: pods that want to be near certain pods, or apart from them, and those that others want so.

A rule counts both ways: a pod stays away from those that it keeps apart from, and from those that keep apart from it.
Counts are kept by domain: the value of a node label.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
from pydantic import Field

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.domains import DomainCounts
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange, PodChange
from konverge.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    BatchVerdict,
    CycleState,
    Filter,
    PluginArgs,
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
from konverge.scheduler.podaffinity import AffinityTerm
from konverge.scheduler.podgroups import PodGroup, terms_on_node
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
NOT_WANTED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityArgs(PluginArgs):
    """The arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = Field(default=1, ge=0, le=100)
    """The score for each pod in a node's domains whose required affinity the pod meets."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Leave pods that prefer nothing themselves out of scoring."""


class _Tally:
    """Sums by domain, for several label keys."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._sums: dict[str, IntArray] = {}

    def add(self, key: str, counts: DomainCounts, weight: int = 1) -> None:
        """Add `weight` for each pod counted in the domains of `key`."""
        if counts.pods:
            added = weight * counts.by_id
            self._sums[key] = self._sums[key] + added if key in self._sums else added

    def add_matching(self, key: str, terms: tuple[AffinityTerm, ...], weight: int = 1) -> None:
        """Add `weight` for each pod that all of `terms` mean, in the domain of its node."""
        snapshot = self._snapshot

        def wanted(group: PodGroup) -> bool:
            return _matches_all(terms, group, snapshot.namespace_labels(group.namespace))

        self.add(key, snapshot.groups.by_domain(key, terms, wanted), weight)

    def __bool__(self) -> bool:
        return bool(self._sums)

    @property
    def keys(self) -> Iterable[str]:
        """The label keys that anything was added for."""
        return self._sums.keys()

    def in_all(self, key: str) -> int:
        """The sum over all domains."""
        return int(self._sums[key].sum()) if key in self._sums else 0

    def of(self, key: str, node: NodeInfo) -> int:
        """The sum in the node's domain."""
        if key not in self._sums or key not in node.labels:
            return 0
        values = self._snapshot.label(key).values
        return sum(int(self._sums[key][i]) for i in np.flatnonzero(self._sums[key]) if values[i] == node.labels[key])

    def of_rows(self, key: str, rows: IntArray) -> IntArray:
        """The same for many nodes."""
        if key not in self._sums:
            return np.zeros(len(rows), dtype=np.int64)
        found: IntArray = self._sums[key][self._snapshot.label(key).ids(rows)]
        return found


@dataclass(frozen=True, slots=True)
class _Required:
    """Pods by domain: those that the pod must be near, that it must not be near, and that keep apart from it."""

    near: _Tally
    apart: _Tally
    unwelcoming: _Tally
    first: bool
    """Nobody is there to be near, and the pod would do itself: it may start the group anywhere."""


@dataclass(frozen=True, slots=True)
class _Preferred:
    tally: _Tally


class InterPodAffinity(PreFilter, Filter, PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "InterPodAffinity"
    Args = InterPodAffinityArgs
    events = frozenset(
        {
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_GONE,
            ClusterEvent.NODE_LABEL,
            ClusterEvent.POD_GONE,
            ClusterEvent.POD_PLACED,
        }
    )

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args = args

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """Who the pod is to others, and what it wants of them."""
        return pod.namespace, frozenset(pod.labels.items()), pod.pod_affinity_text

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A pod that is to be near came, one that is to be apart left, or a node is new or has other labels.

        Beyond kube-scheduler: each anti-affinity term counts by itself, a pod that waits for the last of its group to
        leave is tried, and so is every pod when labels change, since those of others may name any label, or when a node
        goes, with which its pods count no longer.
        """
        terms = pod.affinity_terms
        match cause:
            case NodeChange(old=None, new=NodeInfo() as new):
                return all(term.key in new.labels for term in terms.near)
            case PodChange(old=None, new=PodInfo() as new):
                return _may_be_meant(terms.near, new)
            case PodChange(old=PodInfo() as gone, new=None):
                return (
                    _may_be_meant(terms.near, gone)
                    or any(_may_be_meant((term,), gone) for term in terms.apart)
                    or any(_may_be_meant((term,), pod) for term in gone.affinity_terms.apart)
                )
            case PodChange(old=PodInfo() as before, new=PodInfo() as after):
                return _may_be_meant(terms.near, before) != _may_be_meant(terms.near, after) or any(
                    _may_be_meant((term,), before) and not _may_be_meant((term,), after) for term in terms.apart
                )
            case _:
                return True

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Count pods by domain; skip a pod that requires nothing and that nobody keeps apart from."""
        near, apart, unwelcoming = _Tally(snapshot), _Tally(snapshot), _Tally(snapshot)
        own_namespace = snapshot.namespace_labels(pod.namespace)
        for term, counts in snapshot.groups.apart:
            if term.matches(pod.namespace, pod.labels, own_namespace):
                unwelcoming.add(term.key, counts)
        terms = pod.affinity_terms
        if not (terms.near or terms.apart or unwelcoming):
            return PreFilterResult(SKIP)
        for term in terms.near:
            near.add_matching(term.key, terms.near)
        for term in terms.apart:
            apart.add_matching(term.key, (term,))
        first = not near and _matches_all(terms.near, pod, own_namespace)
        state.write(_Required(near, apart, unwelcoming, first))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable where those to be near are not; rejected where somebody is to be kept apart from."""
        required = state.read(_Required)
        if required is None:
            return SUCCESS
        terms = pod.affinity_terms
        if any(term.key not in node.labels for term in terms.near):
            return unresolvable(NOT_NEAR)
        if not required.first and any(required.near.of(term.key, node) <= 0 for term in terms.near):
            return unresolvable(NOT_NEAR)
        if any(required.apart.of(term.key, node) > 0 for term in terms.apart):
            return unschedulable(NOT_APART)
        if any(required.unwelcoming.of(key, node) > 0 for key in required.unwelcoming.keys):
            return unschedulable(NOT_WANTED)
        return SUCCESS

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the label columns."""
        required = state.read(_Required)
        none = np.zeros(len(rows), dtype=np.bool_)
        if required is None:
            return BatchVerdict({})
        terms = pod.affinity_terms
        not_near = none.copy()
        for term in terms.near:
            not_near |= snapshot.label(term.key).ids(rows) == 0
            if not required.first:
                not_near |= required.near.of_rows(term.key, rows) <= 0
        not_apart = ~not_near & _any_positive(required.apart, (term.key for term in terms.apart), rows)
        unwelcoming = required.unwelcoming
        not_wanted = ~not_near & ~not_apart & _any_positive(unwelcoming, unwelcoming.keys, rows)
        return BatchVerdict({NOT_NEAR: not_near, NOT_APART: not_apart, NOT_WANTED: not_wanted}, not_near)

    def limits(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Limits:
        """Of those to be near one must stay; of those to keep apart from, and that keep apart, none may."""
        required = state.read(_Required)
        if required is None:
            return Limits()
        none, terms, found = np.zeros(len(rows), dtype=np.int64), pod.affinity_terms, list[Limit]()
        for key in dict.fromkeys(term.key for term in terms.near):
            lacking = (snapshot.label(key).ids(rows) == 0).astype(np.int64)
            found.append(Limit(NOT_NEAR, WEIGHTLESS, lacking, none))
        found += () if required.first else self._near_limits(required.near, pod, snapshot, rows)
        for key in dict.fromkeys(term.key for term in terms.apart):
            here = tuple(term for term in terms.apart if term.key == key)
            what = "apart", here, snapshot.groups.version
            weight = Weight(what, partial(_matching, here, snapshot), alike=True)
            found.append(Limit(NOT_APART, weight, required.apart.of_rows(key, rows), none, _has(key, snapshot, rows)))
        own_namespace = snapshot.namespace_labels(pod.namespace)
        for key in required.unwelcoming.keys:
            asks = "unwelcoming", key, pod.namespace, frozenset(pod.labels.items()), frozenset(own_namespace.items())
            weight = Weight(asks, partial(_unwelcoming, key, pod, own_namespace), alike=True)
            used = required.unwelcoming.of_rows(key, rows)
            found.append(Limit(NOT_WANTED, weight, used, none, _has(key, snapshot, rows)))
        return Limits(tuple(found), first_only=True)

    def _near_limits(self, near: _Tally, pod: PodInfo, snapshot: Snapshot, rows: IntArray) -> Iterator[Limit]:
        terms = pod.affinity_terms.near
        times = Counter(term.key for term in terms)
        there = max((near.in_all(key) // count for key, count in times.items()), default=0)
        # Where all of them are on one node, it does not matter who of them goes: without any the pod would be the first.
        alone = _matches_all(terms, pod, snapshot.namespace_labels(pod.namespace))
        for key, count in times.items():
            weight = Weight(
                ("near", terms, count, snapshot.groups.version), partial(_nearness, terms, count, snapshot), alike=True
            )
            most = np.full(len(rows), -1)
            yield Limit(NOT_NEAR, weight, -near.of_rows(key, rows), most, waived_at=-count * there if alone else None)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, _rows: IntArray, /) -> Verdict:
        """Sum the weights by domain: of what the pod prefers, and of what pods there prefer or require; skip without any."""
        preferred = pod.affinity_terms.preferred
        if self._args.ignore_preferred_terms_of_existing_pods and not preferred:
            return SKIP
        tally = _Tally(snapshot)
        for each in preferred:
            tally.add_matching(each.term.key, (each.term,), each.weight)
        own_namespace = snapshot.namespace_labels(pod.namespace)
        for each, counts in snapshot.groups.preferring:
            if each.term.matches(pod.namespace, pod.labels, own_namespace):
                tally.add(each.term.key, counts, each.weight)
        hard = self._args.hard_pod_affinity_weight
        for term, counts in snapshot.groups.near if hard else ():
            if term.matches(pod.namespace, pod.labels, own_namespace):
                tally.add(term.key, counts, hard)
        state.write(_Preferred(tally))
        return SUCCESS if tally else SKIP

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
        """The sum over the node's domains."""
        preferred = state.read(_Preferred)
        return sum(preferred.tally.of(key, node) for key in preferred.tally.keys) if preferred else 0

    def score_batch(self, state: CycleState, _pod: PodInfo, _snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the label columns."""
        preferred = state.read(_Preferred)
        scores = np.zeros(len(rows), dtype=np.int64)
        if preferred:
            for key in preferred.tally.keys:
                scores += preferred.tally.of_rows(key, rows)
        return scores

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """The lowest is 0 and the highest 100; all equal are 0."""
        if not len(scores) or scores.min() == scores.max():
            return np.zeros_like(scores)
        low, high = int(scores.min()), int(scores.max())
        shares: IntArray = (MAX_SCORE * ((scores - low).astype(np.float64) / float(high - low))).astype(np.int64)
        return shares


def _matches_all(
    terms: tuple[AffinityTerm, ...], pods: PodGroup | PodInfo, namespace_labels: Mapping[str, str]
) -> bool:
    return bool(terms) and all(term.matches(pods.namespace, pods.labels, namespace_labels) for term in terms)


def _nearness(terms: tuple[AffinityTerm, ...], times: int, snapshot: Snapshot, pod: PodInfo) -> int:
    return -times * _matches_all(terms, pod, snapshot.namespace_labels(pod.namespace))


def _matching(terms: tuple[AffinityTerm, ...], snapshot: Snapshot, pod: PodInfo) -> int:
    return sum(_matches_all((term,), pod, snapshot.namespace_labels(pod.namespace)) for term in terms)


def _unwelcoming(key: str, wanted: PodInfo, namespace_labels: Mapping[str, str], pod: PodInfo) -> int:
    """How many terms of a pod on a node keep the wanted one out of the node's domain of `key`."""
    terms = (term for term in terms_on_node(pod).apart if term.key == key)
    return sum(term.matches(wanted.namespace, wanted.labels, namespace_labels) for term in terms)


def _has(key: str, snapshot: Snapshot, rows: IntArray) -> BoolArray:
    """Which nodes have the label, so that the pods on them are in a domain of it."""
    has: BoolArray = snapshot.label(key).ids(rows) != 0
    return has


def _any_positive(tally: _Tally, keys: Iterable[str], rows: IntArray) -> BoolArray:
    result = np.zeros(len(rows), dtype=np.bool_)
    for key in keys:
        result |= tally.of_rows(key, rows) > 0
    return result


def _may_be_meant(terms: tuple[AffinityTerm, ...], other: PodInfo) -> bool:
    """Whether all of the terms, and at least one, mean the pod; the labels of its namespace are taken to fit."""
    return bool(terms) and all(
        (other.namespace in term.namespaces or not term.namespace_selector.never)
        and term.selector.matches(other.labels)
        for term in terms
    )
