"""What the inspector tells of a running operator."""

from typing import Any

import pytest

from konverge.errors import ConnectionFailed, RetryAfter
from konverge.model.meta import Key
from konverge.model.resource import Pod
from konverge.runtime.context import Context
from konverge.runtime.controller import Controller
from konverge.runtime.debug import Inspector, UnknownToOperator
from konverge.runtime.history import History, Past
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, GadgetReconciler, World, mirror


def inspector_of(world: World) -> Inspector:
    world.controller.history = History()
    return Inspector([world.controller], world.caches, world.recorder)


@simulate()
async def test_a_reconciled_object_is_explained_with_its_last_outcome_and_its_children(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    inspector = inspector_of(world)
    await world.create()
    world.start()
    await sim.until(world.ready)
    await sim.clock.sleep(1)
    told = inspector.explain("gadget", NAMESPACE, "one")
    assert (told["kind"], told["namespace"], told["name"]) == ("Gadget", NAMESPACE, "one")
    assert told["object"]["health"] == "Current"
    assert told["object"]["observedGeneration"] == told["object"]["generation"]
    assert told["queue"] == {"controller": "gadget", "state": "idle", "failures": 0}
    assert told["last"]["result"] == "success"
    assert told["last"]["reason"] == "Reconciled"
    assert len(told["last"]["reconcileID"]) == 12
    assert [(child["kind"], child["name"], child["health"]) for child in told["children"]] == [
        ("ConfigMap", "one", "Current")
    ]


@simulate()
async def test_an_object_that_fails_is_explained_with_its_failures_its_error_and_its_events(sim: Sim) -> None:
    async def broken(gadget: Any, ctx: Context) -> Result:
        raise ValueError("no route to store")

    world = World(sim, GadgetReconciler(broken))
    inspector = inspector_of(world)
    await world.create()
    world.start()
    await sim.until(lambda: world.controller.queue.failures(Key(NAMESPACE, "one")) >= 10)
    told = inspector.explain("gadget", NAMESPACE, "one")
    assert told["queue"]["state"] == "delayed"
    assert told["queue"]["failures"] >= 10
    assert told["queue"]["dueIn"] > 0
    assert (told["last"]["result"], told["last"]["message"]) == ("error", "no route to store")
    (event,) = told["events"]
    assert (event["type"], event["message"]) == ("Warning", "no route to store")
    assert event["times"] >= 10
    assert event["ago"] >= 0


@simulate()
async def test_the_queue_shows_what_is_processing_ready_and_delayed(sim: Sim) -> None:
    async def slow(gadget: Any, ctx: Context) -> Result:
        if gadget.name == "later":
            raise RetryAfter(60)
        await sim.clock.sleep(20)
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(slow))
    inspector = inspector_of(world)
    await world.create("later")
    world.start()
    await sim.clock.sleep(5)
    names = [f"busy-{number}" for number in range(5)]
    for name in names:
        await world.create(name)
    await sim.clock.sleep(5)
    (queue,) = inspector.queues()
    assert (queue["controller"], queue["workers"]) == ("gadget", 4)
    assert [entry["key"] for entry in queue["processing"]] == [f"{NAMESPACE}/{name}" for name in names[:4]]
    assert all(0 < entry["seconds"] < 20 for entry in queue["processing"])
    assert [(entry["key"], entry["priority"]) for entry in queue["ready"]] == [(f"{NAMESPACE}/busy-4", 0)]
    (delayed,) = queue["delayed"]
    assert delayed["key"] == f"{NAMESPACE}/later"
    assert 40 < delayed["dueIn"] < 60
    (cut,) = inspector.queues("Gadget", limit=1)
    assert (len(cut["processing"]), cut["processingTotal"], cut["depth"]) == (1, 4, 1)
    assert inspector.explain("gadget", NAMESPACE, "busy-4")["queue"]["state"] == "ready"
    assert inspector.explain("gadget", NAMESPACE, "busy-0")["queue"]["state"] == "processing"


