"""What sources and workers may rely on when they share a work queue."""

import asyncio
import random

import pytest

from konverge.testing.sim import Sim, simulate
from konverge.workqueue.queue import LOW_PRIORITY, QueueShutDown, WorkQueue
from konverge.workqueue.ratelimit import ExponentialPerKey


def queue_of(sim: Sim, *keys: str, priority: int = 0) -> WorkQueue[str]:
    queue = WorkQueue[str]("test", clock=sim.clock, limiter=ExponentialPerKey())
    for key in keys:
        queue.add(key, priority)
    return queue


async def take_all(queue: WorkQueue[str]) -> list[str]:
    """The keys that are ready, in order, each done at once."""
    taken = []
    while len(queue):
        taken.append(await queue.get())
        queue.done(taken[-1])
    return taken


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


# One key, one worker


@simulate()
async def test_keys_come_out_in_the_order_in_which_they_went_in(sim: Sim) -> None:
    queue = queue_of(sim, "b", "a", "c")
    assert len(queue) == 3
    assert await take_all(queue) == ["b", "a", "c"]


@simulate()
async def test_a_key_added_many_times_is_handed_out_once(sim: Sim) -> None:
    queue = queue_of(sim, "a", "a", "b", "a")
    assert await take_all(queue) == ["a", "b"]


