"""NodeAffinity: the pod's nodeSelector and required node affinity must match; preferred terms add their weights.

A profile may add an affinity that all its pods have besides their own.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any, ClassVar, Final

import numpy as np
from pydantic import Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange
from konverge.scheduler.framework import (
    ALL_PASS,
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
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_selector import Term, parse_terms
from konverge.scheduler.plugins.normalizing import share_of_largest
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

NO_MATCH: Final = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT: Final = "pod affinity terms conflict"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class SelectorTerm(PluginArgs):
    """A node selector term."""

    match_expressions: tuple[Mapping[str, Any], ...] = ()
    match_fields: tuple[Mapping[str, Any], ...] = ()

    @property
    def raw(self) -> Mapping[str, Any]:
        """The term as a manifest has it."""
        return self.model_dump(by_alias=True)

    @field_validator("match_expressions", "match_fields")
    @classmethod
    def _can_be_read(
        cls, entries: tuple[Mapping[str, Any], ...], info: ValidationInfo
    ) -> tuple[Mapping[str, Any], ...]:
        field = to_camel(str(info.field_name))
        for entry in entries:
            if not parse_terms([{field: [entry]}]):
                raise ValueError(
                    f"is no requirement on nodes: {dict(entry)}; give key, operator and values that fit it"
                )
        return entries


class RequiredTerms(PluginArgs):
    """What a node must match: one of the terms."""

    node_selector_terms: tuple[SelectorTerm, ...]


class PreferredTerm(PluginArgs):
    """A term and how much it counts, 1-100."""

    weight: int = Field(ge=1, le=100)
    preference: SelectorTerm


class AddedAffinity(PluginArgs):
    """A node affinity, as a pod has it."""

    required_during_scheduling_ignored_during_execution: RequiredTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class NodeAffinityArgs(PluginArgs):
    """The arguments of NodeAffinity."""

    added_affinity: AddedAffinity = AddedAffinity()
    """What the pods of the profile have besides their own."""


@dataclass(frozen=True, slots=True)
class Required:
    """What a pod requires of its node's labels: `labels` and, unless None, any of `terms`."""

    labels: Mapping[str, str]
    terms: tuple[Term, ...] | None

    @classmethod
    def of(cls, pod: PodInfo) -> "Required":
        """Read it off the pod."""
        required = pod.node_affinity.get(_REQUIRED)
        terms = None if required is None else parse_terms(required.get("nodeSelectorTerms") or ())
        return cls(pod.node_selector, terms)

    def matches(self, node: NodeInfo) -> bool:
        """Whether the node is one that the pod may go to."""
        if any(node.labels.get(key) != value for key, value in self.labels.items()):
            return False
        return self.terms is None or any(term.matches(node) for term in self.terms)

    def matches_rows(self, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """The same for many nodes."""
        result = np.ones(len(rows), dtype=np.bool_)
        for key, wanted in self.labels.items():
            result &= snapshot.label(key).judge_bool(rows, partial(eq, wanted))
        if self.terms is not None:
            any_term = np.zeros(len(rows), dtype=np.bool_)
            for term in self.terms:
                any_term |= term.matches_rows(snapshot, rows)
            result &= any_term
        return result

    def node_names(self) -> frozenset[str] | None:
        """The only nodes that could match, where every term says so by `metadata.name`; None: any."""
        if not self.terms:
            return None
        named = [term.node_names for term in self.terms]
        return None if None in named else frozenset().union(*(names for names in named if names is not None))


@dataclass(frozen=True, slots=True)
class _Preferred:
    weighted: tuple[tuple[int, Term], ...]

    @classmethod
    def of(cls, pod: PodInfo) -> "_Preferred":
        entries: list[Mapping[str, Any]] = pod.node_affinity.get(_PREFERRED) or []
        return cls(
            tuple(
                (entry["weight"], term)
                for entry in entries
                if entry.get("weight")
                for term in parse_terms([entry.get("preference") or {}])
            )
        )


class NodeAffinity(PreFilter, Filter, PreScore, Score):
    """See the module."""

    name: ClassVar[str] = "NodeAffinity"
    Args = NodeAffinityArgs
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABEL})

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        required = args.added_affinity.required_during_scheduling_ignored_during_execution
        preferred = args.added_affinity.preferred_during_scheduling_ignored_during_execution
        self._added = (
            None if required is None else Required({}, parse_terms(term.raw for term in required.node_selector_terms))
        )
        self._preferred = tuple(
            (each.weight, term) for each in preferred for term in parse_terms([each.preference.raw])
        )

    node_only = True

    def signature(self, _state: CycleState, pod: PodInfo, /) -> Hashable:
        """What the pod requires and prefers."""
        return frozenset(pod.node_selector.items()), pod.node_affinity_text

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """What the pod requires, with what it prefers."""
        return self.signature(CycleState(), pod)

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A node that matches and is new, or did not match before."""
        match cause:
            case NodeChange(old=old, new=NodeInfo() as new):
                required = Required.of(pod)
                return self._allows(required, new) and (old is None or not self._allows(required, old))
            case _:
                return True

    def pre_filter(self, state: CycleState, pod: PodInfo, _snapshot: Snapshot, /) -> PreFilterResult:
        """Skip a pod that asks for nothing; narrow the search where the terms name nodes."""
        required = Required.of(pod)
        if not required.labels and required.terms is None and self._added is None:
            return PreFilterResult(SKIP)
        state.write(required)
        names = required.node_names()
        if names is not None and not names:
            return PreFilterResult(unresolvable(CONFLICT))
        return PreFilterResult(node_names=names)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable where the added affinity, nodeSelector or affinity do not match."""
        if self._added is not None and not self._added.matches(node):
            return unresolvable(NOT_ENFORCED)
        return SUCCESS if (state.read(Required) or Required.of(pod)).matches(node) else unresolvable(NO_MATCH)

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the label columns."""
        mismatch = ~(state.read(Required) or Required.of(pod)).matches_rows(snapshot, rows)
        if self._added is None:
            return BatchVerdict({NO_MATCH: mismatch}, mismatch) if mismatch.any() else ALL_PASS
        outside = ~self._added.matches_rows(snapshot, rows)
        return BatchVerdict({NOT_ENFORCED: outside, NO_MATCH: mismatch & ~outside}, outside | mismatch)

    def pre_score(self, state: CycleState, pod: PodInfo, _snapshot: Snapshot, _rows: IntArray, /) -> Verdict:
        """Skip a pod for which nothing is preferred."""
        preferred = self._preferences(pod)
        state.write(preferred)
        return SUCCESS if preferred.weighted else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The sum of the weights of the preferred terms that match."""
        preferred = state.read(_Preferred) or self._preferences(pod)
        return sum(weight for weight, term in preferred.weighted if term.matches(node))

    def score_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same over the label columns."""
        preferred = state.read(_Preferred) or self._preferences(pod)
        scores = np.zeros(len(rows), dtype=np.int64)
        for weight, term in preferred.weighted:
            scores += weight * term.matches_rows(snapshot, rows)
        return scores

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """The largest sum is 100."""
        return share_of_largest(scores)

    def _allows(self, required: Required, node: NodeInfo) -> bool:
        return (self._added is None or self._added.matches(node)) and required.matches(node)

    def _preferences(self, pod: PodInfo) -> _Preferred:
        own = _Preferred.of(pod)
        return _Preferred((*self._preferred, *own.weighted)) if self._preferred else own
