"""Kubernetes events: what happened to an object, for `kubectl describe` and `kubectl events`.

Calls never block and never raise: an event goes into a bounded queue that one task empties. Like events within ten
minutes become one with a count, and an object that talks too much is limited, as client-go's recorder does.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

from konverge.cache.advice import missing_rule
from konverge.errors import KonvergeError, NotFound
from konverge.model import meta
from konverge.model.resource import Event, Object
from konverge.ports import Clock, PatchType, Writer

logger = logging.getLogger(__name__)

SERIES_SECONDS: Final = 600.0
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
REMEMBERED: Final = 4096
PENDING: Final = 1000
MAX_NOTE: Final = 1024


@dataclass(slots=True)
class _Series:
    """One event that is repeating: its object on the server and its count."""

    name: str
    namespace: str
    last: float
    count: int = 1


@dataclass(slots=True)
class _Budget:
    """How many more events an object may cause: 25 at once, one more every five minutes."""

    tokens: float
    since: float


@dataclass(frozen=True, slots=True)
class _Pending:
    """One write to come: a new event, or the next count of a series."""

    series: _Series
    body: dict[str, Any] | None
    count: int
    at: datetime


class Recent(NamedTuple):
    """An event as its object's story tells it: how many seconds ago it came last, and how often it came."""

    ago: float
    type: str
    reason: str
    message: str
    times: int


class EventRecorder:
    """Implements `ports.Recorder` on an API server. `run` does the writing; without it events only pile up and drop."""

    def __init__(self, writer: Writer, clock: Clock, *, component: str, instance: str) -> None:
        self._writer, self._clock = writer, clock
        self._component, self._instance = component, instance
        self._pending: asyncio.Queue[_Pending] = asyncio.Queue(PENDING)
        self._series: OrderedDict[tuple[str, str, str, str], _Series] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self.dropped = 0
        self._refused = False

    def event(
        self,
        regarding: Object,
        event_type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        """Record one event; see `ports.Recorder`."""
        now = self._clock.monotonic()
        identity = (meta.uid_of(regarding), event_type, reason, message)
        series = self._series.get(identity)
        if series is not None and now - series.last <= SERIES_SECONDS:
            series.last, series.count = now, series.count + 1
            if self._allowed(identity[0], now):
                self._put(_Pending(series, None, series.count, self._clock.now()))
            return
        if not self._allowed(identity[0], now):
            self.dropped += 1
            return
        key = meta.key_of(regarding)
        series = _Series(f"{key.name[:200]}.{uuid4().hex[:16]}", key.namespace or "default", now)
        self._series[identity] = series
        self._series.move_to_end(identity)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        body = self._body(regarding, series, event_type, reason, message, action)
        self._put(_Pending(series, body, 1, self._clock.now()))

    def recent(self, uid: str) -> list[Recent]:
        """What was recorded about the object of that uid and is still remembered, the newest first."""
        now = self._clock.monotonic()
        found = [
            Recent(now - series.last, event_type, reason, message, series.count)
            for (about, event_type, reason, message), series in self._series.items()
            if about == uid
        ]
        return sorted(found)

    async def run(self) -> None:
        """Write what is recorded, for ever."""
        while True:
            pending = await self._pending.get()
            try:
                await self._write(pending)
            except KonvergeError as error:
                self.dropped += 1
                rule = missing_rule(error, Event)
                if rule and not self._refused:  # once: without the permission it is every event
                    self._refused = True
                    logger.warning("events are not written: %s. %s", error, rule)
                else:
                    logger.debug("event %s not written: %s", pending.series.name, error)
            finally:
                self._pending.task_done()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written; `run` must be running."""
        await self._pending.join()

    async def _write(self, pending: _Pending) -> None:
        series = pending.series
        if pending.body is not None:
            await self._writer.create(Event, pending.body, series.namespace)
            return
        patch = {"series": {"count": pending.count, "lastObservedTime": _micro(pending.at)}}
        try:
            await self._writer.patch(Event, series.name, patch, series.namespace, patch_type=PatchType.MERGE)
        except NotFound:
            series.last = float("-inf")  # expired on the server: the next one starts anew

    def _put(self, pending: _Pending) -> None:
        if self._pending.full():
            self._pending.get_nowait()
            self._pending.task_done()
            self.dropped += 1
        self._pending.put_nowait(pending)

    def _allowed(self, uid: str, now: float) -> bool:
        budget = self._budgets.get(uid)
        if budget is None:
            budget = self._budgets[uid] = _Budget(float(BURST), now)
            while len(self._budgets) > REMEMBERED:
                self._budgets.popitem(last=False)
        budget.tokens = min(float(BURST), budget.tokens + (now - budget.since) / REFILL_SECONDS)
        budget.since = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    def _body(
        self, regarding: Object, series: _Series, event_type: str, reason: str, message: str, action: str
    ) -> dict[str, Any]:
        key = meta.key_of(regarding)
        reference = {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": key.name,
            "uid": meta.uid_of(regarding),
        }
        if key.namespace:
            reference["namespace"] = key.namespace
        return {
            "apiVersion": Event.api_version,
            "kind": Event.kind,
            "metadata": {"name": series.name, "namespace": series.namespace},
            "regarding": reference,
            "type": event_type,
            "reason": reason,
            "action": action or reason,
            "note": message[:MAX_NOTE],
            "eventTime": _micro(self._clock.now()),
            "reportingController": self._component,
            "reportingInstance": self._instance,
        }


def _micro(moment: datetime) -> str:
    """RFC 3339 with microseconds, the form of `metav1.MicroTime`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
