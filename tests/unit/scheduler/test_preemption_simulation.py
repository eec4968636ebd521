"""Preemption in rough weather: nodes are never over-committed, also while victims stop, nobody is bound twice, no pod has
to go for one that is not more important, and once faults stop nobody waits who could push somebody out.
"""

import asyncio
import random
from collections import Counter

from konverge.model.resource import Object, Pod
from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.snapshot import Snapshot
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Running, node, plugin_handle, pod, running
from tests.unit.scheduler.test_simulation import Referee

STOPPING = "example.com/stopping"
"""A finalizer that stands for the time that containers take to stop."""


async def kubelet(sim: Sim, api: FakeApi) -> None:
    """Stop the containers of deleted pods, each after a while of its own."""
    client, stopping = api.client("kubelet"), set[str]()

    async def end(raw: Object) -> None:
        await asyncio.sleep(sim.random.uniform(0, 20))
        for live in api.objects(Pod):
            if live["metadata"]["uid"] == raw["metadata"]["uid"]:
                await client.patch(Pod, live["metadata"]["name"], {"metadata": {"finalizers": None}}, "default")

    while True:
        for raw in api.objects(Pod):
            if "deletionTimestamp" in raw["metadata"] and raw["metadata"]["uid"] not in stopping:
                stopping.add(raw["metadata"]["uid"])
                sim.spawn(end(raw))
        await asyncio.sleep(0.5)


async def live(cluster: Running, chance: random.Random) -> None:
    """Pods of every priority come, and now and then one goes."""
    for index in range(50):
        raw = pod(f"p{index}", chance.choice(["500m", "1", "2", "3"]), priority=chance.choice([0, 0, 1, 5, 5, 9]))
        raw["metadata"]["finalizers"] = [STOPPING]
        if chance.random() < 0.1:
            raw["spec"]["preemptionPolicy"] = "Never"
        await cluster.create(raw)
        if chance.random() < 0.1:
            name = chance.choice(cluster.api.objects(Pod))["metadata"]["name"]
            await cluster.api.client("author").delete(Pod, name, "default")
        await asyncio.sleep(chance.uniform(0, 2))


def hopeful(api: FakeApi) -> list[str]:
    """The pods that wait although there is a place for them, or somebody to push out."""
    snapshot, waiting = Snapshot(), list[PodInfo]()
    for index in range(4):
        snapshot.set_node(node(f"n{index}", cpu="4"))
    for info in map(PodInfo, api.objects(Pod)):
        if info.node_name:
            snapshot.place(info)
        elif info.waiting:
            waiting.append(info)
    profile = compile_profile(ProfileConfig(NAME), Registry.default(), plugin_handle())
    results = {info.name: Cycle(snapshot, random.Random(0)).schedule(profile, info) for info in waiting}
    return [name for name, result in results.items() if not isinstance(result, Diagnosis) or result.victims]


@simulate(seeds=range(10), max_steps=5_000_000)
async def test_rough_weather(sim: Sim) -> None:
    faults = Faults.rough(sim.random, rate=0.06)
    faults.watch_silent = 0.0
    api = FakeApi(clock=sim.clock, random=sim.random, faults=faults)
    faults.stop()
    cluster = await running(sim, *(node(f"n{i}", cpu="4") for i in range(4)), api=api)
    faults.start()
    referee = Referee(api)
    sim.spawn(referee.watch())
    sim.spawn(kubelet(sim, api))
    await live(cluster, sim.random)
    faults.stop()
    await sim.until(lambda: not hopeful(api), within=1200, every=5.0)
    referee.check()
    bound = Counter(w.body["metadata"]["uid"] for w in api.writes if w.subresource == "binding" and w.changed)
    assert set(bound.values()) == {1}
    made = [write.object for write in api.writes if write.verb == "create" and not write.subresource]
    pods = [PodInfo(raw) for raw in made if raw and raw["kind"] == "Pod"]
    by_name, by_uid = {info.name: info for info in pods}, {info.uid: info for info in pods}
    pushed = [(name, note.split()[3]) for name, _, reason, note in cluster.recorder.events if reason == "Preempted"]
    assert pushed
    for victim, uid in pushed:
        assert by_name[victim].priority < by_uid[uid].priority
        assert by_uid[uid].spec.get("preemptionPolicy") != "Never"
