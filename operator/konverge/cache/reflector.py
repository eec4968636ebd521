"""Keeps a sink equal to what the API server holds of one resource: pages and watch events flow in, puts and removals out.

    list all pages -> watch from the list's resourceVersion -> stream ends -> watch from the last resourceVersion seen
         ^                                  |
         +--- 410 or 404, after a backoff --+

Guarantees
- A version that the server called too old (410, on a stream, on connect, or for a page) is never used again: the resource
  is listed once, after a backoff, and compared with what the sink holds, so that missed deletions are delivered.
- Any other failure resumes from the last version. It never gives up, and never tries again without a wait.
- Each event or bookmark moves the version on, also one whose object is bad.
- A list whose continue tokens expire again and again, because it is read too slowly, is asked for in one piece.
- With `watch_list` the first list comes as the beginning of the watch, where the server can do that.
- A resource that is gone (404 twice running: its CRD was deleted) is empty; it is looked for again with a capped backoff.
Each kind of failure is logged once, not each time.
"""

import asyncio
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from konverge.cache.advice import explain
from konverge.cache.backoff import Backoff
from konverge.cache.health import ReflectorHealth
from konverge.cache.initial import InitialEvents, ListSink, NoInitialEvents
from konverge.errors import ApiError, BadRequest, ConnectionFailed, Gone, Invalid, KonvergeError, NotFound
from konverge.model.meta import Key, is_newer
from konverge.model.resource import Object, ResourceType
from konverge.ports import Clock, Page, Random, Reader, Scope, Watcher, WatchEvent

__all__ = ["ListWatcher", "Reflector", "ReflectorHealth", "Sink"]

PAGE_SIZE: Final = 500
"""Objects a page of a list."""

WATCH_SECONDS: Final = (300.0, 600.0)
"""A stream is asked to last a random time between these, so that many do not end at once."""

SHORT_STREAM: Final = 1.0
"""A stream that ends within this many seconds is treated as a failure: reopening it at once would be a hot loop."""

MAX_EXPIRED: Final = 2
"""After so many lists in a row of which a continue token expired, the next one is not paged."""

_log = logging.getLogger(__name__)


class ListWatcher(Reader, Watcher, Protocol):
    """The part of an API that a reflector uses."""


class Sink(ListSink, Protocol):
    """Where a reflector delivers. `rewound` of `listed`: the server's history went back; believe the list."""

    def changed(self, obj: Object) -> None:
        """An object was added or modified."""
        ...


