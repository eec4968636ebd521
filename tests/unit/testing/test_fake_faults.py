"""Faults: each does what it says, on the client that has it, and all end when told to."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from konverge.errors import ApiError, Conflict, ConnectionFailed, Gone, NotFound, ServerError, TooManyRequests
from konverge.model.resource import ConfigMap, Pod, Secret
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.fake_streams import GRACE
from konverge.testing.sim import Sim, run_sim, simulate
from tests.unit.testing.conformance import config


def fresh(sim: Sim, **faults: Any) -> FakeApi:
    return FakeApi(clock=sim.clock, random=sim.random, faults=Faults(random=sim.random, **faults))


@simulate()
async def test_a_connection_dropped_before_leaves_no_write_and_one_dropped_after_does(sim: Sim) -> None:
    before, after = fresh(sim, drop_before=1.0), fresh(sim, drop_after=1.0)
    for api, stored in ((before, 0), (after, 1)):
        with pytest.raises(ConnectionFailed):
            await api.create(ConfigMap, config("a"), "default")
        assert len(api.objects(ConfigMap)) == len(api.writes) == stored


@simulate(seeds=range(5))
async def test_a_hanging_call_takes_its_time_and_fails(sim: Sim) -> None:
    api = fresh(sim, hang=1.0, hang_seconds=30.0)
    for n in range(10):
        begun = sim.time
        with pytest.raises(ConnectionFailed, match="timed out"):
            await api.create(ConfigMap, config(f"c{n}"), "default")
        assert sim.time - begun == pytest.approx(30)
    assert 0 < len(api.writes) < 10


@simulate(seeds=range(5))
async def test_a_write_may_arrive_after_its_caller_gave_up(sim: Sim) -> None:
    api = fresh(sim, hang=1.0, hang_seconds=30.0)
    for n in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await api.create(ConfigMap, config(f"c{n}"), "default")
    given_up = sim.time
    await sim.clock.sleep(60)
    assert any(write.time > given_up for write in api.writes)
    assert len(api.objects(ConfigMap)) == len(api.writes) < 10


@simulate(seeds=range(5))
async def test_server_errors_leave_open_whether_the_server_acted(sim: Sim) -> None:
    api = fresh(sim, server_error=1.0)
    for n in range(20):
        with pytest.raises(ServerError):
            await api.create(ConfigMap, config(f"c{n}"), "default")
    assert 0 < len(api.writes) < 20


@simulate()
async def test_conflicts_meet_updates_and_too_many_requests_all(sim: Sim) -> None:
    api = fresh(sim, conflict=1.0)
    await api.create(ConfigMap, config("a"), "default")
    with pytest.raises(Conflict):
        await api.patch(ConfigMap, "a", {"data": {}}, "default")
    await api.delete(ConfigMap, "a", "default")
    busy = fresh(sim, too_many=1.0, retry_after=(3.0, 3.0))
    with pytest.raises(TooManyRequests) as caught:
        await busy.list(ConfigMap)
    assert caught.value.retry_after == 3


@simulate()
async def test_latency_is_waited_and_stays_when_faults_stop(sim: Sim) -> None:
    api = fresh(sim, latency=(1.0, 2.0))
    api.faults.stop()
    await api.list(ConfigMap)
    assert 1.0 <= sim.time <= 2.0


@simulate()
async def test_an_ordered_fault_meets_the_calls_meant_and_no_more(sim: Sim) -> None:
    api = fresh(sim)
    api.faults.inject(ConnectionFailed("first"), verbs=["create"], resource=ConfigMap, name="a", times=2)
    api.faults.inject(ApiError.of(500, "InternalError", "late"), verbs=["create"], resource=Secret, after=True)
    await api.list(ConfigMap)
    await api.create(ConfigMap, config("b"), "default")
    for _ in range(2):
        with pytest.raises(ConnectionFailed, match="first"):
            await api.create(ConfigMap, config("a"), "default")
    await api.create(ConfigMap, config("a"), "default")
    with pytest.raises(ServerError, match="late"):
        await api.create(Secret, {"metadata": {"name": "s"}}, "default")
    assert len(api.objects(Secret)) == 1
    assert [r.executed for r in api.requests] == [True, True, False, False, True, True]


@simulate()
async def test_a_partition_cuts_one_client_off_and_heals(sim: Sim) -> None:
    api = fresh(sim)
    other = api.client("other")
    seen: list[str] = []

    async def watch() -> None:
        async for event in api.watch(ConfigMap, resource_version="1000", timeout_seconds=60):
            seen.append(event.object["metadata"]["name"])  # noqa: PERF401 - read while it grows

    watching = sim.spawn(watch())
    await sim.clock.sleep(1)
    api.faults.partition()
    with pytest.raises(ConnectionFailed):
        await api.list(ConfigMap)
    await other.create(ConfigMap, config("a"), "default")
    await sim.clock.sleep(10)
    assert seen == []
    api.faults.heal()
    await sim.until(lambda: seen == ["a"], within=5)
    await api.list(ConfigMap)
    await watching


@simulate()
async def test_stop_ends_every_kind_of_fault(sim: Sim) -> None:
    api = fresh(sim, drop_before=1.0)
    api.faults.inject(ConnectionFailed("ordered"), times=100)
    api.faults.partition()
    api.faults.stop()
    await api.list(ConfigMap)
    api.faults.start()
    with pytest.raises(ConnectionFailed):
        await api.list(ConfigMap)


async def fail(api: FakeApi) -> Exception | None:
    try:
        async for _ in api.watch(ConfigMap, resource_version="1000", timeout_seconds=300):
            pass
    except (ApiError, ConnectionFailed) as error:
        return error
    return None


@simulate(seeds=range(3))
async def test_watches_are_gone_dropped_or_silent(sim: Sim) -> None:
    assert isinstance(await fail(fresh(sim, watch_gone=1.0)), Gone)
    begun = sim.time
    assert isinstance(await fail(fresh(sim, watch_drop=1.0)), ConnectionFailed)
    assert 0 < sim.time - begun <= 60
    begun = sim.time
    assert await fail(fresh(sim, watch_silent=1.0)) is None
    assert sim.time - begun >= 300 + GRACE


@simulate()
async def test_a_watch_opened_into_faults_outlives_them_once_they_stop(sim: Sim) -> None:
    api = fresh(sim, watch_drop=1.0)
    watching = sim.spawn(fail(api))
    await sim.clock.sleep(0)
    api.faults.stop()
    assert await watching is None
    assert sim.time == pytest.approx(300)


@simulate()
async def test_a_watch_whose_first_answer_is_lost_is_not_left_open(sim: Sim) -> None:
    api = fresh(sim)
    api.faults.inject(ConnectionFailed("reset"), verbs=["watch"], after=True)
    assert isinstance(await fail(api), ConnectionFailed)
    assert api.end_watches() == 0
    api.faults.latency = (10.0, 10.0)
    waiting = asyncio.create_task(fail(api))
    await sim.clock.sleep(7)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert api.end_watches() == 0


@simulate(seeds=range(10))
async def test_delays_reorder_kinds_and_never_one_kind(sim: Sim) -> None:
    api = fresh(sim, watch_delay=(0.0, 5.0))
    seen: list[tuple[str, str]] = []

    async def watch(resource: Any) -> None:
        async for event in api.watch(resource, resource_version="1000", timeout_seconds=60):
            seen.append((resource.kind, event.object["metadata"]["name"]))  # noqa: PERF401 - two take turns

    tasks = [sim.spawn(watch(ConfigMap)), sim.spawn(watch(Secret))]
    await sim.clock.sleep(0)
    for n in range(10):
        await api.create(ConfigMap, config(f"c{n}"), "default")
        await api.create(Secret, {"metadata": {"name": f"c{n}"}}, "default")
    await asyncio.gather(*tasks)
    assert sorted(name for kind, name in seen if kind == "Secret") == [name for kind, name in seen if kind == "Secret"]
    assert sorted(name for kind, name in seen if kind == "ConfigMap") == [n for k, n in seen if k == "ConfigMap"]
    assert seen != sorted(seen, key=lambda entry: entry[1])


def outcome(seed: int) -> list[tuple[float, str, str]]:
    async def scenario(sim: Sim) -> list[tuple[float, str, str]]:
        api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random, 0.1))

        async def work(n: int) -> None:
            for verb in range(20):
                try:
                    if verb % 3 == 0:
                        await api.create(ConfigMap, config(f"c{n}-{verb}"), "default")
                    elif verb % 3 == 1:
                        await api.list(ConfigMap)
                    else:
                        await api.patch(ConfigMap, f"c{n}-{verb - 2}", {"data": {"k": "v"}}, "default")
                except (ApiError, ConnectionFailed):
                    continue

        tasks = [sim.spawn(work(n)) for n in range(5)] + [sim.spawn(fail(api))]
        await asyncio.wait(tasks)
        return [(request.time, request.name, repr(request.error)) for request in api.requests]

    return run_sim(scenario, seed)


def test_the_same_seed_meets_the_same_faults() -> None:
    assert outcome(5) == outcome(5)
    assert outcome(5) != outcome(6)


def test_rough_weather_has_every_fault_at_about_its_rate() -> None:
    faults = Faults.rough(Random(1), 0.1)
    met = Counter(
        type(fate.before or fate.after).__name__ for fate in (faults.fate("patch", ConfigMap, "a") for _ in range(5000))
    )
    assert set(met) == {"NoneType", "ConnectionFailed", "ServerError", "Conflict", "TooManyRequests"}
    assert 0.4 < met["NoneType"] / 5000 < 0.8


@pytest.mark.parametrize("kind", Faults.kinds())
def test_each_kind_can_be_had_alone_and_counts_what_it_did(kind: str) -> None:
    @simulate()
    async def alone(sim: Sim) -> None:
        api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random, 0.3, only=kind))
        for _ in range(20):
            with suppress(ApiError, ConnectionFailed):
                await api.patch(ConfigMap, "a", {}, "default")
            watching = sim.spawn(fail(api))
            with suppress(ApiError, ConnectionFailed):
                await api.create(ConfigMap, config("a"), "default")
            await watching
        assert api.faults.happened.keys() == {kind}

    alone(seed=0)


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="'drop' is no kind of fault; there are drop_before, drop_after, hang"):
        Faults.rough(Random(1), only="drop")


@simulate()
async def test_binds_meet_conflicts_and_other_creations_do_not(sim: Sim) -> None:
    api = fresh(sim, conflict=1.0)
    await api.create(Pod, {"metadata": {"name": "p"}, "spec": {}}, "default")
    with pytest.raises(Conflict):
        await api.create(Pod, {"target": {"name": "n1"}}, "default", name="p", subresource="binding")
    assert api.faults.happened == {"conflict": 1}


@simulate()
async def test_calls_of_a_client_that_is_cut_off_are_counted(sim: Sim) -> None:
    api = fresh(sim)
    api.faults.partition()
    with pytest.raises(ConnectionFailed):
        await api.get(ConfigMap, "a", "default")
    assert api.faults.happened == {"partition": 1}


def test_reads_of_an_absent_object_are_not_found_in_any_weather() -> None:
    async def scenario(sim: Sim) -> None:
        api = fresh(sim)
        with pytest.raises(NotFound):
            await api.get(ConfigMap, "a", "default")

    run_sim(scenario)
