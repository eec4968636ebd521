"""Telling our own writes from news: they come back through the cache, and say nothing that the reconcile does not know.

The event of a write may come before the write's own answer. So what changes while a write is under way is kept until
the answer tells which version was ours; the rest is news. Afterwards the cache holds our version, and its event is none.
An answer may also carry what others changed just before: that is news too, because its own event comes too late to count.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.runtime.predicates import changed

Written = TypeVar("Written", Object, Object | None)


class OwnWrites:
    """Sends the writes of one controller to the objects of one resource.

    `explained(old, new)` says whether a write of ours can be all that lies between two versions.
    """

    def __init__(self, cache: Cache, explained: Callable[[Object, Object], bool]) -> None:
        self._cache, self._explained = cache, explained
        self._under_way: dict[Key, list[tuple[str, bool]]] = {}

    def is_news(self, change: Change) -> bool:
        """Whether a reconcile should look at this change now."""
        if not changed(change):
            return False
        seen = self._under_way.get(change.key)
        if seen is None or change.new is None:
            return True
        explained = change.old is None or self._explained(change.old, change.new)
        seen.append((meta.resource_version(change.new), explained))
        return False

    async def send(self, key: Key, write: Awaitable[Written], wake: Callable[[], None]) -> Written:
        """Await `write` to the object `key`, which returns the object as it is then, and let the cache see it.

        `wake` is called when something beside the write turned out to have happened. Raises: whatever `write` raises.
        """
        seen = self._under_way[key] = []
        ours = ""
        try:
            written = await write
            if written is not None:
                ours = meta.resource_version(written)
                self._cache.wrote(written)
            return written
        finally:
            del self._under_way[key]
            if any(version != ours or not explained for version, explained in seen):
                wake()


def of_the_object(old: Object, new: Object) -> bool:
    """Our writes to an object itself are its status and its finalizer."""
    return (
        meta.generation_of(old) == meta.generation_of(new)
        and meta.labels_of(old) == meta.labels_of(new)
        and meta.annotations_of(old) == meta.annotations_of(new)
        and meta.is_deleting(old) == meta.is_deleting(new)
    )


def of_a_child(old: Object, new: Object) -> bool:
    """Our writes to a child are its metadata and its spec, never its status."""
    return old.get("status") == new.get("status") and meta.is_deleting(old) == meta.is_deleting(new)
