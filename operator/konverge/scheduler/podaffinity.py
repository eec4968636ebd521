"""What a pod says about the pods it wants near it or not: the terms of `podAffinity` and `podAntiAffinity`, parsed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge.model.selectors import Selector

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods of some namespaces that a selector picks, in the same domain of `key`."""

    key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    """Picks further namespaces, by their labels."""

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod with `labels` is meant; `namespace_labels` are those of its namespace."""
        among = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return among and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term; `weight` is negative for one that is to be avoided."""

    term: AffinityTerm
    weight: int


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of a pod."""

    near: tuple[AffinityTerm, ...] = ()
    """Required: every one must be met by the domains of the pod's node."""
    apart: tuple[AffinityTerm, ...] = ()
    """Required: none may be met."""
    preferred: tuple[WeightedTerm, ...] = ()

    @classmethod
    def of(cls, affinity: Mapping[str, Any], namespace: str) -> "PodTerms":
        """Read them off the `spec.affinity` of a pod in `namespace`."""
        near, apart = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        if not (near or apart):
            return NO_TERMS
        return cls(
            _terms(near.get(_REQUIRED), namespace),
            _terms(apart.get(_REQUIRED), namespace),
            (*_weighted(near.get(_PREFERRED), namespace, 1), *_weighted(apart.get(_PREFERRED), namespace, -1)),
        )


NO_TERMS: Final = PodTerms()


def _terms(entries: Iterable[Mapping[str, Any]] | None, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(_term(entry, namespace) for entry in entries or ())


def _weighted(entries: Iterable[Mapping[str, Any]] | None, namespace: str, sign: int) -> Iterable[WeightedTerm]:
    for entry in entries or ():
        yield WeightedTerm(_term(entry["podAffinityTerm"], namespace), sign * entry["weight"])


def _term(entry: Mapping[str, Any], namespace: str) -> AffinityTerm:
    named, picked = entry.get("namespaces") or (), entry.get("namespaceSelector")
    return AffinityTerm(
        key=entry["topologyKey"],
        selector=Selector.of(entry.get("labelSelector")),
        namespaces=frozenset(named) if named or picked is not None else frozenset({namespace}),
        namespace_selector=Selector.of(picked),
    )
