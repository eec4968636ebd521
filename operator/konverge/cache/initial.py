"""A list that comes as the beginning of a watch: initial events flow in until their end, its version flows out.

The server sends all there is as ADDED and then a bookmark that says so. What changes meanwhile may come in between.

Against lists in pages (2,000 custom resources and as many ConfigMaps from a local API server): a third less CPU here, a
third less memory, for there is no page to hold beside its objects, and no longer. But a server that knows initial events
may still keep the last bookmark back for want of progress notifications from its etcd; so the wait has a limit.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from konverge.cache.store import key_or_none
from konverge.errors import KonvergeError
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.ports import INITIAL_EVENTS_END, WatchEvent

LONGEST_PAUSE: Final = 10.0
"""Seconds without an event before the end of the initial events, after which it is not waited for any longer."""


class NoInitialEvents(KonvergeError):
    """The server streams, but does not tell where its initial events end."""


class InitialEventsCut(KonvergeError):
    """The stream ended before its initial events did."""


class ListSink(Protocol):
    """Where a list is delivered."""

    def listed(self, objects: Iterable[Object], *, rewound: bool) -> Iterable[Key]:
        """Some objects of a list. Returns their keys."""
        ...

    def list_complete(self, keys: AbstractSet[Key], version: str) -> None:
        """All objects of a list at `version` were delivered: what is not among `keys` is gone."""
        ...

    def deleted(self, obj: Object) -> None:
        """An object was deleted; this is its last state."""
        ...


class InitialEvents:
    """The keys that were delivered so far."""

    def __init__(self, sink: ListSink) -> None:
        self._sink = sink
        self.keys: set[Key] = set()

    async def read(self, stream: AsyncIterator[WatchEvent]) -> str:
        """Deliver the initial events of `stream` and return their version. What comes after them is left in it.

        Raises: NoInitialEvents; InitialEventsCut; what the stream raises.
        """
        while True:
            try:
                async with asyncio.timeout(LONGEST_PAUSE):
                    event = await anext(stream)
            except StopAsyncIteration:
                raise InitialEventsCut(f"the stream ended after {len(self.keys)} initial events") from None
            except TimeoutError as error:
                raise NoInitialEvents(f"their end did not come within {LONGEST_PAUSE:g} s") from error
            if version := self.take(event):
                return version

    def take(self, event: WatchEvent) -> str:
        """Deliver one event; the version of the complete list once this was its end, until then empty.

        Raises: NoInitialEvents.
        """
        if event.type == "BOOKMARK":
            if meta.annotations_of(event.object).get(INITIAL_EVENTS_END) != "true":
                raise NoInitialEvents("a bookmark came before the end of the initial events")
            return meta.resource_version(event.object)
        if event.type == "DELETED":
            self._sink.deleted(event.object)
            key = key_or_none(event.object)
            if key is not None:
                self.keys.discard(key)
        else:
            self.keys.update(self._sink.listed([event.object], rewound=False))
        return ""
