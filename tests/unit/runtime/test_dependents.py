"""Children that are declared: applied in order, waited for, and deleted the other way round when nobody desires them."""

from typing import Any

import pytest

from konverge.errors import ApiError, ModelError, Terminal, WriteBlocked
from konverge.model import meta
from konverge.model.resource import ConfigMap, Deployment, Event, Job, Node, Object, ResourceType, Secret
from konverge.runtime.context import Context
from konverge.runtime.dependents import Dependent, Order
from konverge.runtime.result import Result
from konverge.runtime.rollout import Children, DependentReconciler
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, Lamp, World

LARGEST = 5


class Config(Dependent[Gadget], kind=ConfigMap):
    """Not desired by a gadget of size 0."""

    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any] | None:
        return {"data": {"size": str(obj.spec.size)}} if obj.spec.size else None


class Password(Dependent[Gadget], kind=Secret):
    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
        return {"stringData": {"password": "x"}}


class Server(Dependent[Gadget], kind=Deployment, after=[Config, Password]):
    """Not desired by a gadget of size 0."""

    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any] | None:
        return {"spec": {"replicas": obj.spec.size}} if obj.spec.size else None


class Smoke(Dependent[Gadget], kind=Job, after=[Server]):
    def name(self, obj: Gadget, /) -> str:
        return f"{obj.name}-{obj.spec.size}"

    def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any] | None:
        return {"spec": {"completions": 1}} if obj.spec.size else None


class GadgetTeam(DependentReconciler[Gadget], dependents=[Smoke, Server, Password, Config]):
    async def report(self, obj: Gadget, ctx: Context, children: Children, /) -> None:
        obj.status.notes = {kind.__name__: child["kind"] for kind, child in children.live.items()}


async def set_status(world: World, resource: ResourceType, name: str, **status: Any) -> None:
    """What the controller of a built-in kind would say."""
    await world.api.client("kube").patch(resource, name, {"status": status}, NAMESPACE, subresource="status")


async def roll_out(world: World, replicas: int) -> None:
    """Let the Deployment come up."""
    (live,) = world.api.objects(Deployment)
    await set_status(
        world, Deployment, "one",
        observedGeneration=meta.generation_of(live), replicas=replicas, updatedReplicas=replicas,
        availableReplicas=replicas,
    )  # fmt: skip


async def complete(world: World, name: str) -> None:
    """Let the Job come to its end."""
    await set_status(world, Job, name, conditions=[{"type": "Complete", "status": "True"}])


def kinds(world: World) -> set[str]:
    """The kinds of which children are there."""
    return {each.kind for each in (ConfigMap, Secret, Deployment, Job) if world.api.objects(each)}


async def running(sim: Sim, size: int = 2) -> World:
    world = World(sim, GadgetTeam()).start()
    await world.create(size=size)
    await sim.until(lambda: bool(world.api.objects(Deployment)))
    await roll_out(world, size)
    await sim.until(lambda: bool(world.api.objects(Job)))
    await complete(world, f"one-{size}")
    await sim.until(world.ready)
    return world


@simulate()
async def test_each_waits_for_what_it_comes_after_and_ready_says_for_what(sim: Sim) -> None:
    world = World(sim, GadgetTeam()).start()
    await world.create(size=2)
    await sim.until(lambda: world.condition().get("reason") == "ServerNotReady")
    assert kinds(world) == {"ConfigMap", "Secret", "Deployment"}
    assert world.condition()["status"] == "Unknown"
    assert world.condition()["message"] == "Deployment one was not looked at yet; Job one-2 comes after Server"
    assert world.condition("Reconciling")["status"] == "True"

    await roll_out(world, 1)
    await sim.until(lambda: "1 of 2 replicas are updated" in world.condition()["message"])
    await roll_out(world, 2)
    await sim.until(lambda: world.condition().get("reason") == "SmokeNotReady")
    assert world.condition()["message"] == "Job one-2 0 of 1 pods succeeded"

    await complete(world, "one-2")
    await sim.until(world.ready)
    assert not world.condition("Reconciling")
    assert (world.get() or {})["status"]["notes"] == {
        "Config": "ConfigMap", "Password": "Secret", "Server": "Deployment", "Smoke": "Job",
    }  # fmt: skip


@simulate()
async def test_independent_ones_are_applied_at_once_and_the_rest_in_order(sim: Sim) -> None:
    world = World(sim, GadgetTeam())
    world.api.faults.latency = (1.0, 1.0)
    world.start()
    await world.create(size=1)
    await sim.until(lambda: bool(world.api.objects(Deployment)))
    at = {write.resource.kind: write.time for write in world.api.writes if write.verb == "apply"}
    assert at["ConfigMap"] == at["Secret"] < at["Deployment"]


@simulate()
async def test_what_has_settled_is_not_written_again(sim: Sim) -> None:
    world = await running(sim)
    written = len(world.api.writes)
    await world.restart()
    await sim.clock.sleep(3600)
    assert len(world.api.writes) == written


