"""The whole runtime under faults, crashes and hands that meddle: whatever happens, it converges and then writes nothing."""

from typing import Any

from konverge.model.resource import ConfigMap, Secret, Service
from konverge.runtime.context import Context
from konverge.runtime.dependents import Dependent
from konverge.runtime.result import Result
from konverge.runtime.rollout import DependentReconciler
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, HeldReconciler, World, mirror

NAMES = ("a", "b", "c", "d", "e")


class Watchful(HeldReconciler):
    """Notices when one object is reconciled twice at once."""

    def __init__(self, sim: Sim) -> None:
        super().__init__(self.slow_mirror)
        self.sim, self.running, self.overlaps = sim, set[str](), 0

    async def slow_mirror(self, gadget: Any, ctx: Context) -> Result:
        self.overlaps += gadget.name in self.running
        self.running.add(gadget.name)
        try:
            await self.sim.clock.sleep(self.sim.random.uniform(0, 2))
            return await mirror(gadget, ctx)
        finally:
            self.running.discard(gadget.name)


class Sharded(Watchful, shards=3):
    """The same with a queue in shards, of unequal shares of the four workers."""


async def meddle(world: World) -> None:
    """One thing that a person might do."""
    person, draw = world.api.client("person"), world.sim.random
    name = draw.choice(NAMES)
    match draw.randrange(6):
        case 0 if world.get(name) is None:
            await world.create(name, size=draw.randrange(100))
        case 1 if world.get(name) is not None:
            await world.edit(name, size=draw.randrange(100))
        case 2 if world.get(name) is not None and draw.random() < 0.5:
            await person.delete(world.resource, name, NAMESPACE)
        case 3 if world.child(name) is not None:
            await person.delete(ConfigMap, name, NAMESPACE)
        case 4 if world.child(name) is not None:
            await person.patch(ConfigMap, name, {"data": {"size": "wrong"}}, NAMESPACE)
        case 5 if world.get(name) is not None:
            await person.patch(world.resource, name, {"status": None}, NAMESPACE, subresource="status")
    await world.sim.clock.sleep(draw.uniform(0, 5))


def converged(world: World) -> bool:
    objects = {obj["metadata"]["name"]: obj for obj in world.api.objects(world.resource)}
    children = {obj["metadata"]["name"]: obj for obj in world.api.objects(ConfigMap)}
    return objects.keys() == children.keys() and all(
        world.ready(name) and children[name]["data"] == {"size": str(obj["spec"]["size"])}
        for name, obj in objects.items()
    )


@simulate(seeds=range(12))
async def test_it_converges_once_the_faults_stop_and_then_writes_nothing(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random))
    api.server.gives_initial_events = sim.seed % 2 == 0  # else lists in pages
    api.faults.stop()
    reconciler = Sharded(sim) if sim.seed % 3 == 0 else Watchful(sim)
    world = World(sim, reconciler, api)
    world.start_supervised()
    api.faults.start()
    for _ in range(60):
        await meddle(world)
        if sim.random.random() < 0.05:
            await world.crash()
            world.build()
            world.start_supervised()
            reconciler.running.clear()
    api.faults.stop()
    api.end_watches()
    await sim.until(lambda: converged(world), within=1500)
    await sim.clock.sleep(120)
    assert reconciler.overlaps == 0
    written = len(api.writes)
    await sim.clock.sleep(7200)
    assert len(api.writes) == written
    assert converged(world)


@simulate(seeds=range(6))
async def test_a_crash_between_any_two_writes_is_caught_up(sim: Sim) -> None:
    """The operator dies at a random moment of every life, forty times over."""
    world = World(sim, HeldReconciler())
    world.api.faults.latency = (0.0, 0.2)
    for name in NAMES:
        await world.create(name, size=sim.random.randrange(100))
    for _ in range(40):
        world.start()
        await sim.clock.sleep(sim.random.uniform(0, 1.0))
        await world.crash()
        world.build()
    world.start()
    await sim.until(lambda: converged(world) and len(world.api.objects(world.resource)) == len(NAMES))


class Base(Dependent[Gadget], kind=ConfigMap):
    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
        return {"data": {"size": str(obj.spec.size)}}


class Key(Dependent[Gadget], kind=Secret, after=[Base]):
    """Named after the size, so that an edit leaves one behind."""

    def name(self, obj: Gadget, /) -> str:
        return f"{obj.name}-{obj.spec.size % 3}"

    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
        base = ctx.get(ConfigMap, obj.name)
        assert base is not None  # it comes after it
        return {"stringData": {"of": base["metadata"]["name"]}}


class Door(Dependent[Gadget], kind=Service, after=[Key]):
    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any] | None:
        return {"spec": {"ports": [{"port": 80}]}} if obj.spec.size % 2 else None


class Team(DependentReconciler[Gadget], dependents=[Base, Key, Door]):
    async def finalize(self, obj: Gadget, ctx: Context, /) -> Result:
        return await self.tear_down(obj, ctx)


def in_place(world: World) -> bool:
    """Exactly the children that are desired are there, and everything is ready."""
    sizes = {obj["metadata"]["name"]: obj["spec"]["size"] for obj in world.api.objects(world.resource)}
    there = {
        kind: {obj["metadata"]["name"] for obj in world.api.objects(kind)} for kind in (ConfigMap, Secret, Service)
    }
    return (
        all(world.ready(name) for name in sizes)
        and there[ConfigMap] == sizes.keys()
        and there[Secret] == {f"{name}-{size % 3}" for name, size in sizes.items()}
        and there[Service] == {name for name, size in sizes.items() if size % 2}
    )


@simulate(seeds=range(12))
async def test_dependents_come_to_exactly_what_is_desired_and_then_write_nothing(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random))
    api.server.gives_initial_events = sim.seed % 2 == 0  # else lists in pages
    api.faults.stop()
    world = World(sim, Team(), api)
    world.start_supervised()
    api.faults.start()
    for _ in range(60):
        await meddle(world)
        if sim.random.random() < 0.05:
            await world.crash()
            world.build()
            world.start_supervised()
    api.faults.stop()
    api.end_watches()
    await sim.until(lambda: in_place(world), within=1500)
    await sim.clock.sleep(120)
    written = len(api.writes)
    await sim.clock.sleep(7200)
    assert len(api.writes) == written
    assert in_place(world)