@simulate()
async def test_a_key_added_while_it_is_processed_comes_again_after_done_and_not_before(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await take_all(queue) == ["a"]


@simulate()
async def test_done_without_an_add_meanwhile_leaves_the_key_out(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    queue.done(await queue.get())
    assert len(queue) == 0


@simulate()
async def test_done_of_a_key_that_nobody_works_on_is_refused(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    with pytest.raises(KeyError, match=r"done\('a'\) without a get\(\)"):
        queue.done("a")


@simulate(seeds=range(10))
async def test_one_key_never_runs_twice_at_once_and_no_change_is_lost(sim: Sim) -> None:
    queue = queue_of(sim)
    keys = ["a", "b", "c", "d"]
    added = dict.fromkeys(keys, 0)
    seen = dict.fromkeys(keys, 0)
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

    for _ in range(8):
        sim.spawn(work())
    for _ in range(300):
        key = sim.random.choice(keys)
        added[key] += 1
        sim.random.choice([queue.add, queue.add_rate_limited, lambda k: queue.add_after(k, 0.05)])(key)
        await sim.clock.sleep(sim.random.choice([0, 0, 0.01]))
    await sim.until(lambda: seen == added and not running)


# Waiting getters


@simulate()
async def test_a_waiting_getter_is_woken_by_an_add(sim: Sim) -> None:
    queue = queue_of(sim)
    getter = sim.spawn(queue.get())
    await settle()
    queue.add("a")
    assert await getter == "a"


@simulate()
async def test_each_of_several_adds_wakes_a_getter_of_its_own(sim: Sim) -> None:
    queue = queue_of(sim)
    getters = [sim.spawn(queue.get()) for _ in range(3)]
    await settle()
    for key in ("a", "b", "c"):
        queue.add(key)
    assert await asyncio.gather(*getters) == ["a", "b", "c"]


@simulate()
async def test_a_getter_cancelled_when_it_was_woken_already_leaves_the_key_to_the_next(sim: Sim) -> None:
    queue = queue_of(sim)
    first, second = sim.spawn(queue.get()), sim.spawn(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


@simulate()
async def test_a_getter_cancelled_before_an_add_is_not_woken_in_vain(sim: Sim) -> None:
    queue = queue_of(sim)
    first, second = sim.spawn(queue.get()), sim.spawn(queue.get())
    await settle()
    first.cancel()
    queue.add("a")
    assert await second == "a"


@simulate()
async def test_cancelled_getters_leave_nothing_behind(sim: Sim) -> None:
    queue = queue_of(sim)
    for _ in range(3):
        getter = sim.spawn(queue.get())
        await settle()
        getter.cancel()
        await settle()
    queue.add("a")
    assert await queue.get() == "a"


@simulate()
async def test_a_woken_getter_whose_key_was_taken_by_another_waits_on(sim: Sim) -> None:
    queue = queue_of(sim)
    waiting = sim.spawn(queue.get())
    await settle()
    queue.add("a")
    assert await queue.get() == "a"  # does not wait, so it is first
    await settle()
    assert not waiting.done()
    queue.add("b")
    assert await waiting == "b"


# Delays


@simulate()
async def test_a_delayed_key_comes_when_its_time_is_over(sim: Sim) -> None:
    queue = queue_of(sim)
    queue.add_after("a", 5)
    start = sim.time
    assert await queue.get() == "a"
    assert sim.time - start == pytest.approx(5)


@simulate()
async def test_delayed_keys_come_soonest_first_whatever_the_order_of_the_calls(sim: Sim) -> None:
    queue = queue_of(sim)
    for seconds in (3, 1, 2):
        queue.add_after(f"{seconds} s", seconds)
    assert list(queue.delayed) == ["1 s", "2 s", "3 s"]
    assert [await queue.get() for _ in range(3)] == ["1 s", "2 s", "3 s"]


@pytest.mark.parametrize("delays", [(1.0, 9.0), (9.0, 1.0)])
@simulate()
async def test_of_two_delays_the_earlier_wins(sim: Sim, delays: tuple[float, float]) -> None:
    queue = queue_of(sim)
    for seconds in delays:
        queue.add_after("a", seconds)
    assert queue.delayed == {"a": pytest.approx(1)}
    await queue.get()
    queue.done("a")
    await sim.clock.sleep(20)
    assert len(queue) == 0


@simulate()
async def test_an_add_makes_a_delayed_key_ready_now_and_only_once(sim: Sim) -> None:
    queue = queue_of(sim)
    queue.add_after("a", 60)
    queue.add("a")
    assert await take_all(queue) == ["a"]
    await sim.clock.sleep(120)
    assert len(queue) == 0


@simulate()
async def test_a_delay_for_a_key_that_is_ready_anyway_is_absorbed(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    queue.add_after("a", 60)
    assert not queue.delayed
    assert await take_all(queue) == ["a"]


@simulate()
async def test_a_delay_asked_for_while_the_key_is_processed_counts(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    key = await queue.get()
    queue.add_after(key, 1)
    queue.done(key)
    assert len(queue) == 0
    assert await queue.get() == "a"


@simulate()
async def test_a_delay_that_ends_while_the_key_is_processed_runs_it_once_more(sim: Sim) -> None:
    queue = queue_of(sim, "a")
    key = await queue.get()
    queue.add_after(key, 1)
    await sim.clock.sleep(2)
    assert (len(queue), queue.delayed) == (0, {})
    queue.done(key)
    assert await take_all(queue) == ["a"]


@pytest.mark.parametrize("seconds", [0, -1])
@simulate()
async def test_no_delay_is_an_add(sim: Sim, seconds: float) -> None:
    queue = queue_of(sim)
    queue.add_after("a", seconds)
    assert await take_all(queue) == ["a"]


@simulate()
async def test_failures_wait_longer_each_time_until_forgotten(sim: Sim) -> None:
    queue = queue_of(sim)
    waited = []
    for _ in range(3):
        start = sim.time
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        waited.append(sim.time - start)
    assert waited == pytest.approx([0.005, 0.01, 0.02])
    assert queue.failures("a") == 3
    queue.forget("a")
    assert queue.failures("a") == 0


@simulate()
async def test_the_default_limiter_is_there_without_asking(sim: Sim) -> None:
    queue = WorkQueue[str]("test", clock=sim.clock)
    queue.add_rate_limited("a")
    assert queue.delayed == {"a": pytest.approx(0.005)}


@simulate()
async def test_one_key_delayed_ever_earlier_does_not_grow_the_queue(sim: Sim) -> None:
    queue = queue_of(sim)
    for n in range(1000):
        queue.add_after("a", 2000 - n)
    assert len(queue._delayed_heap) < 100
    queue.add("a")
    assert not queue._delayed_heap


# Priorities


@simulate()
async def test_higher_priorities_come_first(sim: Sim) -> None:
    queue = queue_of(sim)
    queue.add("low", LOW_PRIORITY)
    queue.add("ordinary")
    queue.add("high", 10)
    assert queue.ready == {"high": 10, "ordinary": 0, "low": LOW_PRIORITY}
    assert await take_all(queue) == ["high", "ordinary", "low"]


@simulate()
async def test_a_second_add_raises_the_priority_and_never_lowers_it(sim: Sim) -> None:
    queue = queue_of(sim, "other")
    queue.add("a", LOW_PRIORITY)
    queue.add("a", 5)
    queue.add("a", LOW_PRIORITY)
    assert await take_all(queue) == ["a", "other"]


@simulate()
async def test_the_priority_given_while_a_key_is_processed_or_delayed_is_kept(sim: Sim) -> None:
    queue = queue_of(sim, "busy")
    await queue.get()
    queue.add("busy", LOW_PRIORITY)
    queue.add("busy", 7)
    queue.done("busy")
    queue.add_after("later", 1, priority=3)
    queue.add_after("later", 9, priority=8)
    queue.add("later", LOW_PRIORITY)
    assert queue.ready == {"later": 8, "busy": 7}


@simulate()
async def test_low_priority_is_not_starved_by_constant_ordinary_arrivals(sim: Sim) -> None:
    """Replay 16: a backlog of low priority under a load that keeps the worker busy is worked off all the same."""
    queue = queue_of(sim, *(f"backlog-{n}" for n in range(50)), priority=LOW_PRIORITY)
    finished: dict[str, float] = {}

    async def arrivals() -> None:
        number = 0
        while True:
            queue.add(f"ordinary-{number}")
            number += 1
            await sim.clock.sleep(0.1)

    async def work() -> None:
        while True:
            key = await queue.get()
            await sim.clock.sleep(0.1)
            finished[key] = sim.time
            queue.done(key)

    sim.spawn(arrivals())
    sim.spawn(work())
    await sim.until(lambda: sum(key.startswith("backlog") for key in finished) == 50, within=40)
    assert sum(key.startswith("ordinary") for key in finished) > 200  # they did go first


@simulate()
async def test_raising_one_priority_for_ever_does_not_grow_the_queue(sim: Sim) -> None:
    queue = queue_of(sim)
    for priority in range(1000):
        queue.add("a", priority)
    assert len(queue._ready_heap) < 100
    assert await take_all(queue) == ["a"]


# Stopping


@simulate()
async def test_shut_down_returns_blocked_getters(sim: Sim) -> None:
    """Replay 16, the other half."""
    queue = queue_of(sim)
    getters = [sim.spawn(asyncio.wait({asyncio.ensure_future(queue.get())})) for _ in range(3)]
    await settle()
    queue.shut_down()
    for getter in getters:
        done, _ = await getter
        assert isinstance(next(iter(done)).exception(), QueueShutDown)


@simulate()
async def test_after_shut_down_nothing_goes_in_or_out(sim: Sim) -> None:
    queue = queue_of(sim, "left")
    queue.add_after("late", 1)
    queue.shut_down()
    queue.add("a")
    queue.add_after("b", 1)
    queue.add_after("c", 0)
    queue.add_rate_limited("d")
    await sim.clock.sleep(10)
    assert (list(queue.ready), list(queue.delayed), queue.failures("d")) == (["left"], ["late"], 0)
    with pytest.raises(QueueShutDown, match="work queue test"):
        await queue.get()


@simulate()
async def test_drain_waits_for_the_keys_being_processed(sim: Sim) -> None:
    queue = queue_of(sim, "a", "b")
    await queue.get()
    await queue.get()
    queue.add("a")
    draining, impatient = sim.spawn(queue.drain()), sim.spawn(queue.drain())
    await settle()
    queue.done("a")
    await settle()
    assert not draining.done()
    impatient.cancel()
    queue.done("b")
    await draining
    assert len(queue) == 0  # the add that came during the work is not worked off any more


@simulate()
async def test_draining_an_idle_queue_returns_at_once(sim: Sim) -> None:
    queue = queue_of(sim)
    start = sim.time
    await queue.drain()
    assert sim.time == start


# What metrics see


class Recorded:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.depths: dict[int, int] = {}

    def on_add(self) -> None:
        self.calls.append(("add", 1))

    def on_depth(self, priority: int, depth: int) -> None:
        self.depths[priority] = depth

    def on_queue_duration(self, seconds: float) -> None:
        self.calls.append(("queued", seconds))

    def on_work_duration(self, seconds: float) -> None:
        self.calls.append(("worked", seconds))

    def on_retry(self) -> None:
        self.calls.append(("retry", 1))


@simulate()
async def test_an_observer_sees_adds_waits_and_work(sim: Sim) -> None:
    seen = Recorded()
    queue = WorkQueue[str]("test", clock=sim.clock, observer=seen)
    queue.add("a")
    queue.add("a")
    await sim.clock.sleep(2)
    key = await queue.get()
    await sim.clock.sleep(3)
    assert queue.processing == {"a": pytest.approx(3)}
    queue.add("a")
    queue.done(key)
    assert seen.calls == [("add", 1), ("queued", 2), ("add", 1), ("worked", 3)]


@simulate()
async def test_an_observer_sees_retries(sim: Sim) -> None:
    seen = Recorded()
    queue = WorkQueue[str]("test", clock=sim.clock, observer=seen)
    queue.add_rate_limited("a")
    queue.add_after("b", 1)
    queue.add_after("c", 0)
    assert [name for name, _ in seen.calls] == ["retry", "retry", "add"]


@simulate(seeds=range(5))
async def test_the_depths_seen_are_those_of_the_queue(sim: Sim) -> None:
    seen = Recorded()
    queue = WorkQueue[str]("test", clock=sim.clock, observer=seen)
    chance = random.Random(sim.seed)
    for _ in range(200):
        queue.add(f"key-{chance.randrange(20)}", chance.choice([LOW_PRIORITY, 0, 10]))
        if chance.random() < 0.4:
            queue.done(await queue.get())
        counted = {priority: list(queue.ready.values()).count(priority) for priority in seen.depths}
        assert seen.depths == counted
