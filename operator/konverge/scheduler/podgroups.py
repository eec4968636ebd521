"""The pods on nodes, grouped by what other pods may ask about them: namespace, labels, and their own affinity.

Pods of one workload are alike, so a selector is matched once a group instead of once a pod. What was asked once is
counted on as pods come and go: this is what topology spread and pod affinity are computed from.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from konverge.scheduler.columns import InternedColumn
from konverge.scheduler.domains import Counts, DomainCounts, RowCounts
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.podaffinity import NO_TERMS, AffinityTerm, PodTerms, WeightedTerm
from konverge.scheduler.podinfo import PodInfo

_ASKED: Final = 128
"""So many questions are counted on, the latest used ones: 8 bytes a node or a domain each."""

GroupKey = tuple[str, frozenset[tuple[str, str]], bool, str]
"""What pods of a group have in common."""
_Labels = Callable[[str], InternedColumn[str | None]]
_Wanted = Callable[["PodGroup"], bool]

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True, eq=False)
class PodGroup:
    """Pods that are alike. `pod` is one of them."""

    pod: PodInfo
    rows: Counter[int] = field(default_factory=Counter)
    """How many are on each row of the snapshot."""
    terms: PodTerms = NO_TERMS
    """What they say about other pods."""
    counts: list[Counts] = field(default_factory=list)
    """What counts these pods, their own terms left out; at most once each."""
    own_counts: list[Counts] = field(default_factory=list)
    """The counts of those terms."""

    @property
    def namespace(self) -> str:
        """The namespace of all of them."""
        return self.pod.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of each."""
        return self.pod.labels

    @property
    def deleting(self) -> bool:
        """Whether they are on their way out."""
        return self.pod.deleting

    def add(self, row: int, pods: int) -> None:
        """So many of them more (or less) are on that row."""
        self.rows[row] += pods
        if not self.rows[row]:
            del self.rows[row]
        for counts in self.counts:
            counts.add(row, pods)
        for counts in self.own_counts:
            counts.add(row, pods)


class PodGroups:
    """All groups."""

    def __init__(self, labels: _Labels) -> None:
        """`labels` gives the column of a node label."""
        self._labels = labels
        self._groups: dict[str, dict[GroupKey, PodGroup]] = {}
        self._questions: LatestUsed[Hashable, _Question] = LatestUsed(_ASKED, self._no_longer)
        self.version = 0
        """Another number whenever `wanted` functions may say something else than before."""
        self.near: TermCounts[AffinityTerm] = TermCounts(labels)
        """The pods that require to be near others, by the term that says so."""
        self.apart: TermCounts[AffinityTerm] = TermCounts(labels)
        """The pods that keep apart from others."""
        self.preferring: TermCounts[WeightedTerm] = TermCounts(labels)
        """The pods that prefer, or prefer not, to be near others."""

    def add(self, row: int, pod: PodInfo) -> None:
        """Count `pod` on `row`."""
        key = group_key(pod)
        group = self._groups.setdefault(pod.namespace, {}).get(key)
        if group is None:
            group = self._groups[pod.namespace][key] = self._begin(pod)
        group.add(row, 1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Count it there no longer."""
        key = group_key(pod)
        groups = self._groups[pod.namespace]
        group = groups[key]
        group.add(row, -1)
        if not group.rows:
            del groups[key]
            self.near.release(group.terms.near)
            self.apart.release(group.terms.apart)
            self.preferring.release(group.terms.preferred)
            if not groups:
                del self._groups[pod.namespace]

    def of(self, namespace: str) -> Iterator[PodGroup]:
        """The groups of one namespace."""
        return iter(self._groups.get(namespace, {}).values())

    def __iter__(self) -> Iterator[PodGroup]:
        for groups in self._groups.values():
            yield from groups.values()

    def by_row(self, namespace: str, what: Hashable, wanted: _Wanted) -> RowCounts:
        """How many pods of the wanted groups of `namespace` are on each row. Equal `what` must mean equal `wanted`."""
        question = self._questions.get(
            ("by row", namespace, what),
            lambda: self._ask(RowCounts(), lambda group: group.namespace == namespace and wanted(group)),
        )
        assert isinstance(question.counts, RowCounts)
        return question.counts

    def by_domain(self, key: str, what: Hashable, wanted: _Wanted) -> DomainCounts:
        """How many pods of the wanted groups are in each domain of the node label `key`. `what` as above."""
        question = self._questions.get((key, what), lambda: self._ask(DomainCounts(self._labels(key)), wanted))
        assert isinstance(question.counts, DomainCounts)
        return question.counts

    def ask_anew(self) -> None:
        """Something that `wanted` functions read has changed: forget what they said."""
        self._questions.clear()
        self.version += 1
        for group in self:
            group.counts.clear()

    def _ask(self, counts: Counts, wanted: _Wanted) -> "_Question":
        question = _Question(counts, wanted)
        for group in self:
            if wanted(group):
                group.counts.append(counts)
                for row, pods in group.rows.items():
                    counts.add(row, pods)
        return question

    def _no_longer(self, question: "_Question") -> None:
        for group in self:
            if question.counts in group.counts:
                group.counts.remove(question.counts)

    def _begin(self, pod: PodInfo) -> PodGroup:
        group = PodGroup(pod)
        group.counts = [question.counts for question in self._questions if question.wanted(group)]
        if pod.pod_affinity_text:
            group.terms = terms_on_node(pod)
            group.own_counts = [
                *self.near.hold((term, term.key) for term in group.terms.near),
                *self.apart.hold((term, term.key) for term in group.terms.apart),
                *self.preferring.hold((each, each.term.key) for each in group.terms.preferred),
            ]
        return group


@dataclass(slots=True, eq=False)
class _Question:
    counts: Counts
    wanted: _Wanted


class TermCounts(Generic[T]):
    """Pods by domain, for each term that some pod on a node has."""

    def __init__(self, labels: _Labels) -> None:
        self._labels = labels
        self._counts: dict[T, DomainCounts] = {}
        self._holders: Counter[T] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __iter__(self) -> Iterator[tuple[T, DomainCounts]]:
        return iter(self._counts.items())

    def hold(self, terms: Iterable[tuple[T, str]]) -> Iterator[DomainCounts]:
        """A group has these terms, on those label keys; what is to count its pods, for each."""
        for term, key in terms:
            self._holders[term] += 1
            if term not in self._counts:
                self._counts[term] = DomainCounts(self._labels(key))
            yield self._counts[term]

    def release(self, terms: Iterable[T]) -> None:
        """The group is no more."""
        for term in terms:
            self._holders[term] -= 1
            if not self._holders[term]:
                del self._holders[term], self._counts[term]


def terms_on_node(pod: PodInfo) -> PodTerms:
    """The terms of a pod on a node. One whose terms make no sense to us must not keep all other pods from being scheduled."""
    try:
        return pod.affinity_terms
    except (ValueError, KeyError):
        return NO_TERMS


def group_key(pod: PodInfo) -> GroupKey:
    """The group that the pod is in while it is on a node."""
    return pod.namespace, frozenset(pod.labels.items()), pod.deleting, pod.pod_affinity_text
