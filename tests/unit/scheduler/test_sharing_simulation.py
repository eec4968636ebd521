"""Replicas that share the placing of pods. Whatever goes wrong: no node is over-committed, no pod is bound twice, what spans
nodes holds, a gang is placed as a whole; and the pods of a replica that is gone are placed by the others.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from konverge.election import LEASE_DURATION
from konverge.model.resource import ConfigMap, Lease, Pod
from konverge.scheduler.gangs import GANG, MIN_COUNT
from konverge.scheduler.register import Section
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, node, pod, with_plugin
from tests.unit.scheduler.replicas import Replica
from tests.unit.scheduler.weather import Referee

ZONE = "topology.kubernetes.io/zone"


class Ground:
    """A server, a referee, and the replicas that come and go."""

    def __init__(self, sim: Sim) -> None:
        self.sim, self.api = sim, FakeApi(clock=sim.clock, random=sim.random)
        self.referee = Referee(self.api)
        self.referee.start(sim)
        self.create = Running(sim, self.api).create
        self.replicas: list[Replica] = []

    def replica(self, **options: Any) -> Replica:
        """Another one. Where it loses its lease and ends, something starts it anew."""
        made = Replica(self.sim, self.api, f"replica-{len(self.replicas)}", **options)
        made.lost = lambda: self.replica(**options)
        self.replicas.append(made)
        return made.start()

    @property
    def alive(self) -> list[Replica]:
        return [replica for replica in self.replicas if not replica.running.done()]

    @property
    def unbound(self) -> list[str]:
        return [raw["metadata"]["name"] for raw in self.api.objects(Pod) if not raw["spec"].get("nodeName")]

    @property
    def placed(self) -> int:
        return len(self.api.objects(Pod)) - len(self.unbound)

    def booked(self) -> set[str]:
        """The replicas that have booked anything."""
        data = next((raw.get("data") or {} for raw in self.api.objects(ConfigMap)), {})
        return {replica for replica, text in data.items() if Section.parse(text).bookings}

    async def know_each_other(self) -> None:
        names = frozenset(replica.name for replica in self.replicas)
        await self.sim.until(lambda: all(replica.members.alive == names for replica in self.replicas))

    def judge(self) -> None:
        """Each pod was bound once."""
        bound = Counter(write.name for write in self.api.writes if write.subresource == "binding" and write.changed)
        assert set(bound.values()) <= {1}


@simulate(seeds=range(4))
async def test_the_work_is_shared_and_the_register_empty_afterwards(sim: Sim) -> None:
    ground = Ground(sim)
    await ground.create(*(node(f"n{i}", cpu="64") for i in range(4)))
    one, other = ground.replica(), ground.replica()
    await ground.know_each_other()
    await ground.create(*(pod(f"p{i}", cpu="100m") for i in range(60)))
    await sim.until(lambda: not ground.unbound)
    assert len(one.bound) + len(other.bound) == 60
    assert min(len(one.bound), len(other.bound)) > 10
    await sim.until(lambda: not ground.booked())
    ground.judge()
    assert one.scheduler.stats("policy") == other.scheduler.stats("policy")


@simulate()
async def test_each_replica_can_say_which_other_one_a_pod_waits_for(sim: Sim) -> None:
    ground = Ground(sim)
    await ground.create(node("n", cpu="1"))
    one, other = ground.replica(), ground.replica()
    await ground.know_each_other()
    await ground.create(*(pod(f"p{i}", cpu="2") for i in range(20)))
    await sim.until(lambda: all(each.scheduler.stats("policy").unschedulable == 20 for each in (one, other)))
    assert one.scheduler.stats("policy").top_reasons == [("Insufficient cpu", 20)]
    assert other.scheduler.stats("policy").top_reasons == [("Insufficient cpu", 20)]
    hands = Counter[int]()
    for i in range(20):
        told = [replica.scheduler.explain("default", f"p{i}") for replica in (one, other)]
        (mine,) = [each for each in told if each and each["queue"]["place"] == "unschedulable"]
        (not_mine,) = [each for each in told if each and each is not mine]
        index = told.index(mine)
        assert not_mine["queue"]["why"] == f"another replica places it: replica-{index}"
        hands[index] += 1
    assert len(hands) == 2


@simulate(seeds=range(10), max_steps=5_000_000)
async def test_a_little_room_is_filled_exactly_by_both_at_once(sim: Sim) -> None:
    """All decide on the same last places at the same time, with writes that fail and watches that lag."""
    ground = Ground(sim)
    await ground.create(*(node(f"n{i}", cpu="2", pods=50) for i in range(5)))
    for _ in range(sim.random.choice([2, 3])):
        faults = Faults(random=sim.random, conflict=0.1, drop_after=0.1, server_error=0.1, watch_delay=(0.5, 8.0))
        ground.replica(faults=faults)
    await ground.create(*(pod(f"p{i}", cpu="500m") for i in range(30)))
    await sim.until(lambda: ground.placed == 20, within=900, every=1.0)
    await asyncio.sleep(60)
    assert ground.placed == 20
    ground.judge()
    await sim.until(
        lambda: all(each.scheduler.stats("policy").unschedulable == 10 for each in ground.alive), within=900
    )


@simulate(seeds=range(6))
async def test_the_pods_of_a_replica_that_dies_are_placed_by_the_other(sim: Sim) -> None:
    ground = Ground(sim)
    await ground.create(*(node(f"n{i}", cpu="8") for i in range(3)))
    one, other = ground.replica(), ground.replica()
    await ground.know_each_other()
    one.api.faults.latency = (0.5, 3.0)
    await ground.create(*(pod(f"p{i}", cpu="500m") for i in range(30)))
    await sim.until(lambda: one.name in ground.booked())
    one.kill()
    begun = sim.time
    await sim.until(lambda: not ground.unbound, within=LEASE_DURATION + 30)
    assert sim.time - begun > 5, "nobody takes over what a member may still do"
    await sim.until(lambda: not ground.booked())
    ground.judge()
    assert other.members.alive == {other.name}
    await sim.until(lambda: len(ground.api.objects(Lease)) == 1)


@simulate(seeds=range(4))
async def test_a_replica_that_stops_in_order_is_succeeded_at_once(sim: Sim) -> None:
    ground = Ground(sim)
    await ground.create(node("n", cpu="64"))
    one, other = ground.replica(), ground.replica()
    await ground.know_each_other()
    await one.stop()
    begun = sim.time
    await ground.create(*(pod(f"p{i}", cpu="100m") for i in range(20)))
    await sim.until(lambda: not ground.unbound)
    assert sim.time - begun < 5
    assert len(other.bound) == 20


@simulate(seeds=[*range(8), 21025], max_steps=5_000_000)
async def test_replicas_come_and_die_in_rough_weather(sim: Sim) -> None:
    ground = Ground(sim)
    await ground.create(*(node(f"n{i}", cpu="4", pods=8) for i in range(4)))
    author = ground.api.client("author")

    def another() -> None:
        # A call that hangs is over before its replica's lease is: nobody can know of a bind that comes true later.
        ground.replica(faults=Faults.rough(sim.random, rate=0.05)).api.faults.hang_seconds = 4.0

    another()
    another()
    for index in range(60):
        cpu = sim.random.choice(["200m", "500m", "1", "3"])
        await ground.create(pod(f"p{index}", cpu=cpu, memory="64Mi", priority=sim.random.randint(0, 2)))
        if (placed := [raw for raw in ground.api.objects(Pod) if raw["spec"].get("nodeName")]) and index % 3 == 0:
            await author.delete(Pod, sim.random.choice(placed)["metadata"]["name"], "default")
        if index % 15 == 14:
            sim.random.choice(ground.alive).kill()
            another()
        await asyncio.sleep(sim.random.uniform(0, 3))
    for replica in ground.alive:
        replica.api.faults.stop()
    await ground.create(*(node(f"late{i}", cpu="200") for i in range(3)))
    await sim.until(lambda: not ground.unbound, within=1200, every=1.0)
    ground.judge()


@simulate(seeds=range(8), max_steps=5_000_000)
async def test_zones_are_kept_apart_though_the_pods_are_placed_by_two(sim: Sim) -> None:
    """What one replica places in a zone counts for what the other is about to place on another node of it."""
    ground = Ground(sim)
    zones = [f"z{i}" for i in range(4)]
    await ground.create(*(node(f"{zone}-{i}", labels={ZONE: zone}) for zone in zones for i in range(4)))
    for _ in range(2):
        ground.replica(faults=Faults(random=sim.random, watch_delay=(0.5, 5.0)))
    await ground.know_each_other()
    apart = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    for i in range(6):
        raw = pod(f"p{i}", cpu="100m", spec={"affinity": rule})
        raw["metadata"]["labels"] = {"app": "web"}
        await ground.create(raw)
    await sim.until(lambda: ground.placed == 4)
    await asyncio.sleep(30)
    found = [raw["spec"]["nodeName"].split("-")[0] for raw in ground.api.objects(Pod) if raw["spec"].get("nodeName")]
    assert sorted(found) == zones


def member(gang: str, index: int) -> dict[str, Any]:
    """One of four pods that each take most of a node."""
    raw = pod(f"{gang}-{index}", cpu="800m")
    raw["metadata"] |= {"labels": {GANG: gang}, "annotations": {MIN_COUNT: "4"}}
    return raw


async def gang_ground(sim: Sim) -> Ground:
    """Room for one gang, and two replicas."""
    ground = Ground(sim)
    await ground.create(*(node(f"n{i}", cpu="1") for i in range(4)))
    profile = with_plugin("Coscheduling", timeoutSeconds=60)
    for _ in range(2):
        faults = Faults(random=sim.random, watch_delay=(0.1, 2.0), latency=(0.01, 0.5))
        ground.replica(profile=profile, faults=faults)
    await ground.know_each_other()
    return ground


@pytest.mark.parametrize("gangs", [2, 5])
@simulate(seeds=[*range(6), 125], max_steps=5_000_000)
async def test_gangs_are_placed_whole(sim: Sim, gangs: int) -> None:
    """Room for one gang at a time, and two replicas that have some each: no part of one keeps another from its place."""
    ground = await gang_ground(sim)
    author = ground.api.client("author")
    await ground.create(*(member(f"g{gang}", index) for gang in range(gangs) for index in range(4)))
    for _ in range(gangs):
        await sim.until(lambda: ground.placed == 4, within=600)
        await asyncio.sleep(10)
        placed = [raw["metadata"]["name"] for raw in ground.api.objects(Pod) if raw["spec"].get("nodeName")]
        assert len({name.split("-")[0] for name in placed}) == 1
        for name in placed:
            await author.delete(Pod, name, "default")
    ground.judge()


@simulate(seeds=[*range(16), 20069], max_steps=5_000_000)
async def test_a_gang_gives_way_as_a_whole(sim: Sim) -> None:
    """A pod that stands alone, and that the other replica may place, takes one of the four nodes, or none."""
    ground = await gang_ground(sim)
    await ground.create(*(member("g", index) for index in range(4)), *(pod(f"lone{i}", cpu="800m") for i in range(2)))
    await sim.until(lambda: ground.placed in {2, 4})
    await asyncio.sleep(90)
    gang = [name for name in ground.unbound if name.startswith("g-")]
    assert len(gang) in {0, 4}
    ground.judge()
