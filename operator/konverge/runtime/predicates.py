"""Which changes of an object are worth a reconcile. Changes flow in, verdicts flow out.

`changed` is the default everywhere. A narrower one saves reconciles and gives up what it does not see: with
`generation_changed` on the reconciled resource, a status that was wiped by hand is not rebuilt until something else
wakes the object. Objects that come and go pass every predicate here; a combinator only says what its parts say.
"""

from collections.abc import Callable, Mapping

from konverge.cache.store import Change
from konverge.model import meta
from konverge.model.resource import Object

Predicate = Callable[[Change], bool]
"""Whether a change is worth a reconcile. Must be quick and must not wait."""


def changed(change: Change) -> bool:
    """Any change but a replay of the very same version."""
    return _differs(change, meta.resource_version)


def generation_changed(change: Change) -> bool:
    """The spec was edited, or deletion was asked for."""
    return _differs(change, lambda obj: (meta.generation_of(obj), meta.is_deleting(obj)))


def labels_changed(change: Change) -> bool:
    """A label was edited."""
    return _differs(change, meta.labels_of)


def annotations_changed(change: Change) -> bool:
    """An annotation was edited."""
    return _differs(change, meta.annotations_of)


def any_of(*predicates: Predicate) -> Predicate:
    """What at least one of `predicates` lets through."""

    def one_does(change: Change) -> bool:
        return any(predicate(change) for predicate in predicates)

    return one_does


def all_of(*predicates: Predicate) -> Predicate:
    """What every one of `predicates` lets through."""

    def all_do(change: Change) -> bool:
        return all(predicate(change) for predicate in predicates)

    return all_do


def not_(predicate: Predicate) -> Predicate:
    """What `predicate` holds back."""

    def it_does_not(change: Change) -> bool:
        return not predicate(change)

    return it_does_not


def _differs(change: Change, part: Callable[[Object], str | tuple[int, bool] | Mapping[str, str]]) -> bool:
    if change.old is None or change.new is None:
        return True
    return part(change.old) != part(change.new)
