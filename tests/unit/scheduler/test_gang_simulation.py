"""Gangs in every weather. What must hold: no gang stays half placed past its timeout, and once it is over and there is
room, every gang is placed whole.
"""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from konverge.model.resource import Object, Pod
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.framework import CycleState, PreFilter, PreFilterResult
from konverge.scheduler.gangs import GANG, MIN_COUNT
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import node, pod, registry_with, with_plugin
from tests.unit.scheduler.weather import WEATHERS, Scenario, World, brave

TIMEOUT = 120
SLACK = 30.0
"""Seconds that a verdict may take to reach the server, requests being repeated."""

SICK = "sick"
"""A gang of which one pod cannot be tried."""

LOOK = 1.0
"""Seconds between two looks at the gangs."""


def profile() -> ProfileConfig:
    return with_plugin("Coscheduling", timeoutSeconds=TIMEOUT)


def member(gang: str, name: str, min_count: int, cpu: str = "500m") -> dict[str, Any]:
    raw = pod(name, cpu=cpu)
    raw["metadata"] |= {"labels": {GANG: gang}, "annotations": {MIN_COUNT: str(min_count)}}
    return raw


class Sickening(PreFilter):
    """Raises on the pod named `bad`, whether it would find a node or not."""

    name = "Sickening"

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        if pod.name == "bad":
            raise RuntimeError("boom")
        return PreFilterResult()