@simulate()
async def test_what_is_not_desired_any_more_goes_in_the_reverse_order(sim: Sim) -> None:
    """The ConfigMap outlives the Deployment, which still uses it, however long that takes to go."""
    world = await running(sim)
    for resource, name in ((Deployment, "one"), (Job, "one-2")):
        await world.api.client("kube").patch(resource, name, {"metadata": {"finalizers": ["kube/x"]}}, NAMESPACE)
    await world.edit(size=0)
    await sim.until(lambda: world.condition().get("reason") == "DeletingChildren")
    # The Job's name follows the size: under the new one there is none, so it has settled at once.
    assert "ConfigMap one is deleted after Server" in world.condition()["message"]
    assert kinds(world) == {"ConfigMap", "Secret", "Deployment", "Job"}
    await world.api.client("kube").patch(Deployment, "one", {"metadata": {"finalizers": None}}, NAMESPACE)
    await world.api.client("kube").patch(Job, "one-2", {"metadata": {"finalizers": None}}, NAMESPACE)
    await sim.until(lambda: world.ready() and kinds(world) == {"Secret"})
    deleted = [write.resource.kind for write in world.api.writes if write.verb == "delete"]
    assert deleted.index("Deployment") < deleted.index("ConfigMap")
    await world.edit(size=1)
    await sim.until(lambda: kinds(world) == {"ConfigMap", "Secret", "Deployment"})


@simulate()
async def test_a_child_under_a_former_name_goes_once_its_successor_is_ready(sim: Sim) -> None:
    world = await running(sim)
    await world.edit(size=3)
    await sim.until(lambda: world.condition().get("reason") == "ServerNotReady")
    await roll_out(world, 3)
    await sim.until(lambda: world.condition().get("reason") == "SmokeNotReady")
    assert {meta.key_of(job).name for job in world.api.objects(Job)} == {"one-2", "one-3"}
    await complete(world, "one-3")
    await sim.until(lambda: world.ready() and len(world.api.objects(Job)) == 1)
    told = {event["reason"] for event in world.api.objects(Event) if "one-2" in event["note"]}
    assert told == {"Created", "Deleted"}


@simulate()
async def test_children_that_the_reconciler_makes_itself_are_left_alone(sim: Sim) -> None:
    class Handy(DependentReconciler[Gadget], dependents=[Config]):
        async def report(self, obj: Gadget, ctx: Context, children: Children, /) -> None:
            if ctx.get(ConfigMap, "by-hand") is None:
                await ctx.create_once(ConfigMap, "by-hand", {"data": {"of": obj.name}})

    world = World(sim, Handy()).start()
    await world.create(size=1)
    await sim.until(world.ready)
    await world.edit(size=2)
    await sim.until(world.ready)
    assert {meta.key_of(each).name for each in world.api.objects(ConfigMap)} == {"one", "by-hand"}


@simulate()
async def test_a_failure_of_one_does_not_keep_independent_ones_from_being_applied(sim: Sim) -> None:
    world = World(sim, GadgetTeam())
    world.api.faults.inject(ApiError.of(422, "Invalid", "no"), verbs=["apply"], resource=Secret, times=100)
    world.start()
    await world.create(size=1)
    await sim.until(lambda: world.condition().get("reason") == "Invalid")
    assert kinds(world) == {"ConfigMap"}


@simulate()
async def test_the_loss_of_the_lease_comes_before_any_other_failure(sim: Sim) -> None:
    """Whatever else failed beside it: a replica that may not write any more must not report failures either."""

    class Broken(Dependent[Gadget], kind=Secret):
        def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
            raise ValueError("broken")

    class Blocked(Dependent[Gadget], kind=ConfigMap):
        def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
            raise WriteBlocked("the lease is lost")

    class Team(DependentReconciler[Gadget], dependents=[Broken, Blocked]):
        pass

    world = World(sim, Team()).start()
    await world.create()
    await sim.clock.sleep(60)
    assert not world.condition()


@simulate()
async def test_a_failed_job_is_a_failure(sim: Sim) -> None:
    world = World(sim, GadgetTeam()).start()
    await world.create(size=1)
    await sim.until(lambda: bool(world.api.objects(Deployment)))
    await roll_out(world, 1)
    await sim.until(lambda: bool(world.api.objects(Job)))
    await set_status(world, Job, "one-1", conditions=[{"type": "Failed", "status": "True", "message": "too often"}])
    await sim.until(lambda: world.condition().get("status") == "False")
    assert world.condition()["message"] == "Job one-1 failed: too often"


