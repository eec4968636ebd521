"""Preemption in every weather: nodes are never over-committed, also while victims stop, nobody is bound twice, no pod has
to go for one that is not more important, and once it is over nobody waits who could push somebody out.
"""

import asyncio
import random
from collections import Counter

import pytest

from konverge.model.resource import Object, Pod
from konverge.scheduler.podinfo import PodInfo
from konverge.testing.sim import Sim
from tests.unit.scheduler.clusters import node, pod
from tests.unit.scheduler.weather import WEATHERS, World, brave, hopeful

STOPPING = "example.com/stopping"
"""A finalizer that stands for the time that containers take to stop."""


async def kubelet(world: World) -> None:
    """Stop the containers of deleted pods, each after a while of its own."""
    client, stopping = world.api.client("kubelet"), set[str]()

    async def end(uid: str) -> None:
        await asyncio.sleep(world.sim.random.uniform(0, 20))
        if uid in world.referee.pods:
            name = world.referee.pods[uid]["metadata"]["name"]
            await client.patch(Pod, name, {"metadata": {"finalizers": None}}, "default")

    while True:
        for uid, raw in world.referee.pods.items():
            if "deletionTimestamp" in raw["metadata"] and uid not in stopping:
                stopping.add(uid)
                world.sim.spawn(end(uid))
        await asyncio.sleep(0.5)


async def live(world: World, chance: random.Random) -> None:
    """Pods of every priority come, and now and then one goes."""
    for index in range(40):
        raw = pod(f"p{index}", chance.choice(["500m", "1", "2", "3"]), priority=chance.choice([0, 0, 1, 5, 5, 9]))
        raw["metadata"]["finalizers"] = [STOPPING]
        if chance.random() < 0.1:
            raw["spec"]["preemptionPolicy"] = "Never"
        await world.cluster.create(raw)
        if chance.random() < 0.1:
            gone: Object = chance.choice(list(world.referee.pods.values()))
            await world.api.client("author").delete(Pod, gone["metadata"]["name"], "default")
        await asyncio.sleep(chance.uniform(0, 2))


def victims(world: World) -> list[tuple[PodInfo, PodInfo]]:
    """Who had to go, and for whom."""
    made = [write.object for write in world.api.writes if write.verb == "create" and not write.subresource]
    pods = [PodInfo(raw) for raw in made if raw and raw["kind"] == "Pod"]
    by_name, by_uid = {info.name: info for info in pods}, {info.uid: info for info in pods}
    told = [event for life in world.lives for event in life.recorder.events]
    return [(by_name[name], by_uid[note.split()[3]]) for name, _, reason, note in told if reason == "Preempted"]


async def priorities(sim: Sim, weather: str) -> Counter[str]:
    world = World(sim, weather)
    await world.start(*(node(f"n{i}", cpu="4") for i in range(4)))
    sim.spawn(kubelet(world))
    await live(world, sim.random)
    await world.calm()
    await sim.until(lambda: not hopeful(world.referee), within=1200, every=20.0)
    pushed = victims(world)
    for victim, preemptor in pushed:
        assert victim.priority < preemptor.priority
        assert preemptor.spec.get("preemptionPolicy") != "Never"
    return world.judge() + Counter(preempted=len(pushed))


@pytest.mark.parametrize("weather", WEATHERS)
def test_any_weather(weather: str) -> None:
    assert brave(priorities, weather)["preempted"] > 0