class Marshal:
    """Watches gangs: for how long at most one was bound in part, or some of its pods kept nodes while it was too few.

    The time counts while there is a scheduler that reaches the server.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = 0.0
        self.bound_since: dict[str, float] = {}
        self.kept_since: dict[str, float] = {}
        self.half_bound = self.half_kept = 0.0

    async def watch(self) -> None:
        while True:
            self.check()
            await asyncio.sleep(LOOK)
            self.now += LOOK * self.world.up

    def check(self) -> None:
        wanted: dict[str, int] = {}
        bound: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        snapshot = self.world.cluster.scheduler._snapshot
        for uid, raw in self.world.referee.pods.items():
            gang = raw["metadata"].get("labels", {}).get(GANG)
            if gang is not None:
                wanted[gang] = int(raw["metadata"]["annotations"][MIN_COUNT])
                bound[gang] += bool(raw["spec"].get("nodeName"))
                waiting[gang] += snapshot.is_assumed(uid)
        half_bound = {gang for gang, count in wanted.items() if 0 < bound[gang] < count}
        half_kept = {gang for gang, count in wanted.items() if waiting[gang] and bound[gang] + waiting[gang] < count}
        self.half_bound = max(self.half_bound, self._longest(self.bound_since, half_bound))
        self.half_kept = max(self.half_kept, self._longest(self.kept_since, half_kept))

    def _longest(self, since: dict[str, float], now_so: set[str]) -> float:
        for gang in since.keys() - now_so:
            del since[gang]
        return max((self.now - since.setdefault(gang, self.now) for gang in now_so), default=0.0)


def gangs(chance: random.Random, count: int) -> list[Object]:
    """The pods of some gangs, as their controllers make them: in any order."""
    pods: list[Object] = []
    for number in range(count):
        size = chance.randint(2, 5)
        enough = chance.randint(2, size)
        pods += [member(f"g{number}", f"g{number}-{index}", enough) for index in range(size)]
    chance.shuffle(pods)
    return pods


async def replace_one(world: World, chance: random.Random, generation: int) -> None:
    """Delete a pod of a gang of which nothing is bound yet; its controller makes another."""
    labels = [(raw, raw["metadata"].get("labels", {})) for raw in world.referee.pods.values()]
    members = [raw for raw, has in labels if has.get(GANG, SICK) != SICK]
    raw = chance.choice(members)
    gang = raw["metadata"]["labels"][GANG]
    if any(each["spec"].get("nodeName") for each in members if each["metadata"]["labels"][GANG] == gang):
        return
    await world.api.client("author").delete(Pod, raw["metadata"]["name"], "default")
    enough = int(raw["metadata"]["annotations"][MIN_COUNT])
    await world.cluster.create(member(gang, f"{gang}-again-{generation}", enough))


async def finish_some(world: World, chance: random.Random) -> None:
    """Pods that belong to no gang run to their end."""
    done: dict[str, Any] = {"status": {"phase": "Succeeded"}}
    for raw in list(world.referee.pods.values()):
        if raw["spec"].get("nodeName") and GANG not in raw["metadata"].get("labels", {}) and chance.random() < 0.2:
            await world.api.client("author").patch(Pod, raw["metadata"]["name"], done, "default", subresource="status")


async def live(world: World, chance: random.Random, *, singles: bool) -> None:
    for number, raw in enumerate(gangs(chance, 6)):
        await world.cluster.create(raw)
        if singles:
            await world.cluster.create(pod(f"s{number}", cpu=chance.choice(["200m", "1"])))
            await finish_some(world, chance)
        if chance.random() < 0.15:
            await replace_one(world, chance, number)
        await asyncio.sleep(chance.uniform(0, 3))


def all_bound(world: World) -> bool:
    return all(raw["spec"].get("nodeName") for raw in world.referee.pods.values())


async def little_room(sim: Sim, weather: str) -> Counter[str]:
    """Nodes that wait for the rest of a gang are given back in time, whatever fails."""
    everywhere = profile().plugins[Point.MULTI_POINT].enabled
    sickly = replace(profile(), plugins={Point.MULTI_POINT: PluginSet(enabled=(*everywhere, PluginUse("Sickening")))})
    world = World(sim, weather, profile=sickly, registry=registry_with(Sickening), pods_outlive_nodes=True)
    await world.start(*(node(f"n{i}", cpu="3", pods=8) for i in range(3)))
    marshal = Marshal(world)
    sim.spawn(marshal.watch())
    # A plugin raises on one of two: the other waits for it as long as it may, and again.
    await world.cluster.create(member(SICK, "bad", 2), member(SICK, "waits", 2))
    await live(world, sim.random, singles=True)
    await asyncio.sleep(2 * (TIMEOUT + SLACK))
    await world.calm()
    await world.api.client("author").delete(Pod, "bad", "default")
    await world.cluster.create(member(SICK, "well", 2))
    await world.cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: all_bound(world), within=1200, every=1.0)
    assert marshal.half_kept < TIMEOUT + SLACK
    return world.judge()


async def room_for_all(sim: Sim, weather: str) -> Counter[str]:
    """A bind that fails leaves its gang half bound; while nobody takes its room, no longer than the gang's timeout."""
    world = World(sim, weather, profile=profile(), pods_outlive_nodes=True)
    await world.start(*(node(f"n{i}", cpu="20") for i in range(3)))
    marshal = Marshal(world)
    sim.spawn(marshal.watch())
    await live(world, sim.random, singles=False)
    await world.calm()
    await sim.until(lambda: all_bound(world), within=1200, every=1.0)
    assert marshal.half_bound < TIMEOUT + SLACK
    assert marshal.half_kept < TIMEOUT + SLACK
    return world.judge()


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("scenario", [little_room, room_for_all])
def test_any_weather(scenario: Scenario, weather: str) -> None:
    brave(scenario, weather)


@simulate(seeds=range(5), max_steps=5_000_000)
async def test_little_room_and_late_news(sim: Sim) -> None:
    """Binds do not fail here: so no gang is ever half bound for longer than a bind takes."""
    world = World(sim, "watch_delay", profile=profile())
    await world.start(*(node(f"n{i}", cpu="3", pods=8) for i in range(3)))
    marshal = Marshal(world)
    sim.spawn(marshal.watch())
    await live(world, sim.random, singles=True)
    assert marshal.half_bound < 5
    assert marshal.half_kept < TIMEOUT + SLACK
    await world.cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: all_bound(world), within=1200, every=1.0)
    assert marshal.half_bound < 5
    world.judge()
