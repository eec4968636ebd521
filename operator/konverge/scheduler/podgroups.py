"""The pods on nodes, grouped by what other pods may ask about them: namespace, labels, and their own affinity.

Pods of one workload are alike, so a selector is matched once a group instead of once a pod, and counts come a node at a
time: this is what topology spread and pod affinity are computed from.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.podaffinity import NO_TERMS, PodTerms
from konverge.scheduler.podinfo import PodInfo

_Key = tuple[str, frozenset[tuple[str, str]], bool, str]


@dataclass(slots=True, eq=False)
class PodGroup:
    """Pods that are alike. `pod` is one of them."""

    pod: PodInfo
    rows: Counter[int] = field(default_factory=Counter)
    """How many are on each row of the snapshot."""
    terms: PodTerms = NO_TERMS
    """What they say about other pods."""

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


class PodGroups:
    """All groups."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Key, PodGroup]] = {}
        self._with_affinity: dict[_Key, PodGroup] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        """Count `pod` on `row`."""
        key = _key(pod)
        groups = self._groups.setdefault(pod.namespace, {})
        group = groups.get(key)
        if group is None:
            group = groups[key] = PodGroup(pod)
            if pod.pod_affinity_text:
                group.terms = _terms_of(pod)
                self._with_affinity[key] = group
        group.rows[row] += 1

    def remove(self, row: int, pod: PodInfo) -> None:
        """Count it there no longer."""
        key = _key(pod)
        groups = self._groups[pod.namespace]
        rows = groups[key].rows
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        if not rows:
            del groups[key]
            self._with_affinity.pop(key, None)
            if not groups:
                del self._groups[pod.namespace]

    def __iter__(self) -> Iterator[PodGroup]:
        for groups in self._groups.values():
            yield from groups.values()

    def of(self, namespace: str) -> Iterator[PodGroup]:
        """The groups of one namespace."""
        return iter(self._groups.get(namespace, {}).values())

    def with_affinity(self) -> Iterator[PodGroup]:
        """The groups whose pods have affinity or anti-affinity to pods, required or preferred."""
        return iter(self._with_affinity.values())


def count_by_row(groups: Iterator[PodGroup], wanted: Callable[[PodGroup], bool], size: int) -> IntArray:
    """How many pods of the wanted groups are on each of the rows from 0 to `size` - 1."""
    counts = np.zeros(size, dtype=np.int64)
    for group in groups:
        if wanted(group):
            rows = group.rows
            counts[np.fromiter(rows, np.int64, len(rows))] += np.fromiter(rows.values(), np.int64, len(rows))
    return counts


def _terms_of(pod: PodInfo) -> PodTerms:
    """A pod on a node whose terms make no sense to us must not keep all other pods from being scheduled."""
    try:
        return pod.affinity_terms
    except (ValueError, KeyError):
        return NO_TERMS


def _key(pod: PodInfo) -> _Key:
    return pod.namespace, frozenset(pod.labels.items()), pod.deleting, pod.pod_affinity_text
