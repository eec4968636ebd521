"""The work queue: keys of objects that changed flow in, keys to reconcile flow out, one worker a key at a time.

Guarantees
- A key is handed out again only after `done`: it never runs twice at once.
- A key that is added while it is processed is handed out once more after `done`: no change is lost.
- A key waits in one place only. An `add` of a delayed key makes it ready now; of two delays the earlier wins; a delay asked
  for a key that is ready anyway is absorbed, because the run to come asks for its own.
- Ready keys go by priority, and age: each point of priority is worth `SECONDS_PER_PRIORITY` of waiting, so a key of
  `LOW_PRIORITY` overtakes ordinary keys that came 30 s after it, however many there are.

It grows with the number of distinct keys and with nothing else. All calls but `get` and `drain` are synchronous, and all
belong to the one thread of the event loop: there are no locks.
"""

import asyncio
import contextlib
import heapq
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from konverge.errors import KonvergeError
from konverge.ports import Clock
from konverge.workqueue.ratelimit import RateLimiter, default_limiter

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY: Final = -100
"""For what may wait: the initial list and resyncs."""

SECONDS_PER_PRIORITY: Final = 0.3
"""How long a key waits to make up for one point of priority."""

_SLACK: Final = 64
"""Outdated heap entries that are tolerated beside as many as there are live ones."""


class QueueShutDown(KonvergeError):
    """The queue was shut down: the worker ends."""


class QueueObserver(Protocol):
    """What metrics see of one queue. Called on the hot path: must be quick and must not raise."""

    def on_add(self) -> None:
        """A key was accepted that did not wait already."""
        ...

    def on_depth(self, priority: int, depth: int) -> None:
        """`depth` keys of `priority` are ready now."""
        ...

    def on_queue_duration(self, seconds: float) -> None:
        """A key was handed out, `seconds` after it was added."""
        ...

    def on_work_duration(self, seconds: float) -> None:
        """A key was done, `seconds` after it was handed out."""
        ...

    def on_retry(self) -> None:
        """A key was added with a delay."""
        ...


class _Ready(NamedTuple, Generic[K]):
    """A key that may be handed out. The heap orders by `rank`, then by `sequence`, which is unique: no key is compared."""

    rank: float
    sequence: int
    priority: int
    since: float
    key: K


