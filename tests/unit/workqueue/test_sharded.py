"""A queue in shards: the same guarantees as one queue, and no tenant takes more than its share of the workers."""

import asyncio
from collections import Counter

import pytest

from konverge.model.meta import Key
from konverge.ports import Clock
from konverge.testing.sim import Sim, SimClock, simulate
from konverge.workqueue.queue import QueueShutDown, WorkQueue
from konverge.workqueue.ratelimit import ExponentialPerKey
from konverge.workqueue.sharded import Queue, ShardedQueue


def queues(clock: Clock) -> list[Queue[str]]:
    limiter = ExponentialPerKey[str](base=0.5, cap=8)
    return [
        WorkQueue("one", clock=clock, limiter=limiter),
        ShardedQueue("many", 1, clock=clock, limiter=limiter),
        ShardedQueue("many", 4, clock=clock, limiter=limiter),
    ]


@pytest.mark.parametrize("which", [0, 1, 2])
@simulate(seeds=range(6))
async def test_one_key_never_runs_twice_at_once_and_no_change_is_lost(sim: Sim, which: int) -> None:
    queue = queues(sim.clock)[which]
    keys = [f"key-{number}" for number in range(12)]
    added, seen = Counter(dict.fromkeys(keys, 0)), Counter(dict.fromkeys(keys, 0))
    running: set[str] = set()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in running
            running.add(key)
            seen[key] = added[key]
            await sim.clock.sleep(sim.random.choice([0, 0.001, 0.1]))
            running.remove(key)
            queue.forget(key)
            queue.done(key)

    workers = [sim.spawn(work()) for _ in range(8)]
    for _ in range(300):
        key = sim.random.choice(keys)
        added[key] += 1
        sim.random.choice([queue.add, queue.add_rate_limited, lambda k: queue.add_after(k, 0.05)])(key)
        await sim.clock.sleep(sim.random.choice([0, 0, 0.01]))
        if sim.random.random() < 0.02:  # a worker that is cancelled takes no key and no place with it
            victim = sim.random.randrange(8)
            if len(running) == 0:
                workers[victim].cancel()
                workers[victim] = sim.spawn(work())
    await sim.until(lambda: seen == added and not running)


@simulate()
async def test_one_tenant_s_slow_keys_leave_the_other_tenants_their_workers(sim: Sim) -> None:
    queue = ShardedQueue[Key]("tenants", 2, clock=sim.clock, shard_of=lambda key: key.namespace)
    finished: list[Key] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            await sim.clock.sleep(3600 if key.namespace == "a" else 1)
            finished.append(key)
            queue.done(key)

    for number in range(100):
        queue.add(Key("a", str(number)))
    for _ in range(4):
        sim.spawn(work())
    await sim.clock.sleep(1)
    for number in range(20):
        queue.add(Key("d", str(number)))
    await sim.clock.sleep(15)
    assert len(finished) == 20
    assert len(queue.processing) == 2
    assert len(queue) == 98


@simulate()
async def test_each_shard_keeps_its_share_of_the_workers(sim: Sim) -> None:
    queue = ShardedQueue[Key]("tenants", 2, clock=sim.clock, shard_of=lambda key: key.namespace)
    most: Counter[str] = Counter()

    async def work() -> None:
        while True:
            key = await queue.get()
            running = Counter(each.namespace for each in queue.processing)
            most.update({namespace: max(0, count - most[namespace]) for namespace, count in running.items()})
            await sim.clock.sleep(sim.random.uniform(0.1, 1))
            queue.done(key)

    for _ in range(6):
        sim.spawn(work())
    for number in range(200):
        queue.add(Key(sim.random.choice("ad"), str(number)))
        await sim.clock.sleep(0.02)
    await sim.until(lambda: not len(queue) and not queue.processing)
    assert most == {"a": 3, "d": 3}  # the two are in different shards


@simulate()
async def test_failures_and_delays_are_those_of_one_queue(sim: Sim) -> None:
    _, _, queue = queues(sim.clock)
    queue.add_rate_limited("a")
    queue.add_rate_limited("b")
    queue.add_after("c", 0.25)
    assert queue.failures("a") == 1
    assert queue.delayed == {"c": 0.25, "a": 0.5, "b": 0.5}
    queue.forget("a")
    assert queue.failures("a") == 0


@simulate()
async def test_shut_down_and_drain_reach_every_shard(sim: Sim) -> None:
    _, _, queue = queues(sim.clock)
    queue.add("a")
    key = await queue.get()
    getters = [asyncio.ensure_future(queue.get()) for _ in range(7)]
    await asyncio.sleep(0)
    draining = sim.spawn(queue.drain())
    assert all(isinstance(error, QueueShutDown) for error in await asyncio.gather(*getters, return_exceptions=True))
    assert not draining.done()
    queue.done(key)
    await draining
    queue.add("b")
    assert len(queue) == 0


class Watcher:
    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        self.calls: Counter[str] = Counter()

    def on_add(self) -> None:
        self.calls["add"] += 1

    def on_depth(self, priority: int, depth: int) -> None:
        self.depths[priority] = depth

    def on_queue_duration(self, seconds: float) -> None:
        self.calls["queue"] += 1

    def on_work_duration(self, seconds: float) -> None:
        self.calls["work"] += 1

    def on_retry(self) -> None:
        self.calls["retry"] += 1


@simulate()
async def test_the_observer_sees_one_queue(sim: Sim) -> None:
    watcher = Watcher()
    queue = ShardedQueue[str]("seen", 4, clock=sim.clock, observer=watcher)
    for number in range(20):
        queue.add(f"key-{number}", priority=number % 2)
    assert watcher.depths == {0: 10, 1: 10}
    for _ in range(8):
        queue.done(await queue.get())
    assert sum(watcher.depths.values()) == len(queue) == 12
    assert watcher.calls == {"add": 20, "queue": 8, "work": 8}


def test_no_shards_are_refused() -> None:
    with pytest.raises(ValueError, match="number of shards must be above 0, not 0"):
        ShardedQueue[str]("none", 0, clock=SimClock())
