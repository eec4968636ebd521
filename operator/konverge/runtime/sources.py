"""Where a controller's keys come from: its own resource, its children, watched kinds, and streams from elsewhere.

Changes of the caches flow in, keys flow into the queue. Everything that only replays what is there already (the first
list, a relist) comes in at low priority, so that a live edit does not wait behind ten thousand old objects.
"""

import logging
from collections.abc import AsyncIterator, Callable

from konverge.cache.backoff import Backoff
from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.ports import Clock
from konverge.runtime.declare import Mapper
from konverge.runtime.predicates import Predicate, changed
from konverge.workqueue.queue import LOW_PRIORITY

logger = logging.getLogger(__name__)

Enqueue = Callable[[Key, int], None]
"""Put a key into the queue at a priority."""


def connect_primary(cache: Cache, enqueue: Enqueue, predicate: Predicate = changed) -> None:
    """Every change of the reconciled resource that `predicate` lets through wakes that object."""

    def on_change(change: Change) -> None:
        if predicate(change):
            enqueue(change.key, _priority(change))

    cache.subscribe(on_change)


def connect_owned(cache: Cache, owner: ResourceType, enqueue: Enqueue, predicate: Predicate = changed) -> None:
    """A change of a child that `predicate` lets through wakes the `owner` object that controls it, before or after."""

    def on_change(change: Change) -> None:
        if not predicate(change):
            return
        for key in {key for obj in (change.old, change.new) if (key := owner_key(obj, owner)) is not None}:
            enqueue(key, _priority(change))

    cache.subscribe(on_change)


def connect_mapped(cache: Cache, mapper: Mapper, enqueue: Enqueue, predicate: Predicate = changed) -> None:
    """A change of a watched object that `predicate` lets through wakes what `mapper` names for it, before or after."""

    def on_change(change: Change) -> None:
        if not predicate(change):
            return
        for key in {key for obj in (change.old, change.new) if obj is not None for key in mapper(obj)}:
            enqueue(key, _priority(change))

    cache.subscribe(on_change)


async def follow(
    stream: AsyncIterator[Key],
    reopen: Callable[[], AsyncIterator[Key]],
    enqueue: Enqueue,
    *,
    clock: Clock,
    backoff: Backoff,
) -> None:
    """Every key of `stream` wakes that object, until the stream ends. One that fails is opened again, after a wait."""
    opened: AsyncIterator[Key] | None = stream
    while True:
        try:
            async for key in opened or reopen():
                enqueue(key, 0)
        except Exception:
            delay = backoff.next()
            logger.exception("an external source failed; opening it again in %.1f s", delay)
        else:
            return
        opened = None
        await clock.sleep(delay)


def owner_key(obj: Object | None, owner: ResourceType) -> Key | None:
    """The key of the `owner` object that controls `obj`; None when another kind does, or nobody."""
    controller = meta.controller_of(obj) if obj is not None else None
    if obj is None or controller is None or controller.get("kind") != owner.kind:
        return None
    if str(controller.get("apiVersion", "")).rpartition("/")[0] != owner.group:
        return None
    return Key(meta.key_of(obj).namespace if owner.namespaced else "", str(controller["name"]))


def _priority(change: Change) -> int:
    return LOW_PRIORITY if change.initial else 0
