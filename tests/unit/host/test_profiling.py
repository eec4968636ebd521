"""Looking at a process from inside."""

import asyncio
import time
import tracemalloc

import pytest

from konverge.host.profiling import Busy, CpuProfiler, HeapWatch, tasks


async def innermost(gate: asyncio.Event) -> None:
    await gate.wait()


async def outer(gate: asyncio.Event) -> None:
    await innermost(gate)


async def test_each_task_is_shown_with_the_lines_it_waits_at_from_the_outermost_in() -> None:
    gate = asyncio.Event()
    task = asyncio.create_task(outer(gate), name="waiting")
    await asyncio.sleep(0)
    (shown,) = [each for each in tasks() if each["name"] == "waiting"]
    assert shown["coroutine"] == "outer"
    functions = [line.rpartition(" ")[2] for line in shown["waits"]]
    assert functions == ["outer", "innermost", "Event.wait"]
    assert "asyncio/locks.py:" in shown["waits"][-1]
    gate.set()
    await task


async def test_an_async_generator_is_followed() -> None:
    gate = asyncio.Event()

    async def stream() -> object:
        yield 1
        await gate.wait()

    async def read() -> None:
        async for _ in stream():  # type: ignore[attr-defined]
            pass

    task = asyncio.create_task(read(), name="reading")
    await asyncio.sleep(0)
    (shown,) = [each for each in tasks() if each["name"] == "reading"]
    assert shown["waits"][0].endswith("read")
    gate.set()
    await task


def hot(until: float) -> None:
    while time.monotonic() < until:
        sum(range(1000))


async def test_the_cpu_profile_shows_what_is_hot_and_that_the_rest_is_idle() -> None:
    profile = asyncio.create_task(CpuProfiler().profile(0.4))
    await asyncio.sleep(0.05)
    hot(time.monotonic() + 0.2)
    lines = [line.rpartition(" ") for line in (await profile).splitlines()]
    counts = {stack: int(count) for stack, _, count in lines}
    assert any(":hot" in stack.rpartition(";")[2] for stack in counts)
    assert counts["idle"] > 0
    assert all(stack == "idle" or ";" in stack for stack in counts)


async def test_of_two_profiles_at_once_the_second_is_refused() -> None:
    profiler = CpuProfiler()
    first = asyncio.create_task(profiler.profile(60))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await profiler.profile(0.01)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await profiler.profile(0.01)


async def test_growth_names_the_line_that_kept_memory() -> None:
    heap = HeapWatch()
    try:
        assert (await heap.growth())["grown"] == []
        kept = [bytes(1000) for _ in range(1000)]
        grown = (await heap.growth())["grown"]
        assert "test_profiling.py" in grown[0]["line"]
        assert grown[0]["bytes"] >= len(kept) * 1000
        assert (await heap.growth())["seconds"] >= 0
    finally:
        heap.stop()
    assert not tracemalloc.is_tracing()
