"""A scheduler in bad weather: faults, crashes, nodes that go and come back. And a referee, who sees all that the server does.

In flows the name of one trouble, or of all together; out flows a world with a scheduler in it, which `calm` brings to rest
and `judge` holds to what must be true whatever happened. `brave` takes a scenario through it, and sees that it came.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from itertools import cycle
from random import Random
from typing import Any, Final

from konverge.model.resource import Node, Object, Pod
from konverge.ports import WatchEvent
from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.resources import capacity_of, requests_of
from konverge.scheduler.snapshot import Snapshot
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, run_sim
from tests.unit.scheduler.clusters import NAME, Running, plugin_handle

EVERYTHING: Final = "everything"
"""All the troubles, by turns and at once."""


class Referee:
    """Follows the server's own changes, one by one, and raises at the first state that must never be."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self.pods: dict[str, Object] = {}
        """What the server holds, by uid."""
        self.nodes: dict[str, Object] = {}
        """By name."""
        self._node_of: dict[str, str] = {}
        self._on: dict[str, dict[str, Mapping[str, int]]] = {}

    def start(self, sim: Sim) -> None:
        """Follow the server until the simulation ends."""
        sim.spawn(self._follow(Node, self._on_node))
        sim.spawn(self._follow(Pod, self._on_pod))

    async def _follow(self, resource: Any, see: Callable[[WatchEvent], None]) -> None:
        async for event in self._api.watch(resource, resource_version="", timeout_seconds=1e9):
            see(event)

    def _on_node(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            return
        name = event.object["metadata"]["name"]
        self.nodes[name] = event.object
        if event.type == "DELETED":
            del self.nodes[name]
        self._check(name)

    def _on_pod(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            return
        raw = event.object
        uid, where = raw["metadata"]["uid"], raw["spec"].get("nodeName")
        self.pods[uid] = raw
        if event.type == "DELETED":
            del self.pods[uid]
        if not where:
            return
        assert self._node_of.setdefault(uid, where) == where, f"{raw['metadata']['name']} is bound twice"
        here = self._on.setdefault(where, {})
        here[uid] = {"pods": 1, **requests_of(raw).amounts}
        if event.type == "DELETED" or raw["status"].get("phase") == "Succeeded":
            del here[uid]
        self._check(where)

    def _check(self, name: str) -> None:
        # A node that has just come back says what it has to offer a moment later.
        allocatable = self.nodes.get(name, {}).get("status", {}).get("allocatable")
        used = Counter[str]()
        for amounts in self._on.get(name, {}).values():
            used.update(amounts)
        for resource, amount in used.items():
            assert not allocatable or amount <= capacity_of(allocatable).get(resource, 0), (
                f"{name}: {amount} of {resource}"
            )


def hopeful(referee: Referee) -> list[str]:
    """The pods that wait although there is a place for them, or somebody to push out."""
    snapshot, waiting = Snapshot(), list[PodInfo]()
    for raw in referee.nodes.values():
        snapshot.set_node(raw)
    for info in map(PodInfo, referee.pods.values()):
        if info.node_name and not info.finished:
            snapshot.place(info)
        elif info.waiting:
            waiting.append(info)
    profile = compile_profile(ProfileConfig(NAME), Registry.default(), plugin_handle())
    results = {info.name: Cycle(snapshot, Random(0)).schedule(profile, info) for info in waiting}
    return [name for name, result in results.items() if not isinstance(result, Diagnosis) or result.victims]


class World:
    """A server without faults of its own, and the lives of a scheduler whose client meets them."""

    def __init__(
        self,
        sim: Sim,
        weather: str,
        *,
        profile: ProfileConfig | None = None,
        registry: Registry | None = None,
        pods_outlive_nodes: bool = False,
    ) -> None:
        """`weather` is one of `WEATHERS`; `pods_outlive_nodes`: no pod is deleted because its node is away."""
        self.sim, self.weather = sim, weather
        self.api = FakeApi(clock=sim.clock, random=sim.random)
        self.referee = Referee(self.api)
        self.lives: list[Running] = []
        self.deeds: Counter[str] = Counter()
        self._profile, self._registry, self._pods_outlive_nodes = profile, registry, pods_outlive_nodes
        self._over = False
        self.up = False
        """Whether there is a scheduler, and it reaches the server."""

    @property
    def cluster(self) -> Running:
        """The scheduler as it lives now, or lived last."""
        return self.lives[-1]

    @property
    def faults(self) -> Faults:
        """Those of the scheduler's client."""
        return self.cluster.api.faults

    @property
    def happened(self) -> Counter[str]:
        """How often each trouble came."""
        return sum((life.api.faults.happened for life in self.lives), +self.deeds)

    async def start(self, *objects: Object) -> None:
        """Let the scheduler run, on a cluster that holds `objects`, and the weather begin."""
        self.referee.start(self.sim)
        await Running(self.sim, self.api).create(*objects)
        await self.live()
        self._storm = self.sim.spawn(self._strike())

    async def live(self) -> None:
        """A scheduler begins, knowing nothing."""
        client = self.api.client(f"scheduler-{len(self.lives)}", _faults(self.sim, self.weather))
        life = Running(self.sim, client, self._registry)
        self.lives.append(life)
        await life.start(profile=self._profile, sync_within=900)
        self.up = True

    async def calm(self) -> None:
        """No more troubles."""
        self._over = True
        await self._storm
        self.faults.stop()

    def judge(self) -> Counter[str]:
        """Each pod was bound once, and no bind was even asked for that had come true before. Returns what happened."""
        binds = [request for request in self.api.requests if request.subresource == "binding"]
        bound = Counter(request.body["metadata"]["uid"] for request in binds if request.changed)
        assert set(bound.values()) == {1}
        assert not [str(request.error) for request in binds if "already assigned" in str(request.error)]
        return self.happened

    async def some_are_on_their_way(self) -> bool:
        """Wait for a moment when pods are promised a node and have not got it yet; False when there is none soon."""
        for _ in range(200):
            snapshot, pods = self.cluster.scheduler._snapshot, self.referee.pods.items()
            if any(snapshot.is_assumed(uid) and not raw["spec"].get("nodeName") for uid, raw in pods):
                await asyncio.sleep(self.sim.random.uniform(0, 0.5))
                return True
            await asyncio.sleep(0.1)
        return False

    async def _strike(self) -> None:
        deeds = [deed for name, deed in DEEDS.items() if self.weather in {name, EVERYTHING}]
        self.sim.random.shuffle(deeds)
        for deed in cycle(deeds):
            await asyncio.sleep(self.sim.random.uniform(1, 10))
            if self._over:
                return
            await deed(self)


async def crash(world: World) -> None:
    """The scheduler's process ends at any point: nothing more that it does reaches the server. Another one begins."""
    world.deeds["crash"] += await world.some_are_on_their_way()
    dying, faults, world.up = world.cluster, world.faults, False
    faults.partition()
    dying.running.cancel()
    dying.caching.cancel()
    # What was under way when it died, the server does or gives up before the next one looks. No scheduler could know of
    # a bind that the server does later, for somebody who is dead.
    await asyncio.sleep(max(faults.latency[1], faults.hang_seconds if faults.hang else 0.0))
    await asyncio.sleep(world.sim.random.uniform(0, 5))
    await world.live()


async def partition(world: World) -> None:
    """The scheduler is cut off from the server for a while."""
    world.deeds["partition"] += await world.some_are_on_their_way()
    world.up = False
    world.faults.partition()
    await asyncio.sleep(world.sim.random.uniform(1, 60))
    world.faults.heal()
    world.up = True


async def lost_node(world: World) -> None:
    """A node is deleted, and later registers itself again; its pods are still there, or were deleted meanwhile."""
    chance, others = world.sim.random, world.api.client("node-controller")
    raw = chance.choice(sorted(world.referee.nodes.values(), key=lambda raw: str(raw["metadata"]["name"])))
    name, labels = raw["metadata"]["name"], raw["metadata"]["labels"]
    world.deeds["lost_node"] += 1
    await others.delete(Node, name)
    await asyncio.sleep(chance.uniform(0, 20))
    if not world._pods_outlive_nodes and chance.random() < 0.5:
        for pod in [pod for pod in world.referee.pods.values() if pod["spec"].get("nodeName") == name]:
            await others.delete(Pod, pod["metadata"]["name"], "default")
    await world.cluster.create({**raw, "metadata": {"name": name, "labels": labels}})


DEEDS: Final[Mapping[str, Callable[[World], Awaitable[None]]]] = {
    "crash": crash,
    "partition": partition,
    "lost_node": lost_node,
}

TROUBLES: Final = (*Faults.kinds(), *DEEDS)

WEATHERS: Final = (*TROUBLES, EVERYTHING)

Scenario = Callable[..., Coroutine[Any, Any, Counter[str]]]
"""Gets the simulation and the weather, and returns what happened in it."""

SEEDS: Final = 5
"""So many times a scenario goes through each weather; through everything, three times as many."""


def once(scenario: Scenario, weather: str, seed: int) -> Counter[str]:
    """Take the scenario through the weather; returns what happened."""
    return run_sim(partial(scenario, weather=weather), seed, max_steps=5_000_000)


def brave(scenario: Scenario, weather: str) -> Counter[str]:
    """Take the scenario through the weather with some seeds; over all of them, each trouble must have come."""
    happened = Counter[str]()
    for seed in range(3 * SEEDS if weather == EVERYTHING else SEEDS):
        happened += once(scenario, weather, seed)
    expected = TROUBLES if weather == EVERYTHING else (weather,)
    assert not [trouble for trouble in expected if not happened[trouble]]
    return happened


def _faults(sim: Sim, weather: str) -> Faults:
    rate = {EVERYTHING: 0.06, "watch_gone": 0.1}.get(weather, 0.3)
    if weather == EVERYTHING:
        faults = Faults.rough(sim.random, rate)
        faults.hang_seconds = 20.0
    elif weather in Faults.kinds():
        faults = Faults.rough(sim.random, rate, only=weather)
    else:
        faults = Faults(random=sim.random)
    # Slow answers, so that whatever happens meets a scheduler that has something under way.
    faults.latency = (0.001, 2.0)
    if faults.watch_delay[1]:
        faults.watch_delay = (0.0, 10.0)
    return faults
