"""Random pods, nodes and faults. Whatever goes wrong: no node is over-committed, no pod is bound twice, and once faults
stop every pod that fits somewhere gets there.
"""

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any

from konverge.model.resource import Node, Pod
from konverge.scheduler.resources import capacity_of, requests_of
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, node, pod, running


class Referee:
    """Watches the server's own state for what must never be."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.seen_at: dict[str, str] = {}

    def check(self) -> None:
        nodes = {raw["metadata"]["name"]: capacity_of(raw["status"]["allocatable"]) for raw in self.api.objects(Node)}
        used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for raw in self.api.objects(Pod):
            where = raw["spec"].get("nodeName")
            if not where or raw.get("status", {}).get("phase") == "Succeeded":
                continue
            used[where].update({"pods": 1, **requests_of(raw).amounts})
            assert self.seen_at.setdefault(raw["metadata"]["uid"], where) == where
        for name, amounts in used.items():
            for resource, amount in amounts.items():
                assert name not in nodes or amount <= nodes[name].get(resource, 0), f"{name}: {amount} of {resource}"

    async def watch(self) -> None:
        while True:
            self.check()
            await asyncio.sleep(0.3)


async def live(cluster: Running, chance: random.Random) -> None:
    """The rest of the world: pods come, finish and go, and another scheduler binds some of its own."""
    author = cluster.api.client("author")
    for index in range(60):
        cpu = chance.choice(["200m", "500m", "1", "3"])
        await cluster.create(pod(f"p{index}", cpu=cpu, memory="64Mi", priority=chance.randint(0, 2)))
        ours = [raw for raw in cluster.api.objects(Pod) if raw["spec"].get("nodeName")]
        if ours and chance.random() < 0.25:
            name = chance.choice(ours)["metadata"]["name"]
            done: dict[str, Any] = {"status": {"phase": "Succeeded"}}
            await author.patch(Pod, name, done, "default", subresource="status")
        if chance.random() < 0.1:
            await author.delete(Pod, chance.choice(cluster.api.objects(Pod))["metadata"]["name"], "default")
        await asyncio.sleep(chance.uniform(0, 1.5))


@simulate(seeds=range(12), max_steps=5_000_000)
async def test_rough_weather(sim: Sim) -> None:
    faults = Faults.rough(sim.random, rate=0.08)
    # The watches are gentler than the writes: a silent one only makes the scheduler see late what others did.
    faults.watch_silent = 0.0
    api = FakeApi(clock=sim.clock, random=sim.random, faults=faults)
    faults.stop()
    cluster = await running(sim, *(node(f"n{i}", cpu="4", pods=8) for i in range(4)), api=api)
    faults.start()
    referee = Referee(api)
    sim.spawn(referee.watch())
    await live(cluster, sim.random)
    faults.stop()
    await cluster.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: all(raw["spec"].get("nodeName") for raw in api.objects(Pod)), within=1200, every=1.0)
    referee.check()
    bound = Counter(w.body["metadata"]["uid"] for w in api.writes if w.subresource == "binding" and w.changed)
    assert bound
    assert set(bound.values()) == {1}


@simulate(seeds=range(6))
async def test_many_pods_for_little_room_fill_it_exactly(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    cluster = Running(sim, api)
    await cluster.create(*(node(f"n{i}", cpu="2", pods=50) for i in range(5)))
    api.faults.conflict = api.faults.drop_after = api.faults.server_error = 0.2
    api.faults.watch_delay = (1.0, 12.0)  # a bind whose answer was lost shows long after its room could be given away
    referee = Referee(api)
    sim.spawn(referee.watch())
    await cluster.create(*(pod(f"p{i}", cpu="500m") for i in range(30)))
    await cluster.start()
    await sim.until(
        lambda: sum(bool(raw["spec"].get("nodeName")) for raw in api.objects(Pod)) == 20, within=600, every=1.0
    )
    await asyncio.sleep(60)
    assert sum(bool(raw["spec"].get("nodeName")) for raw in api.objects(Pod)) == 20
    assert cluster.scheduler.stats("policy").unschedulable == 10
