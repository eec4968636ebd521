"""Watch streams of the fake API server: committed changes flow in, events in each client's order and time flow out."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, NamedTuple

from konverge.errors import KonvergeError
from konverge.model.resource import ResourceType
from konverge.ports import INITIAL_EVENTS_END, Scope, WatchEvent, WatchEventType
from konverge.testing.fake_faults import Faults
from konverge.testing.fake_json import JsonDict, copy_json

GRACE: Final = 5.0
"""Seconds that a client waits on a silent stream beyond the watch's own timeout."""


Matcher = Callable[[Mapping[str, Any]], bool]


class Commit(NamedTuple):
    """One change: the object before and after it (None: absent), `after` of a delete being the last state."""

    version: int
    type: WatchEventType
    before: JsonDict | None
    after: JsonDict


class Stream:
    """One open watch. `push` gets every commit of the resource; `events` yields those that its selectors see."""

    def __init__(
        self, resource: ResourceType, scope: Scope, matches: Matcher, faults: Faults, newest: Callable[[], int]
    ) -> None:
        self.resource, self.scope = resource, scope
        self._matches, self._faults, self._newest = matches, faults, newest
        self._slowness, self._fate = faults.slowness(), faults.stream_fate()
        self._queue: deque[tuple[float, WatchEvent]] = deque()
        self._wake = asyncio.Event()
        self._silent = self._ended = False
        self._error: KonvergeError | None = None

    def push(self, commit: Commit) -> None:
        """Queue a commit, as the event that it is for this watch's selectors."""
        seen_before = commit.before is not None and self._matches(commit.before)
        seen_after = commit.type != "DELETED" and self._matches(commit.after)
        kind: WatchEventType
        match seen_before, seen_after:
            case True, True:
                kind = "MODIFIED"
            case False, True:
                kind = "ADDED"
            case True, False:
                kind = "DELETED"
            case _:
                return
        self._enqueue(WatchEvent(kind, metadata_of(commit.after) if self.scope.metadata_only else commit.after))

    def push_end_of_initial_events(self) -> None:
        """Queue the bookmark that tells that all there was has been pushed."""
        bookmark = self._bookmark()
        bookmark.object["metadata"]["annotations"] = {INITIAL_EVENTS_END: "true"}
        self._enqueue(bookmark)

    def _enqueue(self, event: WatchEvent) -> None:
        due = asyncio.get_running_loop().time() + self._faults.delay(self._slowness)
        if self._queue:
            due = max(due, self._queue[-1][0])
        self._queue.append((due, event))
        self._wake.set()

    def end(self, error: KonvergeError | None = None) -> None:
        """End the stream: cleanly, or with `error`. What it had not delivered is lost to it."""
        self._error, self._ended = error, True
        self._wake.set()

    def silence(self) -> None:
        """Say nothing more, and do not end: a half-open connection."""
        self._silent = True
        self._wake.set()

    async def events(self, timeout_seconds: float, bookmark_seconds: float) -> AsyncIterator[WatchEvent]:
        """Yield until the timeout, the idle timeout of a silent stream, or the end. Raises: the stream's fault."""
        time = asyncio.get_running_loop().time
        opened = last = bookmark = time()
        while not self._ended:
            now = time()
            self._meet_fate(now, opened)
            if self._silent or self._faults.partitioned:
                if now >= last + timeout_seconds + GRACE:
                    return
                until = min(last + timeout_seconds + GRACE, now + 1.0)  # a partition may heal meanwhile
            elif self._queue and self._queue[0][0] <= now:
                event = self._queue.popleft()[1]
                last = now
                yield WatchEvent(event.type, copy_json(event.object))
                continue
            elif now >= opened + timeout_seconds:
                return
            elif not self._queue and now >= bookmark + bookmark_seconds:
                bookmark = last = now
                yield self._bookmark()
                continue
            else:
                due = self._queue[0][0] if self._queue else bookmark + bookmark_seconds
                until = min(due, opened + timeout_seconds)
            if self._fate is not None:
                until = min(until, opened + self._fate.seconds)
            await self._sleep(until)
        if self._error is not None:
            raise self._error

    def _meet_fate(self, now: float, opened: float) -> None:
        # the sum, as the sleep has it: a difference can fall short of the seconds by rounding, for ever
        if self._fate is None or now < opened + self._fate.seconds or self._ended:
            return
        fate, self._fate = self._fate, None
        if not self._faults.active:
            return
        self._faults.happened[fate.kind] += 1
        if fate.error is None:
            self._silent = True
        else:
            raise fate.error

    async def _sleep(self, until: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            return

    def _bookmark(self) -> WatchEvent:
        kind = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        return WatchEvent("BOOKMARK", kind | {"metadata": {"resourceVersion": str(self._newest())}})


def metadata_of(obj: Mapping[str, Any]) -> JsonDict:
    """What is shown of `obj` to who asked for metadata alone."""
    return {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
