"""Start and stop in order: caches before the lease, the lease before work, and given back after the last worker."""

import asyncio
from typing import Any

import pytest

from konverge.errors import ApiError, CacheNotSynced, LeaseLost
from konverge.model.resource import ConfigMap
from konverge.runtime.context import Context
from konverge.runtime.manager import Manager
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, World, mirror


class ScriptedElector:
    """An election whose course the test decides."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.elected, self.lost = asyncio.Event(), asyncio.Event()

    async def acquire(self) -> None:
        self.log.append("acquire")
        await self.elected.wait()

    async def hold(self) -> None:
        self.log.append("hold")
        await self.lost.wait()
        raise LeaseLost("renewal failed for 10 s")

    async def release(self) -> None:
        self.log.append("release")


class Ticker:
    """Something that only a leader runs."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def run(self) -> None:
        self.log.append("start")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("end")


class Failing:
    """Something that ends when it must not."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def run(self) -> None:
        if self.error:
            raise self.error


def managed(world: World, **options: Any) -> Manager:
    world.manager = Manager(
        caches=world.caches,
        controllers=[world.controller],
        recorder=world.recorder,
        block_writes=world.blocked.append,
        **options,
    )
    return world.manager


@simulate()
async def test_nothing_is_written_before_the_lease_though_the_caches_are_warm(sim: Sim) -> None:
    elector, ticker = ScriptedElector(), Ticker()
    world = World(sim, GadgetReconciler())
    manager = managed(world, elector=elector, leader_only=[ticker])
    await world.create()
    world.start()
    await sim.clock.sleep(100)
    assert (manager.synced, manager.leading) == (True, False)
    assert len(world.caches.cache(world.resource)) == 1
    assert world.writes_of("one") == []
    assert ticker.log == []
    elector.elected.set()
    await sim.until(world.ready)
    assert (manager.synced, manager.leading) == (True, True)
    assert ticker.log == ["start"]


@simulate()
async def test_a_standby_that_was_never_elected_stops_without_ever_having_led(sim: Sim) -> None:
    """Replay 9."""
    elector, ticker = ScriptedElector(), Ticker()
    world = World(sim, GadgetReconciler())
    managed(world, elector=elector, leader_only=[ticker])
    await world.create()
    world.start()
    await sim.clock.sleep(10)
    await world.shut_down()
    assert ticker.log == []
    assert elector.log == ["acquire"]
    assert world.writes_of("one") == []


@simulate()
async def test_a_stop_lets_what_runs_finish_and_then_gives_the_lease_back(sim: Sim) -> None:
    elector = ScriptedElector()
    elector.elected.set()
    order: list[str] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(20)
        order.append(f"done, released: {'release' in elector.log}")
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step))
    managed(world, elector=elector)
    world.start()
    await world.create()
    await sim.clock.sleep(5)
    await world.create("late")
    await world.shut_down()
    assert order == ["done, released: False", "done, released: False"]
    assert elector.log[-1] == "release"
    assert world.ready()


@simulate()
async def test_what_does_not_finish_within_the_budget_is_cancelled(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(29)
        return await mirror(gadget, ctx)

    elector = ScriptedElector()
    elector.elected.set()
    world = World(sim, GadgetReconciler(step))
    managed(world, elector=elector, shutdown_budget=10)
    world.start()
    await world.create()
    await sim.clock.sleep(5)
    await world.shut_down()
    assert 15 <= sim.time < 16
    assert world.child() is None
    assert elector.log[-1] == "release"


@simulate()
async def test_a_lost_lease_blocks_writes_cancels_work_and_is_not_given_back(sim: Sim) -> None:
    """Replay 8: the lease goes during a long reconcile."""
    cancelled: list[float] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        try:
            await sim.clock.sleep(25)
        except asyncio.CancelledError:
            cancelled.append(sim.time)
            assert world.blocked == ["renewal failed for 10 s"]
            raise
        return await mirror(gadget, ctx)

    elector = ScriptedElector()
    elector.elected.set()
    world = World(sim, GadgetReconciler(step))
    manager = managed(world, elector=elector)
    running = asyncio.create_task(manager.run(world.stop))
    await world.create()
    await sim.clock.sleep(10)
    elector.lost.set()
    with pytest.raises(LeaseLost):
        await running
    assert cancelled == [10.0]
    assert "release" not in elector.log
    assert world.child() is None


@simulate()
async def test_a_lease_lost_while_stopping_ends_the_wait(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(25)
        return await mirror(gadget, ctx)

    elector = ScriptedElector()
    elector.elected.set()
    world = World(sim, GadgetReconciler(step))
    manager = managed(world, elector=elector)
    running = asyncio.create_task(manager.run(world.stop))
    await world.create()
    await sim.clock.sleep(5)
    world.stop.set()
    await sim.clock.sleep(5)
    elector.lost.set()
    with pytest.raises(LeaseLost):
        await running
    assert sim.time < 11
    assert "release" not in elector.log


@simulate()
async def test_a_cache_that_cannot_list_says_what_is_missing(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    forbidden = ApiError.of(403, "Forbidden", 'configmaps is forbidden: User "x" cannot list resource "configmaps"')
    world.api.faults.inject(forbidden, verbs=["list", "watch"], resource=ConfigMap, times=10_000)
    manager = managed(world, sync_timeout=30)
    with pytest.raises(CacheNotSynced, match="configmaps"):
        await manager.run(world.stop)
    assert manager.health()["caches-synced"] is not None
    assert "configmaps is forbidden" in str(manager.health()["informer-configmaps"])


@pytest.mark.parametrize("error", [ValueError("broken"), None])
def test_a_part_that_ends_by_itself_ends_the_operator(error: Exception | None) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        world = World(sim, GadgetReconciler())
        manager = managed(world, leader_only=[Failing(error)])
        with pytest.raises(ValueError if error else RuntimeError, match="broken" if error else "ended by itself"):
            await manager.run(world.stop)

    scenario(seed=0)


@simulate()
async def test_leading_is_told(sim: Sim) -> None:
    told: list[bool] = []
    world = World(sim, GadgetReconciler())
    managed(world, on_leading=told.append)
    world.start()
    await sim.until(lambda: told == [True])
    await world.shut_down()
    assert told == [True, False]


@simulate()
async def test_health_is_green_when_every_informer_watches(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await sim.until(lambda: all(problem is None for problem in world.manager.health().values()))
    assert set(world.manager.health()) == {"caches-synced", "informer-configmaps", f"informer-{world.resource}"}
