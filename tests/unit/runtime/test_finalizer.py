"""The finalizer: on before anything is made, off when `finalize` is done, and others' finalizers left alone."""

from typing import Any

import pytest

from konverge.errors import ApiError, RetryAfter, Terminal
from konverge.model.resource import ConfigMap, Event, Secret
from konverge.runtime.context import Context
from konverge.runtime.finalize import Finalizer
from konverge.runtime.result import Result
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, HeldReconciler, World

OURS = "test.konverge.dev/gadget"


@simulate()
async def test_it_is_on_before_the_first_child_and_causes_no_second_reconcile(sim: Sim) -> None:
    reconciler = HeldReconciler()
    world = World(sim, reconciler).start()
    await world.create()
    await sim.until(world.ready)
    verbs = [(write.verb, write.subresource) for write in world.writes_of("one")]
    assert verbs == [("patch", ""), ("apply", ""), ("patch", "status")]
    assert reconciler.calls == 1


@simulate()
async def test_the_object_stays_until_finalize_is_done(sim: Sim) -> None:
    async def last(gadget: Any, ctx: Context) -> Result:
        if sim.time < 100:
            return Result.waiting("Draining", "not yet", after=10)
        return Result.done()

    world = World(sim, HeldReconciler(last=last)).start()
    await world.create()
    await sim.until(world.ready)
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.condition().get("reason") == "Draining")
    assert world.condition("Reconciling")["status"] == "True"
    await sim.until(lambda: world.get() is None)
    assert 100 <= sim.time < 111
    await sim.until(lambda: world.child() is None)


@simulate()
async def test_a_failing_finalize_is_retried(sim: Sim) -> None:
    reconciler = HeldReconciler()

    async def last(gadget: Any, ctx: Context) -> Result:
        if reconciler.finalized < 3:
            raise RetryAfter(5, "StillThere", "the cloud says no")
        return Result.done()

    reconciler.last = last
    world = World(sim, reconciler).start()
    await world.create()
    await sim.until(world.ready)
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None)
    assert reconciler.finalized == 3


@simulate()
async def test_finalize_is_not_run_again_for_others_finalizers(sim: Sim) -> None:
    reconciler = HeldReconciler()
    world = World(sim, reconciler).start()
    await world.create(finalizers=["else.where/job"])
    await sim.until(world.ready)
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: (world.get() or {})["metadata"]["finalizers"] == ["else.where/job"])
    await sim.clock.sleep(600)
    assert reconciler.finalized == 1
    assert reconciler.calls == 1


@simulate()
async def test_an_object_born_deleting_is_left_alone(sim: Sim) -> None:
    """Replay 4's kin: no finalizer can be added to what is being deleted, and nothing is made for it."""
    reconciler = HeldReconciler()
    world = World(sim, reconciler)
    await world.create(finalizers=["else.where/job"])
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    world.start()
    await sim.clock.sleep(60)
    assert reconciler.calls == reconciler.finalized == 0
    assert world.child() is None


async def stored(api: FakeApi, *finalizers: str) -> Gadget:
    body = {"metadata": {"name": "one", "finalizers": list(finalizers)}, "spec": {"size": 1}}
    full = {"apiVersion": Gadget.resource.api_version, "kind": "Gadget", **body}
    return Gadget.parse(await api.create(Gadget.resource, full, NAMESPACE))


@simulate()
async def test_removing_does_not_bring_back_what_another_removed(sim: Sim) -> None:
    """Replay 4: read as [job, ours]; job goes before our patch."""
    api = FakeApi(clock=sim.clock)
    read = await stored(api, "a/job", OURS, "z/last")
    person = api.client("person")
    await person.patch(Gadget.resource, "one", {"metadata": {"finalizers": [OURS, "z/last"]}}, NAMESPACE)
    left = await Finalizer(OURS, api, api).remove(read)
    assert left is not None
    assert left["metadata"]["finalizers"] == ["z/last"]


