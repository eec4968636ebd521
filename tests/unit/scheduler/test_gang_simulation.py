"""Gangs while everything goes wrong now and then. What must hold: no gang stays half placed past its timeout, and once
the faults stop and there is room, every gang is placed whole.
"""

import asyncio
import random
from collections import Counter
from typing import Any

from konverge.model.resource import Object, Pod
from konverge.scheduler import ProfileConfig
from konverge.scheduler.gangs import GANG, MIN_COUNT
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, node, pod, running, with_plugin
from tests.unit.scheduler.test_simulation import Referee

TIMEOUT = 120
SLACK = 30.0
"""Seconds that a verdict may take to reach the server, requests being repeated."""


def profile() -> ProfileConfig:
    return with_plugin("Coscheduling", timeoutSeconds=TIMEOUT)


def member(gang: str, name: str, min_count: int, cpu: str = "500m") -> dict[str, Any]:
    raw = pod(name, cpu=cpu)
    raw["metadata"] |= {"labels": {GANG: gang}, "annotations": {MIN_COUNT: str(min_count)}}
    return raw


class Marshal:
    """Watches gangs: for how long at most one was bound in part, or some of its pods kept nodes while it was too few."""

    def __init__(self, cluster: Running) -> None:
        self.cluster = cluster
        self.bound_since: dict[str, float] = {}
        self.kept_since: dict[str, float] = {}
        self.half_bound = self.half_kept = 0.0

    async def watch(self) -> None:
        while True:
            self.check()
            await asyncio.sleep(0.3)

    def check(self) -> None:
        wanted: dict[str, int] = {}
        bound: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        for raw in self.cluster.api.objects(Pod):
            gang = raw["metadata"].get("labels", {}).get(GANG)
            if gang is not None:
                wanted[gang] = int(raw["metadata"]["annotations"][MIN_COUNT])
                bound[gang] += bool(raw["spec"].get("nodeName"))
                waiting[gang] += self.cluster.scheduler._snapshot.is_assumed(raw["metadata"]["uid"])
        half_bound = {gang for gang, count in wanted.items() if 0 < bound[gang] < count}
        half_kept = {gang for gang, count in wanted.items() if waiting[gang] and bound[gang] + waiting[gang] < count}
        self.half_bound = max(self.half_bound, self._longest(self.bound_since, half_bound))
        self.half_kept = max(self.half_kept, self._longest(self.kept_since, half_kept))

    def _longest(self, since: dict[str, float], now_so: set[str]) -> float:
        now = self.cluster.sim.clock.monotonic()
        for gang in since.keys() - now_so:
            del since[gang]
        return max((now - since.setdefault(gang, now) for gang in now_so), default=0.0)


def gangs(chance: random.Random, count: int) -> list[Object]:
    """The pods of some gangs, as their controllers make them: in any order."""
    pods: list[Object] = []
    for number in range(count):
        size = chance.randint(2, 5)
        enough = chance.randint(2, size)
        pods += [member(f"g{number}", f"g{number}-{index}", enough) for index in range(size)]
    chance.shuffle(pods)
    return pods


async def replace_one(cluster: Running, chance: random.Random, generation: int) -> None:
    """Delete a pod of a gang of which nothing is bound yet; its controller makes another."""
    raw = chance.choice(cluster.api.objects(Pod))
    gang = raw["metadata"].get("labels", {}).get(GANG)
    if gang is None or any(
        each["spec"].get("nodeName")
        for each in cluster.api.objects(Pod)
        if each["metadata"].get("labels", {}).get(GANG) == gang
    ):
        return
    await cluster.api.client("author").delete(Pod, raw["metadata"]["name"], "default")
    enough = int(raw["metadata"]["annotations"][MIN_COUNT])
    await cluster.create(member(gang, f"{gang}-again-{generation}", enough))


async def finish_some(cluster: Running, chance: random.Random) -> None:
    """Pods that belong to no gang run to their end."""
    done: dict[str, Any] = {"status": {"phase": "Succeeded"}}
    for raw in cluster.api.objects(Pod):
        if raw["spec"].get("nodeName") and GANG not in raw["metadata"].get("labels", {}) and chance.random() < 0.2:
            await cluster.api.client("author").patch(
                Pod, raw["metadata"]["name"], done, "default", subresource="status"
            )


async def live(cluster: Running, chance: random.Random, *, singles: bool) -> None:
    for number, raw in enumerate(gangs(chance, 12)):
        await cluster.create(raw)
        if singles:
            await cluster.create(pod(f"s{number}", cpu=chance.choice(["200m", "1"])))
            await finish_some(cluster, chance)
        if chance.random() < 0.15:
            await replace_one(cluster, chance, number)
        await asyncio.sleep(chance.uniform(0, 3))


def all_bound(api: FakeApi) -> bool:
    return all(raw["spec"].get("nodeName") for raw in api.objects(Pod))


def rough(sim: Sim) -> FakeApi:
    faults = Faults.rough(sim.random, rate=0.08)
    faults.watch_silent = 0.0
    faults.stop()
    return FakeApi(clock=sim.clock, random=sim.random, faults=faults)


@simulate(seeds=range(5), max_steps=5_000_000)
async def test_rough_weather_and_little_room(sim: Sim) -> None:
    """Nodes that wait for the rest of a gang are given back in time, whatever fails."""
    api = rough(sim)
    cluster = await running(sim, *(node(f"n{i}", cpu="3", pods=8) for i in range(3)), api=api, profile=profile())
    api.faults.start()
    referee, marshal = Referee(api), Marshal(cluster)
    sim.spawn(referee.watch())
    sim.spawn(marshal.watch())
    await live(cluster, sim.random, singles=True)
    api.faults.stop()
    await cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: all_bound(api), within=1200, every=1.0)
    referee.check()
    bound = Counter(w.body["metadata"]["uid"] for w in api.writes if w.subresource == "binding" and w.changed)
    assert set(bound.values()) == {1}
    assert marshal.half_kept < TIMEOUT + SLACK


@simulate(seeds=range(5), max_steps=5_000_000)
async def test_rough_weather_and_room_for_all(sim: Sim) -> None:
    """A bind that fails leaves its gang half bound; while nobody takes its room, no longer than the gang's timeout."""
    api = rough(sim)
    cluster = await running(sim, *(node(f"n{i}", cpu="20") for i in range(3)), api=api, profile=profile())
    api.faults.start()
    marshal = Marshal(cluster)
    sim.spawn(marshal.watch())
    await live(cluster, sim.random, singles=False)
    await sim.until(lambda: all_bound(api), within=1200, every=1.0)
    assert marshal.half_bound < TIMEOUT + SLACK
    assert marshal.half_kept < TIMEOUT + SLACK


@simulate(seeds=range(5), max_steps=5_000_000)
async def test_little_room_and_late_news(sim: Sim) -> None:
    """Binds do not fail here: so no gang is ever half bound for longer than a bind takes."""
    api = FakeApi(clock=sim.clock, random=sim.random)
    cluster = await running(sim, *(node(f"n{i}", cpu="3", pods=8) for i in range(3)), api=api, profile=profile())
    api.faults.watch_delay = (0.1, 8.0)
    referee, marshal = Referee(api), Marshal(cluster)
    sim.spawn(referee.watch())
    sim.spawn(marshal.watch())
    await live(cluster, sim.random, singles=True)
    assert marshal.half_bound < 5
    assert marshal.half_kept < TIMEOUT + SLACK
    await cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: all_bound(api), within=1200, every=1.0)
    assert marshal.half_bound < 5
