"""Which changes of an object are worth a reconcile. Changes flow in, verdicts flow out."""

from collections.abc import Callable

from konverge.cache.store import Change, ChangeType
from konverge.model import meta

Predicate = Callable[[Change], bool]
"""Whether a change is worth a reconcile."""


def changed(change: Change) -> bool:
    """Any change but a replay of the very same version."""
    if change.old is None or change.new is None:
        return True
    return meta.resource_version(change.old) != meta.resource_version(change.new)


def generation_changed(change: Change) -> bool:
    """The spec was edited, or deletion was asked for; objects that come and go count."""
    if change.type is not ChangeType.UPDATED or change.old is None or change.new is None:
        return True
    return meta.generation_of(change.old) != meta.generation_of(change.new) or meta.is_deleting(
        change.old
    ) != meta.is_deleting(change.new)


def labels_changed(change: Change) -> bool:
    """A label was edited; objects that come and go count."""
    if change.old is None or change.new is None:
        return True
    return meta.labels_of(change.old) != meta.labels_of(change.new)