@simulate()
async def test_adding_keeps_what_another_added(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    read = await stored(api)
    await api.client("person").patch(Gadget.resource, "one", {"metadata": {"finalizers": ["a/job"]}}, NAMESPACE)
    held = await Finalizer(OURS, api, api).add(read)
    assert held is not None
    assert held["metadata"]["finalizers"] == ["a/job", OURS]


@simulate()
async def test_adding_or_removing_twice_sends_nothing(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    with_it = await stored(api, OURS)
    finalizer = Finalizer(OURS, api, api)
    sent = len(api.writes)
    assert await finalizer.add(with_it) is with_it.raw
    without = Gadget.parse({**with_it.raw, "metadata": {**with_it.raw["metadata"], "finalizers": []}})
    assert await finalizer.remove(without) is without.raw
    assert len(api.writes) == sent


@simulate()
async def test_an_object_that_is_gone_needs_nothing(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    read = await stored(api, OURS)
    person = api.client("person")
    await person.patch(Gadget.resource, "one", {"metadata": {"finalizers": None}}, NAMESPACE)
    await person.delete(Gadget.resource, "one", NAMESPACE)
    finalizer = Finalizer(OURS, api, api)
    assert await finalizer.remove(read) is None
    assert (
        await finalizer.add(Gadget.parse({**read.raw, "metadata": {**read.raw["metadata"], "finalizers": []}})) is None
    )


@simulate()
async def test_a_namesake_made_meanwhile_is_not_touched(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    read = await stored(api, OURS)
    person = api.client("person")
    await person.patch(Gadget.resource, "one", {"metadata": {"finalizers": None}}, NAMESPACE)
    await person.delete(Gadget.resource, "one", NAMESPACE)
    await stored(api, "a/job", OURS)
    assert await Finalizer(OURS, api, api).remove(read) is None
    assert api.objects(Gadget.resource)[0]["metadata"]["finalizers"] == ["a/job", OURS]


@pytest.mark.parametrize("verb", ["add", "remove"])
def test_conflicts_without_end_are_bounded(verb: str) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        api = FakeApi(clock=sim.clock)
        read = await stored(api, *([OURS] if verb == "remove" else []))
        api.faults.inject(ApiError.of(409, "Conflict", "busy"), verbs=["patch"], times=100)
        with pytest.raises(ApiError, match="busy"):
            await getattr(Finalizer(OURS, api, api), verb)(read)
        assert len([request for request in api.requests if request.verb == "patch"]) == 5

    scenario(seed=0)


@simulate()
async def test_the_child_is_not_made_when_the_object_goes_in_between(sim: Sim) -> None:
    world = World(sim, HeldReconciler())
    await world.create()
    world.api.faults.inject(ApiError.of(404, "NotFound", "gone"), verbs=["patch"], resource=world.resource)
    world.start()
    await sim.clock.sleep(1)
    assert world.child() is None
    assert world.api.objects(ConfigMap) == []


async def take_child_away(gadget: Any, ctx: Context) -> Result:
    """A `finalize` that waits for its operand to go."""
    await ctx.delete(ConfigMap, gadget.name)
    return Result.done() if ctx.get(ConfigMap, gadget.name) is None else Result.waiting("Deleting", "the child goes")


@simulate()
async def test_an_operand_that_is_gone_already_is_no_error(sim: Sim) -> None:
    """Deleted by someone else, which the cache does not show yet: our delete finds nothing."""
    reconciler = HeldReconciler(last=take_child_away)
    world = World(sim, reconciler).start()
    await world.create()
    await sim.until(world.ready)
    person = world.api.client("person")
    assert world.api.silence_watches(ConfigMap) == 1
    await person.delete(ConfigMap, "one", NAMESPACE)
    await person.delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None, within=20)
    assert [write.verb for write in world.api.requests if write.resource == ConfigMap][-1] == "delete"
    assert reconciler.finalized == 1
    errors = world.metrics.registry.get_sample_value
    assert errors("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 0


@simulate()
async def test_an_operand_that_takes_its_time_is_waited_for(sim: Sim) -> None:
    world = World(sim, HeldReconciler(last=take_child_away)).start()
    await world.create()
    await sim.until(world.ready)
    person = world.api.client("person")
    await person.patch(ConfigMap, "one", {"metadata": {"finalizers": ["else.where/x"]}}, NAMESPACE)
    await person.delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.condition().get("reason") == "Deleting")
    await sim.clock.sleep(3600)
    assert world.get() is not None
    await person.patch(ConfigMap, "one", {"metadata": {"finalizers": None}}, NAMESPACE)
    await sim.until(lambda: world.get() is None)


@simulate()
async def test_in_a_namespace_that_is_going_nothing_can_be_made_and_that_is_no_error(sim: Sim) -> None:
    """A `finalize` that has to make something is refused until it learns to do without; the finalizer stays meanwhile."""
    cause = {"reason": "NamespaceTerminating", "message": "namespace default is being terminated", "field": "x"}
    refused = ApiError.of(403, "Forbidden", "unable to create new content", details={"causes": [cause]})

    async def last(gadget: Any, ctx: Context) -> Result:
        if reconciler.finalized <= 3:
            await ctx.apply(Secret, "farewell", {"stringData": {"to": gadget.name}})
        return Result.done()

    reconciler = HeldReconciler(last=last)
    world = World(sim, reconciler).start()
    await world.create()
    await sim.until(world.ready)
    world.api.faults.inject(refused, verbs=["apply"], resource=Secret, times=100)
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None)
    assert reconciler.finalized == 4
    assert world.api.objects(Event) == []
    value = world.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 0


@simulate()
async def test_terminal_in_finalize_keeps_the_object_and_shows_why(sim: Sim) -> None:
    async def last(gadget: Any, ctx: Context) -> Result:
        if gadget.spec.size != 7:
            raise Terminal("StillInUse", "three clients are connected")
        return Result.done()

    reconciler = HeldReconciler(last=last)
    world = World(sim, reconciler).start()
    await world.create()
    await sim.until(world.ready)
    await world.api.client("person").delete(world.resource, "one", NAMESPACE)
    await sim.until(lambda: world.condition("Stalled").get("status") == "True")
    assert world.condition()["reason"] == "StillInUse"
    assert not world.condition("Reconciling")
    assert (world.get() or {})["metadata"]["finalizers"] == [OURS]
    tried = reconciler.finalized
    await sim.clock.sleep(5000)
    assert reconciler.finalized == tried
    await world.edit(size=7)
    await sim.until(lambda: world.get() is None)