@simulate()
async def test_the_caches_show_what_is_held_and_how_it_is_followed(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    inspector = inspector_of(world)
    await world.create("one")
    await world.create("two")
    world.start()
    await sim.until(lambda: world.ready("one") and world.ready("two"))
    caches = {each["resource"]: each for each in inspector.caches()}
    assert set(caches) == {"gadgets.test.konverge.dev", "configmaps"}
    gadgets = caches["gadgets.test.konverge.dev"]
    assert gadgets["objects"] == 2
    assert 2 * 100 < gadgets["bytes"] < 2 * 5000
    assert (gadgets["synced"], gadgets["watching"], gadgets["lists"]) == (True, True, 1)
    assert gadgets["lastError"] is None
    assert int(gadgets["resourceVersion"]) > 0


@simulate()
async def test_before_the_first_list_a_cache_says_what_is_in_the_way(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    inspector = inspector_of(world)
    world.api.faults.inject(ConnectionFailed("refused"), verbs=["list", "watch"], times=10_000)
    world.start()
    await sim.clock.sleep(30)
    for cache in inspector.caches():
        assert (cache["synced"], cache["objects"], cache["bytes"]) == (False, 0, 0)
        assert "refused" in cache["lastError"]


@pytest.mark.parametrize(
    "name", ["gadget", "Gadget", "gadgets", "gadgets.test.konverge.dev", "gadget.test.konverge.dev"]
)
def test_a_kind_may_be_named_as_for_kubectl(name: str) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        inspector = inspector_of(World(sim, GadgetReconciler()))
        assert inspector.explain(name, NAMESPACE, "absent")["object"] is None

    scenario(seed=0)


@simulate()
async def test_an_unknown_kind_is_refused_with_the_known_ones(sim: Sim) -> None:
    inspector = inspector_of(World(sim, GadgetReconciler()))
    with pytest.raises(UnknownToOperator, match="no controller reconciles 'lamp'; known: gadget"):
        inspector.explain("lamp", NAMESPACE, "one")
    with pytest.raises(UnknownToOperator, match="known: gadget"):
        inspector.queues("lamp")


@simulate()
async def test_the_history_forgets_the_oldest(sim: Sim) -> None:
    history = History(limit=2)
    for number in range(3):
        history.note(Key("", str(number)), Past(sim.clock.now(), 0.1, "success", "id"))
    history.note(Key("", "1"), Past(sim.clock.now(), 0.2, "error", "id"))
    history.note(Key("", "3"), Past(sim.clock.now(), 0.1, "success", "id"))
    assert [bool(history.get(Key("", str(number)))) for number in range(4)] == [False, True, False, True]


@simulate()
async def test_the_number_of_workers_is_the_operators_where_it_is_given(sim: Sim) -> None:
    async def slow(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(20)
        return Result.done()

    world = World(sim, GadgetReconciler(slow))
    controller = Controller(
        world.reconciler,
        api=world.api,
        caches=world.caches,
        recorder=world.recorder,
        clock=sim.clock,
        random=sim.random,
        metrics=world.metrics.controller("few", workers=2),
        workers=2,
    )
    world.manager._controllers = [controller]
    for number in range(5):
        await world.create(f"g-{number}")
    world.start()
    await sim.clock.sleep(10)
    (queue,) = Inspector([controller], world.caches, world.recorder).queues()
    assert (queue["workers"], queue["processingTotal"], queue["depth"]) == (2, 2, 3)


@simulate()
async def test_a_pod_is_explained_by_the_scheduler_where_there_is_one(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    asked: list[tuple[str, str]] = []

    def explain_pod(namespace: str, name: str) -> dict[str, Any] | None:
        asked.append((namespace, name))
        return {"policy": "batch"} if name == "p" else None

    inspector = Inspector([world.controller], world.caches, world.recorder, explain_pod)
    await world.api.create(Pod, {"metadata": {"name": "p"}, "spec": {"containers": []}}, NAMESPACE)
    world.caches.cache(Pod)
    world.start()
    await sim.until(lambda: inspector.explain("pod", NAMESPACE, "p")["object"])

    told = inspector.explain("Pods", NAMESPACE, "p")
    assert (told["kind"], told["resource"], told["queue"], told["last"]) == ("Pod", "pods", None, None)
    assert told["scheduling"] == {"policy": "batch"}
    absent = inspector.explain("po", NAMESPACE, "absent")
    assert (absent["object"], absent["scheduling"]) == (None, None)
    assert asked[-1] == (NAMESPACE, "absent")
    with pytest.raises(UnknownToOperator):
        inspector_of(world).explain("pod", NAMESPACE, "p")