@simulate()
async def test_ready_and_the_result_can_be_one_s_own(sim: Sim) -> None:
    class Own(Config):
        def ready(self, obj: Gadget, live: Object, /) -> bool | str:
            if obj.spec.size > LARGEST:
                raise Terminal("TooLarge", "at most 5")
            return obj.spec.size == 2

    class Team(DependentReconciler[Gadget], dependents=[Own]):
        async def report(self, obj: Gadget, ctx: Context, children: Children, /) -> Result | None:
            return Result.waiting("Resting", "three is odd") if obj.spec.size == 3 else None

    world = World(sim, Team()).start()
    await world.create(size=1)
    await sim.until(lambda: world.condition().get("message") == "ConfigMap one is not ready")
    await world.edit(size=2)
    await sim.until(world.ready)
    await world.edit(size=3)
    await sim.until(lambda: world.condition()["reason"] == "Resting")
    await world.edit(size=6)
    await sim.until(lambda: world.condition("Stalled").get("reason") == "TooLarge")


@simulate()
async def test_a_teardown_goes_in_the_reverse_order_before_the_object(sim: Sim) -> None:
    class Orderly(GadgetTeam):
        async def finalize(self, obj: Gadget, ctx: Context, /) -> Result:
            return await self.tear_down(obj, ctx)

    world = World(sim, Orderly()).start()
    await world.create(size=1)
    await sim.until(lambda: bool(world.api.objects(Deployment)))
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None)
    deleted = [write.resource.kind for write in world.api.writes if write.verb == "delete" and write.user != "person"]
    assert deleted[0] == "Deployment"
    assert sorted(deleted[1:]) == ["ConfigMap", "Secret"]
    assert kinds(world) == set()


@simulate()
async def test_two_dependents_that_are_the_same_child_are_an_error(sim: Sim) -> None:
    class Twin(Config):
        pass

    class Team(DependentReconciler[Gadget], dependents=[Config, Twin]):
        pass

    world = World(sim, Team()).start()
    await world.create(size=1)
    await sim.until(world.condition)
    assert world.condition()["message"] == "Config and Twin are the same child, ConfigMap one; name one differently"


class TestDeclaration:
    def test_it_owns_the_kinds_of_its_dependents_and_what_it_says_beside(self) -> None:
        class Team(DependentReconciler[Gadget], dependents=[Config, Password], owns=[Job]):
            pass

        class More(Team, dependents=[Server]):
            pass

        assert Team.owns == (ConfigMap, Secret, Job)
        assert set(More.owns) == {ConfigMap, Secret, Job, Deployment}
        assert More.dependents == (Config, Password, Server)

    def test_a_child_may_be_in_another_namespace_where_its_kind_has_one(self) -> None:
        class Elsewhere(Config):
            def namespace(self, obj: Gadget, /) -> str:
                return "other"

        class Everywhere(Elsewhere, kind=Node):
            pass

        gadget = Gadget.parse({"metadata": {"name": "one", "namespace": NAMESPACE}})
        assert [each().key(gadget) for each in (Config, Elsewhere, Everywhere)] == [
            (NAMESPACE, "one"), ("other", "one"), ("", "one"),
        ]  # fmt: skip

    def test_a_circle_is_refused_by_name(self) -> None:
        class Hen(Dependent[Gadget], kind=ConfigMap, after=["Egg"]):
            def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
                return {}

        class Egg(Hen, kind=Secret, after=[Hen]):
            pass

        class Chick(Dependent[Gadget], kind=ConfigMap, after=["Chick"]):
            def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
                return {}

        with pytest.raises(
            ModelError, match=r"Farm: .* (Hen after Egg after Hen|Egg after Hen after Egg|Egg after Egg);"
        ):

            class Farm(DependentReconciler[Gadget], dependents=[Hen, Egg]):
                pass

        with pytest.raises(ModelError, match="Chick after Chick"):
            Order.of("Farm", [Chick])

    def test_what_comes_after_another_comes_after_all_that_this_one_does(self) -> None:
        order = Order.of("Team", [Smoke, Server, Password, Config])
        assert order.before[Smoke] == {Server, Password, Config}
        assert [[type(each) for each in layer] for layer in order.layers] == [[Password, Config], [Server], [Smoke]]
        assert {*order.behind(order.layers[0][0])} == {Server, Smoke}

    def test_one_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ModelError, match=r"Server comes after Password, which is not among .*\(Config, Server\)"):
            Order.of("Team", [Config, Server])

    def test_one_of_another_resource_is_refused(self) -> None:
        with pytest.raises(ModelError, match="Team reconciles Lamp, but Config is of Gadget"):

            class Team(DependentReconciler[Lamp], dependents=[Config]):
                pass

    def test_one_that_cannot_be_made_is_refused(self) -> None:
        class Vague(Dependent[Gadget], kind=ConfigMap):
            pass

        class Kindless(Dependent[Gadget]):
            def desired(self, obj: Gadget, ctx: Context, /) -> dict[str, Any]:
                return {}

        with pytest.raises(ModelError, match="Vague lacks desired"):
            Order.of("Team", [Vague])  # type: ignore[type-abstract]
        with pytest.raises(ModelError, match="Kindless: say what it is"):
            Order.of("Team", [Kindless])