class _Delayed(NamedTuple, Generic[K]):
    """A key that becomes ready at `due`, a monotonic time."""

    due: float
    sequence: int
    priority: int
    key: K


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers: `key = await get()`, work, `done(key)`.

    `name` is for logs and metrics. Without `limiter` client-go's default one is used.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        limiter: RateLimiter[K] | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self.name = name
        self._clock, self._observer = clock, observer
        self._limiter: RateLimiter[K] = default_limiter(clock) if limiter is None else limiter
        self._sequence = 0
        self._ready: dict[K, _Ready[K]] = {}
        self._ready_heap: list[_Ready[K]] = []
        self._delayed: dict[K, _Delayed[K]] = {}
        self._delayed_heap: list[_Delayed[K]] = []
        self._processing: dict[K, float] = {}
        self._again: dict[K, tuple[int, float]] = {}
        """Added while processed: the priority and the time of the add."""
        self._depths: Counter[int] = Counter()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._shut_down = False

    # Adding

    def add(self, key: K, priority: int = 0) -> None:
        """Hand out `key` as soon as its turn comes. Of several adds the highest priority counts, and the oldest time."""
        if self._shut_down:
            return
        delayed = self._delayed.pop(key, None)
        if delayed is not None:
            priority = max(priority, delayed.priority)
        self._enqueue(key, priority, self._clock.monotonic())
        if delayed is not None:
            self._tidy_delayed()

    def add_after(self, key: K, seconds: float, priority: int = 0) -> None:
        """Hand out `key` when `seconds` are over. Needs a running event loop when `seconds` is above 0."""
        if seconds <= 0:
            self.add(key, priority)
            return
        if self._shut_down:
            return
        if self._observer:
            self._observer.on_retry()
        if key in self._ready or key in self._again:
            return
        due = self._clock.monotonic() + seconds
        held = self._delayed.get(key)
        if held is not None:
            if held.due <= due and held.priority >= priority:
                return
            due, priority = min(due, held.due), max(priority, held.priority)
        self._sequence += 1
        entry = _Delayed(due, self._sequence, priority, key)
        self._delayed[key] = entry
        heapq.heappush(self._delayed_heap, entry)
        self._tidy_delayed()

    def add_rate_limited(self, key: K, priority: int = 0) -> None:
        """Hand out `key` again after the wait that the limiter asks for; counts as one failure of it."""
        if not self._shut_down:
            self.add_after(key, self._limiter.when(key), priority)

    def forget(self, key: K) -> None:
        """Start the waits of `key` afresh: it succeeded, or is gone."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """How often `key` was added rate-limited since it was forgotten last."""
        return self._limiter.failures(key)

    # Taking

    async def get(self) -> K:
        """Wait for the next key. The caller must call `done` with it, whatever happens.

        Raises: QueueShutDown once the queue is shut down, even when keys are left.
        """
        while not self._shut_down:
            if self._delayed_heap:
                self._promote()
            if self._ready:
                return self._take()
            await self._wait_for_key()
        raise QueueShutDown(f"work queue {self.name} is shut down")

    def done(self, key: K) -> None:
        """The work on `key` ended, well or not. A key that was added meanwhile becomes ready.

        Raises: KeyError when `key` is not being processed.
        """
        started = self._processing.pop(key, None)
        if started is None:
            raise KeyError(f"work queue {self.name}: done({key!r}) without a get() that returned it")
        if self._observer:
            self._observer.on_work_duration(self._clock.monotonic() - started)
        again = self._again.pop(key, None)
        if again is not None and not self._shut_down:
            self._make_ready(key, *again)
        if self._drainers and not self._processing:
            self._release_drainers()

    # Stopping

    def shut_down(self) -> None:
        """Stop: waiting and later getters raise QueueShutDown, later adds are ignored. Keys being processed go on."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_getter()

    async def drain(self) -> None:
        """Shut down, then wait until no key is being processed."""
        self.shut_down()
        while self._processing:
            drained = asyncio.get_running_loop().create_future()
            self._drainers.append(drained)
            await drained

    # Looking

    def __len__(self) -> int:
        """How many keys are ready now. Delayed keys and those being processed do not count."""
        return len(self._ready)

    @property
    def ready(self) -> Mapping[K, int]:
        """The keys that are ready, in the order in which they would be handed out now, each with its priority."""
        return {entry.key: entry.priority for entry in sorted(self._ready.values())}

    @property
    def delayed(self) -> Mapping[K, float]:
        """The delayed keys, soonest first, each with the seconds left."""
        now = self._clock.monotonic()
        return {entry.key: max(0.0, entry.due - now) for entry in sorted(self._delayed.values())}

    @property
    def processing(self) -> Mapping[K, float]:
        """The keys being processed, oldest first, each with the seconds since it was handed out."""
        now = self._clock.monotonic()
        return {key: now - started for key, started in self._processing.items()}

    # Inside

    def _enqueue(self, key: K, priority: int, since: float) -> None:
        """Make a key of any state ready, or note that it has to run again."""
        if key in self._processing:
            held = self._again.get(key)
            if held is None:
                self._again[key] = (priority, since)
                self._accepted()
            elif held[0] < priority:
                self._again[key] = (priority, held[1])
            return
        waiting = self._ready.get(key)
        if waiting is None:
            self._accepted()
            self._make_ready(key, priority, since)
        elif waiting.priority < priority:
            self._change_depth(waiting.priority, -1)
            self._push(key, priority, waiting.since)
            self._tidy_ready()

    def _accepted(self) -> None:
        if self._observer:
            self._observer.on_add()

    def _make_ready(self, key: K, priority: int, since: float) -> None:
        self._push(key, priority, since)
        self._wake_getter()

    def _push(self, key: K, priority: int, since: float) -> None:
        self._sequence += 1
        entry = _Ready(since - priority * SECONDS_PER_PRIORITY, self._sequence, priority, since, key)
        self._ready[key] = entry
        heapq.heappush(self._ready_heap, entry)
        self._change_depth(priority, 1)

    def _take(self) -> K:
        """Move the first ready key to processing."""
        entry = heapq.heappop(self._ready_heap)
        while self._ready.get(entry.key) is not entry:  # outdated: its priority was raised
            entry = heapq.heappop(self._ready_heap)
        key = entry.key
        del self._ready[key]
        now = self._clock.monotonic()
        self._processing[key] = now
        self._change_depth(entry.priority, -1)
        if self._observer:
            self._observer.on_queue_duration(now - entry.since)
        return key

    def _change_depth(self, priority: int, by: int) -> None:
        if self._observer is None:
            return
        depth = self._depths[priority] + by
        if depth:
            self._depths[priority] = depth
        else:
            del self._depths[priority]  # priorities are the caller's: do not collect them
        self._observer.on_depth(priority, depth)

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.cancelled():
                with contextlib.suppress(ValueError):  # a wake-up may have dropped it already
                    self._getters.remove(getter)
            else:
                # Woken for a key and cancelled before taking it: somebody else must take it.
                self._wake_getter()
            raise

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _release_drainers(self) -> None:
        for drained in self._drainers:
            if not drained.done():
                drained.set_result(None)
        self._drainers.clear()

    # Delays: one heap, one timer of the event loop

    def _promote(self) -> None:
        """Make the delayed keys ready whose time has come."""
        now = self._clock.monotonic()
        while self._delayed_heap and self._delayed_heap[0].due <= now:
            entry = heapq.heappop(self._delayed_heap)
            if self._delayed.get(entry.key) is entry:
                del self._delayed[entry.key]
                self._enqueue(entry.key, entry.priority, entry.due)

    def _on_timer(self) -> None:
        self._timer = None
        self._promote()
        self._tidy_delayed()

    def _tidy_delayed(self) -> None:
        """Drop outdated entries at the top, all of them when they are too many, and set the timer for the first."""
        heap = self._delayed_heap
        if len(heap) > 2 * len(self._delayed) + _SLACK:
            heap[:] = self._delayed.values()
            heapq.heapify(heap)
        while heap and self._delayed.get(heap[0].key) is not heap[0]:
            heapq.heappop(heap)
        if self._timer is not None:
            if heap and heap[0].due == self._timer_due:
                return
            self._timer.cancel()
            self._timer = None
        if heap:
            self._timer_due = heap[0].due
            wait = max(0.0, self._timer_due - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _tidy_ready(self) -> None:
        if len(self._ready_heap) > 2 * len(self._ready) + _SLACK:
            self._ready_heap[:] = self._ready.values()
            heapq.heapify(self._ready_heap)