class StreamEndedAtOnce(KonvergeError):
    """A stream ended right after it was opened."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the watch ended after {seconds:.1f} s")


class Reflector:
    """Lists and watches `resource` within `scope` for `sink`, until cancelled."""

    def __init__(
        self,
        api: ListWatcher,
        resource: ResourceType,
        scope: Scope,
        sink: Sink,
        *,
        clock: Clock,
        random: Random,
        watch_list: bool = False,
    ) -> None:
        self.health = ReflectorHealth(resource, scope, clock)
        self._api, self._resource, self._scope, self._sink = api, resource, scope, sink
        self._clock, self._random = clock, random
        self._backoff = Backoff(clock=clock, random=random)
        self._version = ""
        """Where to watch from; empty: list first."""
        self._newest = ""
        """The last version that the server showed, kept when `_version` is dropped."""
        self._absent = 0
        """How often running the server said that there is no such resource."""
        self._expired = 0
        """How many lists in a row ended because a continue token had expired."""
        self._watch_list = watch_list
        self._logged: object = None
        self._name = f"{resource} in {scope.namespace}" if scope.namespace else str(resource)

    @property
    def version(self) -> str:
        """The last resourceVersion that the server showed; empty before the first list."""
        return self._newest

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                if not (self._version or self._watch_list):
                    await self._list()
                await self._watch()
            except Exception as error:  # noqa: BLE001 - a watch that dies while the process lives is the worst outcome
                if self._is_refusal(error):
                    _log.debug("%s: no initial events from this server (%s); listing instead", self._name, error)
                    self._watch_list = False
                else:
                    await self._clock.sleep(self._failed(error))

    async def _list(self) -> None:
        """Deliver all pages. Only after the last one is the version to watch from known to be complete."""
        keys: set[Key] = set()
        page = await self._page("")
        rewound = _is_past(page.resource_version, self._newest)
        if rewound:
            _log.warning("%s: the server went back to an earlier state; taking it over", self._name)
        keys.update(self._sink.listed(page.items, rewound=rewound))
        while page.continue_token:
            await asyncio.sleep(0)  # thousands of objects: let others run between the pages
            page = await self._page(page.continue_token)
            keys.update(self._sink.listed(page.items, rewound=rewound))
        self._listed(keys, page.resource_version, rewound=rewound)

    def _listed(self, keys: AbstractSet[Key], version: str, *, rewound: bool) -> None:
        self._sink.list_complete(keys, "" if rewound else version)
        self._version = self._newest = version
        self._absent = self._expired = 0
        self.health.listed()

    async def _page(self, token: str) -> Page:
        limit = PAGE_SIZE if self._expired < MAX_EXPIRED else 0
        try:
            return await self._api.list(self._resource, self._scope, limit=limit, continue_token=token)
        except Gone:
            self._expired += bool(token)
            raise

    async def _watch(self) -> None:
        """Deliver one stream until it ends. Without a version to start from, it brings the list first."""
        opened = self._clock.monotonic()
        initial = None if self._version else InitialEvents(self._sink)
        stream = self._api.watch(
            self._resource,
            self._scope,
            resource_version=self._version,
            timeout_seconds=self._random.uniform(*WATCH_SECONDS),
            initial_events=initial is not None,
        )
        self.health.opened()
        try:
            if initial is not None:
                version = await initial.read(stream)
                if _is_past(version, self._newest):  # too late to take older objects over: a list can
                    await self._list()
                    return
                self._listed(initial.keys, version, rewound=False)
                self._works()
            async for event in stream:
                self._deliver(event)
        finally:
            self.health.closed()
            close = getattr(stream, "aclose", None)
            if close is not None:  # a generator left behind holds its connection until it is collected
                await close()
        lasted = self._clock.monotonic() - opened
        if lasted < SHORT_STREAM:
            raise StreamEndedAtOnce(lasted)
        self._works()

    def _deliver(self, event: WatchEvent) -> None:
        if self.health.error is not None or self._logged is not None:
            self._works()
        if event.type == "DELETED":
            self._sink.deleted(event.object)
        elif event.type != "BOOKMARK":
            self._sink.changed(event.object)
        version = _version_of(event.object)
        if version:
            self._version = self._newest = version

    def _is_refusal(self, error: Exception) -> bool:
        """Whether `error` says that the server gives no initial events."""
        asked = self._watch_list and not self._version
        return asked and isinstance(error, BadRequest | Invalid | NoInitialEvents)

    def _works(self) -> None:
        self._absent = 0
        self.health.delivered()
        if self._logged is not None:
            self._logged = None
            _log.info("%s: watching again", self._name)

    def _failed(self, error: Exception) -> float:
        """Note `error`, and decide how to go on: the seconds to wait."""
        self.health.failed(error)
        if isinstance(error, Gone | NotFound):
            self._version = ""
        if isinstance(error, NotFound):
            self._absent += 1
            # Twice, because a server that is just starting may say so once without meaning it.
            if self._absent == 2 and self.health.synced:
                self._sink.list_complete(frozenset(), "")
        else:
            self._absent = 0
        delay = self._backoff.next(at_least=(isinstance(error, ApiError) and error.retry_after) or 0.0)
        self._log_once(error, delay)
        return delay

    def _log_once(self, error: Exception, delay: float) -> None:
        kind = (type(error), error.status if isinstance(error, ApiError) else 0)
        if kind == self._logged or (isinstance(error, StreamEndedAtOnce) and self.health.failures < 3):
            return  # one short stream is a server or a proxy that restarts
        expected = isinstance(error, ApiError | ConnectionFailed)
        self._logged = kind
        level = logging.INFO if isinstance(error, Gone) else logging.WARNING if expected else logging.ERROR
        reason = explain(error, self._resource, self._scope)
        _log.log(level, "%s; trying again in %.1f s and on", reason, delay, exc_info=None if expected else error)


def _is_past(version: str, newest: str) -> bool:
    return version.isdecimal() and newest.isdecimal() and is_newer(newest, version)


def _version_of(obj: Any) -> str:
    """The resourceVersion of what may be no proper object."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else ""
