"""The simulated loop: time jumps, seeds repeat, and what would hang is an error that says where."""

import asyncio
import socket
from datetime import timedelta

import pytest

from konverge.ports import Clock
from konverge.runtime.clock import SystemClock
from konverge.testing.sim import EPOCH, Deadlock, Sim, SimClock, SimulationError, run_sim, simulate


def test_time_jumps_to_the_next_timer() -> None:
    async def scenario(sim: Sim) -> float:
        await asyncio.sleep(3600)
        return sim.time

    assert run_sim(scenario) == pytest.approx(3600)


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def scenario(sim: Sim) -> list[int]:
        order: list[int] = []

        async def one(n: int) -> None:
            await sim.clock.sleep(n)
            order.append(n)

        async with asyncio.TaskGroup() as group:
            for n in (5, 1, 3):
                group.create_task(one(n))
        return order

    assert run_sim(scenario) == [1, 3, 5]


def test_a_timeout_ends_a_wait_at_its_simulated_time() -> None:
    async def scenario(sim: Sim) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        return sim.time

    assert run_sim(scenario) == pytest.approx(10)


def test_the_wall_clock_moves_with_simulated_time_from_its_epoch() -> None:
    async def scenario(sim: Sim) -> None:
        skewed = SimClock(EPOCH - timedelta(hours=1))
        await sim.clock.sleep(90)
        assert sim.clock.now() == EPOCH + timedelta(seconds=90)
        assert sim.clock.now() - skewed.now() == timedelta(hours=1)
        assert skewed.monotonic() == sim.clock.monotonic()

    run_sim(scenario)


def course(seed: int) -> list[tuple[float, int]]:
    async def scenario(sim: Sim) -> list[tuple[float, int]]:
        log: list[tuple[float, int]] = []

        async def worker(n: int) -> None:
            try:
                for _ in range(5):
                    await sim.clock.sleep(sim.random.random())
                    log.append((sim.time, n))
                await asyncio.Event().wait()
            finally:
                log.append((sim.time, -n))

        workers = [sim.spawn(worker(n)) for n in range(1, 30)]
        await sim.clock.sleep(10)
        for task in set(workers):
            task.cancel()
        await asyncio.wait(workers)
        return log

    return run_sim(scenario, seed)


def test_the_same_seed_takes_the_same_course_and_another_seed_another() -> None:
    assert course(1) == course(1)
    assert course(1) != course(2)


def test_a_deadlock_is_an_error_that_names_the_waiting_task_and_line() -> None:
    async def waits_in_vain() -> None:
        await asyncio.Event().wait()

    async def scenario(sim: Sim) -> None:
        await sim.spawn(waits_in_vain(), name="reflector")

    with pytest.raises(Deadlock) as caught:
        run_sim(scenario, 42)
    assert "reflector: " in str(caught.value)
    assert "waits_in_vain" in str(caught.value)
    assert "seed=42" in "".join(caught.value.__notes__)


def test_a_loop_that_never_waits_runs_out_of_steps() -> None:
    async def scenario(sim: Sim) -> None:
        while True:  # noqa: ASYNC110 - the mistake that the bound is for
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="500 steps"):
        run_sim(scenario, max_steps=500)


def test_waiting_for_what_never_comes_runs_out_of_time() -> None:
    async def ticks() -> None:
        while True:  # noqa: ASYNC110 - a stand-in for a periodic resync
            await asyncio.sleep(60)

    async def scenario(sim: Sim) -> None:
        sim.spawn(ticks())
        await asyncio.Event().wait()

    with pytest.raises(SimulationError, match="what never comes"):
        run_sim(scenario, max_seconds=3600)


def test_a_failure_carries_the_seed() -> None:
    async def scenario(sim: Sim) -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as caught:
        run_sim(scenario, 7)
    assert "seed=7" in "".join(caught.value.__notes__)


def test_a_spawned_task_that_fails_fails_the_scenario_at_once() -> None:
    async def breaks(sim: Sim) -> None:
        await sim.clock.sleep(1)
        raise ValueError("in the background")

    times: list[float] = []

    async def scenario(sim: Sim) -> None:
        sim.spawn(breaks(sim))
        try:
            await sim.clock.sleep(1000)
        finally:
            times.append(sim.time)

    with pytest.raises(ValueError, match="in the background"):
        run_sim(scenario)
    assert times == [pytest.approx(1)]


def test_a_failure_cannot_be_hidden_by_swallowing_the_cancellation() -> None:
    async def breaks() -> None:
        raise ValueError("in the background")

    async def scenario(sim: Sim) -> None:
        task = sim.spawn(breaks())
        while not task.done():
            try:
                await sim.clock.sleep(1)
            except asyncio.CancelledError:
                return

    with pytest.raises(ValueError, match="in the background"):
        run_sim(scenario)


def test_a_cancelled_scenario_stays_cancelled() -> None:
    async def scenario(sim: Sim) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_sim(scenario)


def test_a_callback_that_raises_fails_the_scenario() -> None:
    def breaks() -> None:
        raise ValueError("in a callback")

    async def scenario(sim: Sim) -> None:
        asyncio.get_running_loop().call_later(1, breaks)
        await sim.clock.sleep(2)

    with pytest.raises(ValueError, match="in a callback"):
        run_sim(scenario)


def test_tasks_left_over_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("cancelled")

    async def scenario(sim: Sim) -> None:
        sim.spawn(forever())
        await sim.clock.sleep(1)

    run_sim(scenario)
    assert ended == ["cancelled"]


def test_until_waits_for_a_condition_and_says_which_one_did_not_come() -> None:
    async def scenario(sim: Sim) -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(5, done.set)
        await sim.until(done.is_set)
        assert sim.time == pytest.approx(5, abs=0.1)
        never = asyncio.Event()
        with pytest.raises(SimulationError, match=r"until\(lambda: never"):
            await sim.until(lambda: never.is_set() and done.is_set(), within=3)
        with pytest.raises(SimulationError, match="bool"):
            await sim.until(bool, within=0)

    run_sim(scenario)


def test_sockets_are_refused() -> None:
    async def scenario(sim: Sim) -> None:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            with pytest.raises(SimulationError, match="no sockets"):
                await asyncio.get_running_loop().sock_recv(left, 1)

    run_sim(scenario)


def test_threads_work_in_place() -> None:
    def fails() -> None:
        raise ValueError("in a thread")

    async def scenario(sim: Sim) -> None:
        assert await asyncio.to_thread(lambda: 42) == 42
        with pytest.raises(ValueError, match="in a thread"):
            await asyncio.to_thread(fails)

    run_sim(scenario)


def test_another_thread_may_wake_the_loop() -> None:
    async def scenario(sim: Sim) -> None:
        woken = asyncio.Event()
        asyncio.get_running_loop().call_soon_threadsafe(woken.set)
        await woken.wait()
        await sim.clock.sleep(1)

    run_sim(scenario)


@pytest.fixture
def answer() -> int:
    return 42


@simulate(seeds=[3, 4])
async def test_the_decorator_gives_one_test_a_seed_beside_fixtures(sim: Sim, answer: int) -> None:
    await sim.clock.sleep(10)
    assert sim.seed in {3, 4}
    assert answer == 42


async def test_the_system_clock_is_a_clock_that_goes_forward() -> None:
    clock: Clock = SystemClock()
    before, wall = clock.monotonic(), clock.now()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert wall.tzinfo is not None
