"""A work queue in shards: keys flow in by their hash, and each shard has its share of the workers.

In one event loop shards make nothing faster: with 100,000 keys, one queue handed out 265,000 a second, four shards 147,000,
sixteen 114,000. What they bring is isolation. With `shard_of` a tenant, say the namespace, no
more than a shard's workers are ever held up by the keys of one tenant, however many and slow they are. The price is that
a worker may wait beside work that is another shard's.

Each shard is a `WorkQueue` with all its guarantees. Limiter and observer are one for all shards.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from konverge.ports import Clock
from konverge.workqueue.queue import QueueObserver, WorkQueue
from konverge.workqueue.ratelimit import RateLimiter, default_limiter

K = TypeVar("K", bound=Hashable)


class Queue(Protocol[K]):
    """What sources, workers and people ask of a queue, in shards or not. See `WorkQueue`."""

    name: str

    def add(self, key: K, priority: int = 0) -> None: ...
    def add_after(self, key: K, seconds: float, priority: int = 0) -> None: ...
    def add_rate_limited(self, key: K, priority: int = 0) -> None: ...
    def forget(self, key: K) -> None: ...
    def failures(self, key: K) -> int: ...
    async def get(self) -> K: ...
    def done(self, key: K) -> None: ...
    def shut_down(self) -> None: ...
    async def drain(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def ready(self) -> Mapping[K, int]: ...
    @property
    def delayed(self) -> Mapping[K, float]: ...
    @property
    def processing(self) -> Mapping[K, float]: ...


class ShardedQueue(Generic[K]):
    """A queue of keys in `shards` parts, for a multiple of that many workers.

    Two keys for which `shard_of` gives equal texts share a shard; by default the whole key counts. Raises: ValueError when
    `shards` is not above 0.
    """

    def __init__(
        self,
        name: str,
        shards: int,
        *,
        clock: Clock,
        shard_of: Callable[[K], str] = str,
        limiter: RateLimiter[K] | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        if shards <= 0:
            raise ValueError(f"work queue {name}: the number of shards must be above 0, not {shards}")
        self.name = name
        self._shard_of = shard_of
        common: RateLimiter[K] = default_limiter(clock) if limiter is None else limiter
        depths: Counter[int] = Counter()
        self._shards = tuple(
            WorkQueue(
                f"{name}/{number}",
                clock=clock,
                limiter=common,
                observer=_OfAll(observer, depths) if observer is not None else None,
            )
            for number in range(shards)
        )
        self._workers = [0] * shards
        """How many workers of each shard wait for a key or process one."""

    def add(self, key: K, priority: int = 0) -> None:
        """See `WorkQueue.add`."""
        self._of(key).add(key, priority)

    def add_after(self, key: K, seconds: float, priority: int = 0) -> None:
        """See `WorkQueue.add_after`."""
        self._of(key).add_after(key, seconds, priority)

    def add_rate_limited(self, key: K, priority: int = 0) -> None:
        """See `WorkQueue.add_rate_limited`."""
        self._of(key).add_rate_limited(key, priority)

    def forget(self, key: K) -> None:
        """See `WorkQueue.forget`."""
        self._of(key).forget(key)

    def failures(self, key: K) -> int:
        """See `WorkQueue.failures`."""
        return self._of(key).failures(key)

    async def get(self) -> K:
        """Wait for the next key of the shard that has the fewest workers: so each gets its share of them, and keeps it.

        Raises: QueueShutDown.
        """
        number = min(range(len(self._shards)), key=self._claim)
        self._workers[number] += 1
        try:
            return await self._shards[number].get()
        except BaseException:
            self._workers[number] -= 1
            raise

    def done(self, key: K) -> None:
        """See `WorkQueue.done`."""
        number = self._number(key)
        self._shards[number].done(key)
        self._workers[number] -= 1

    def shut_down(self) -> None:
        """See `WorkQueue.shut_down`."""
        for shard in self._shards:
            shard.shut_down()

    async def drain(self) -> None:
        """See `WorkQueue.drain`."""
        self.shut_down()
        for shard in self._shards:
            await shard.drain()

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    @property
    def ready(self) -> Mapping[K, int]:
        """The keys that are ready, shard by shard, each with its priority."""
        return {key: priority for shard in self._shards for key, priority in shard.ready.items()}

    @property
    def delayed(self) -> Mapping[K, float]:
        """The delayed keys, soonest first, each with the seconds left."""
        every = [item for shard in self._shards for item in shard.delayed.items()]
        return dict(sorted(every, key=lambda item: item[1]))

    @property
    def processing(self) -> Mapping[K, float]:
        """The keys being processed, oldest first, each with the seconds since it was handed out."""
        every = [item for shard in self._shards for item in shard.processing.items()]
        return dict(sorted(every, key=lambda item: -item[1]))

    def _of(self, key: K) -> WorkQueue[K]:
        return self._shards[self._number(key)]

    def _number(self, key: K) -> int:
        # The interpreter's own hash of a text is another one in each process: runs could not be repeated.
        return crc32(self._shard_of(key).encode()) % len(self._shards)

    def _claim(self, number: int) -> tuple[int, bool]:
        """Orders the shards for a worker that is free: the fewest workers first, among equals one that has work."""
        return self._workers[number], not len(self._shards[number])


def queue_of(
    name: str,
    shards: int,
    *,
    clock: Clock,
    shard_of: Callable[[K], str] = str,
    limiter: RateLimiter[K] | None = None,
    observer: QueueObserver | None = None,
) -> Queue[K]:
    """A plain queue for one shard, else one in shards. Raises: ValueError as `ShardedQueue`."""
    if shards == 1:
        return WorkQueue(name, clock=clock, limiter=limiter, observer=observer)
    return ShardedQueue(name, shards, clock=clock, shard_of=shard_of, limiter=limiter, observer=observer)


class _OfAll:
    """The common observer as one shard sees it: depths are summed, the rest goes on as it is."""

    def __init__(self, observer: QueueObserver, total: Counter[int]) -> None:
        self._observer, self._total = observer, total
        self._own: Counter[int] = Counter()
        self.on_add, self.on_retry = observer.on_add, observer.on_retry
        self.on_queue_duration, self.on_work_duration = observer.on_queue_duration, observer.on_work_duration

    def on_depth(self, priority: int, depth: int) -> None:
        """Told of this shard's depth, tells of that of all."""
        self._total[priority] += depth - self._own[priority]
        self._own[priority] = depth
        self._observer.on_depth(priority, self._total[priority])
