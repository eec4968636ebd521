"""Random pods and nodes in every weather. Whatever goes wrong: no node is over-committed, no pod is bound twice, and once
it is over every pod that fits somewhere gets there.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from konverge.model.resource import Pod
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, node, pod
from tests.unit.scheduler.weather import WEATHERS, Referee, World, brave, hopeful


async def live(world: World, chance: random.Random) -> None:
    """The rest of the world: pods come, finish, go, and come again under the same name as other pods."""
    author = world.api.client("author")
    for index in range(50):
        name, again = f"p{index}", chance.random() < 0.2
        if again and (pods := list(world.referee.pods.values())):
            name = chance.choice(pods)["metadata"]["name"]
            await author.delete(Pod, name, "default")
        cpu = chance.choice(["200m", "500m", "1", "3"])
        await world.cluster.create(pod(name, cpu=cpu, memory="64Mi", priority=chance.randint(0, 2)))
        placed = [raw for raw in world.referee.pods.values() if raw["spec"].get("nodeName")]
        if placed and chance.random() < 0.25:
            done: dict[str, Any] = {"status": {"phase": "Succeeded"}}
            name = chance.choice(placed)["metadata"]["name"]
            await author.patch(Pod, name, done, "default", subresource="status")
        # Once so long that no watch is silent, and no assumption stands, for the whole of it.
        await asyncio.sleep(700 if index == 25 else chance.uniform(0, 1.5))


async def pods_and_nodes(sim: Sim, weather: str) -> Counter[str]:
    world = World(sim, weather)
    await world.start(*(node(f"n{i}", cpu="4", pods=8) for i in range(4)))
    await live(world, sim.random)
    await world.calm()
    await sim.until(lambda: not hopeful(world.referee), within=1200, every=20.0)
    await world.cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(
        lambda: all(raw["spec"].get("nodeName") for raw in world.referee.pods.values()), within=1200, every=1.0
    )
    return world.judge()


@pytest.mark.parametrize("weather", WEATHERS)
def test_any_weather(weather: str) -> None:
    brave(pods_and_nodes, weather)


@simulate(seeds=range(6))
async def test_many_pods_for_little_room_fill_it_exactly(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    cluster = Running(sim, api)
    await cluster.create(*(node(f"n{i}", cpu="2", pods=50) for i in range(5)))
    api.faults.conflict = api.faults.drop_after = api.faults.server_error = 0.2
    api.faults.watch_delay = (1.0, 12.0)  # a bind whose answer was lost shows long after its room could be given away
    Referee(api.client("referee")).start(sim)
    await cluster.create(*(pod(f"p{i}", cpu="500m") for i in range(30)))
    await cluster.start()
    await sim.until(
        lambda: sum(bool(raw["spec"].get("nodeName")) for raw in api.objects(Pod)) == 20, within=600, every=1.0
    )
    await asyncio.sleep(60)
    assert sum(bool(raw["spec"].get("nodeName")) for raw in api.objects(Pod)) == 20
    assert cluster.scheduler.stats("policy").unschedulable == 10
