"""One object through the controller: children, status, retries, timeouts, and never a write that changes nothing."""

import asyncio
from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest

from konverge.errors import ApiError, RetryAfter, Terminal
from konverge.model.meta import Key, owner_reference
from konverge.model.resource import ConfigMap, Event, ResourceType, Secret
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, GadgetReconciler, World, mirror


@simulate()
async def test_an_object_gets_its_child_and_one_status_write(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await world.create(size=3)
    await sim.until(world.ready)
    child, obj = world.child(), world.get()
    assert child is not None
    assert obj is not None
    assert child["data"] == {"size": "3"}
    assert child["metadata"]["ownerReferences"][0]["uid"] == obj["metadata"]["uid"]
    assert child["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "konverge"
    assert obj["status"]["size"] == 3
    assert [(write.verb, write.subresource) for write in world.writes_of("one")] == [("apply", ""), ("patch", "status")]


@simulate()
async def test_what_converged_is_not_written_again_over_ten_hours_and_a_restart(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await world.create()
    await sim.until(world.ready)
    before = len(world.api.writes)
    await sim.clock.sleep(36_000)
    await world.restart()
    await sim.clock.sleep(600)
    assert world.writes_of("one")[2:] == []
    assert len(world.api.writes) == before


@simulate()
async def test_an_edit_reaches_the_child_and_the_status_names_the_new_generation(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await world.create()
    await sim.until(world.ready)
    since = world.condition()["lastTransitionTime"]
    await sim.clock.sleep(60)
    await world.edit(size=7)
    await sim.until(lambda: world.ready() and (world.child() or {})["data"]["size"] == "7")
    assert world.condition()["lastTransitionTime"] == since
    assert world.condition()["observedGeneration"] == 2


@simulate()
async def test_a_child_deleted_or_edited_by_hand_comes_back(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await world.create(size=2)
    await sim.until(world.ready)
    person = world.api.client("person")
    await person.delete(ConfigMap, "one", NAMESPACE)
    await sim.until(lambda: world.child() is not None)
    await person.patch(ConfigMap, "one", {"data": {"size": "wrong", "extra": "kept"}}, NAMESPACE)
    await sim.until(lambda: (world.child() or {})["data"] == {"size": "2", "extra": "kept"})


@simulate()
async def test_a_field_that_is_no_longer_desired_is_taken_away(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        extra = {"extra": "1"} if gadget.spec.size == 1 else {}
        await ctx.apply(ConfigMap, gadget.name, {"data": {"size": str(gadget.spec.size), **extra}})
        return Result.done()

    world = World(sim, GadgetReconciler(step)).start()
    await world.create(size=1)
    await sim.until(world.ready)
    await world.edit(size=2)
    await sim.until(lambda: (world.child() or {})["data"] == {"size": "2"})


@simulate()
async def test_what_the_server_rewrites_is_not_applied_again(sim: Sim) -> None:
    """Replay 6, for rewriting that no rule knows: the server's own form right after an apply is no drift."""

    def rewrite(verb: str, resource: ResourceType, document: dict[str, Any], old: Any) -> None:
        if resource == ConfigMap:
            document["data"] = {key: value.upper() for key, value in document["data"].items()}

    async def step(gadget: Any, ctx: Context) -> Result:
        await ctx.apply(ConfigMap, gadget.name, {"data": {"text": "lower"}})
        return Result.done()

    world = World(sim, GadgetReconciler(step))
    world.api.admission.append(rewrite)
    world.start()
    await world.create()
    await sim.until(world.ready)
    for size in range(2, 6):
        await world.edit(size=size)
        await sim.until(world.ready)
    assert [write.verb for write in world.writes_of("one")].count("apply") == 1


@simulate()
async def test_labels_and_annotations_of_the_object_are_not_handed_down(sim: Sim) -> None:
    """Replay 19: Argo CD would prune a child that carries its tracking label."""
    world = World(sim, GadgetReconciler()).start()
    await world.create(labels={"argocd.argoproj.io/instance": "x"}, annotations={"argocd.argoproj.io/tracking-id": "y"})
    await sim.until(world.ready)
    assert "argocd" not in str(world.child())


@simulate()
async def test_a_child_of_another_controller_is_never_taken(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    person = world.api.client("person")
    owner = await person.create(Secret, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}}, NAMESPACE)
    owned = {"metadata": {"name": "one", "ownerReferences": [owner_reference(owner)]}, "data": {"x": "1"}}
    await person.create(ConfigMap, owned, NAMESPACE)
    await person.create(ConfigMap, {"metadata": {"name": "two"}, "data": {"x": "1"}}, NAMESPACE)
    world.start()
    for name, why in (("one", "belongs to Secret o"), ("two", "nobody's child")):
        await world.create(name)
        await sim.until(lambda name=name: world.condition(name=name).get("status") == "False")  # type: ignore[misc]
        assert why in world.condition(name=name)["message"]
        assert "Tried again after growing delays" in world.condition(name=name)["message"]
        assert world.condition(name=name)["reason"] == "NotOurs"
        assert (world.child(name) or {})["data"] == {"x": "1"}


@simulate()
async def test_an_orphan_with_our_label_is_adopted(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    orphan = {
        "metadata": {"name": "one", "labels": {"app.kubernetes.io/managed-by": "konverge"}},
        "data": {"size": "9"},
    }
    await world.api.client("person").create(ConfigMap, orphan, NAMESPACE)
    world.start()
    await world.create(size=1)
    await sim.until(world.ready)
    assert (world.child() or {})["data"] == {"size": "1"}
    assert len((world.child() or {})["metadata"]["ownerReferences"]) == 1


@simulate()
async def test_another_object_s_child_of_the_same_kind_of_owner_is_not_taken_either(sim: Sim) -> None:
    """Also not when that owner was of the same name: a namesake made anew is another owner."""
    world = World(sim, GadgetReconciler())
    person = world.api.client("person")
    former = {"metadata": {"name": "one", "uid": "former"}, "apiVersion": "test.konverge.dev/v1", "kind": "Gadget"}
    owned = {"metadata": {"name": "one", "ownerReferences": [owner_reference(former)]}, "data": {"x": "1"}}
    await person.create(ConfigMap, owned, NAMESPACE)
    world.start()
    await world.create()
    await sim.until(lambda: world.condition().get("status") == "False")
    assert "belongs to Gadget one, not to Gadget default/one" in world.condition()["message"]
    assert (world.child() or {})["data"] == {"x": "1"}


@simulate()
async def test_a_child_where_its_owner_cannot_own_it_is_refused_before_it_is_made(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await ctx.apply(ConfigMap, gadget.name, {}, namespace="elsewhere")
        return Result.done()

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(lambda: world.condition("Stalled").get("reason") == "ChildOutOfNamespace")
    assert "a ConfigMap in namespace elsewhere cannot be a child of Gadget default/one" in world.condition()["message"]
    assert world.api.objects(ConfigMap) == []


@simulate()
async def test_a_child_that_is_being_deleted_is_left_to_go_and_made_anew(sim: Sim) -> None:
    world = World(sim, GadgetReconciler()).start()
    await world.create(size=1)
    await sim.until(world.ready)
    person = world.api.client("person")
    await person.patch(ConfigMap, "one", {"metadata": {"finalizers": ["else.where/x"]}}, NAMESPACE)
    await person.delete(ConfigMap, "one", NAMESPACE)
    await world.edit(size=2)
    await sim.until(world.ready)
    assert (world.child() or {})["data"] == {"size": "1"}
    await person.patch(ConfigMap, "one", {"metadata": {"finalizers": None}}, NAMESPACE)
    await sim.until(lambda: (world.child() or {}).get("data") == {"size": "2"})


@simulate()
async def test_pruning_deletes_one_s_own_children_that_are_not_kept_and_nothing_else(sim: Sim) -> None:
    pruned: list[list[str]] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        names = [f"{gadget.name}-{number}" for number in range(gadget.spec.size)]
        for name in names:
            await ctx.apply(ConfigMap, name, {"data": {}})
        pruned.append(sorted(key.name for key in await ctx.prune(ConfigMap, names)))
        return Result.done()

    world = World(sim, GadgetReconciler(step))
    person = world.api.client("person")
    ours = {"app.kubernetes.io/managed-by": "konverge"}
    await person.create(ConfigMap, {"metadata": {"name": "orphan", "labels": ours}}, NAMESPACE)
    await person.create(ConfigMap, {"metadata": {"name": "stranger"}}, NAMESPACE)
    world.start()
    one = await world.create("one", size=3)
    await world.create("two", size=1)
    await sim.until(lambda: world.ready("one") and world.ready("two"))
    # One that a person made our object's, without our label: ours by ownership, but not made by us.
    lent = {"metadata": {"name": "lent", "ownerReferences": [owner_reference(one)]}}
    await person.create(ConfigMap, lent, NAMESPACE)
    await world.edit("one", size=1)
    await sim.until(lambda: world.ready("one"))
    left = {each["metadata"]["name"] for each in world.api.objects(ConfigMap)}
    assert left == {"one-0", "two-0", "lent", "orphan", "stranger"}
    assert [names for names in pruned if names] == [["one-1", "one-2"]]


@simulate()
async def test_create_once_never_replaces(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        made = await ctx.create_once(Secret, gadget.name, {"stringData": {"password": f"p{gadget.spec.size}"}})
        gadget.status.notes = {"secret": made["metadata"]["name"]}
        return Result.done()

    class Keeper(GadgetReconciler, owns=[Secret]):
        pass

    world = World(sim, Keeper(step)).start()
    await world.create(size=1)
    await sim.until(world.ready)
    await world.edit(size=2)
    await sim.until(world.ready)
    secrets = world.api.objects(Secret)
    assert [b64decode(secret["data"]["password"]) for secret in secrets] == [b"p1"]


async def unseen(sim: Sim, *, ours: bool) -> World:
    """An object to reconcile whose child is there already, which the operator's cache does not show."""

    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.spec.size == 0:
            return Result.done()
        assert ctx.get(ConfigMap, gadget.name) is None
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step)).start()
    obj = await world.create(size=0)
    await sim.until(world.ready)
    assert world.api.silence_watches(ConfigMap) == 1
    metadata: dict[str, Any] = {"name": "one"}
    if ours:
        metadata["labels"] = {"app.kubernetes.io/managed-by": "konverge"}
        metadata["ownerReferences"] = [owner_reference(obj)]
    await world.api.client("other").create(ConfigMap, {"metadata": metadata, "data": {"size": "9"}}, NAMESPACE)
    await world.edit(size=1)
    return world


@simulate()
async def test_an_object_that_the_cache_does_not_show_yet_is_not_taken_either(sim: Sim) -> None:
    """It was made by a person a moment ago."""
    world = await unseen(sim, ours=False)
    await sim.until(lambda: world.condition().get("status") == "False", within=20)
    assert "nobody's child" in world.condition()["message"]
    assert (world.child() or {})["data"] == {"size": "9"}


@simulate()
async def test_one_of_ours_that_the_cache_does_not_show_yet_is_taken_on(sim: Sim) -> None:
    """As after a crash right behind the write: the list was taken before it."""
    world = await unseen(sim, ours=True)
    await sim.until(world.ready, within=20)
    assert (world.child() or {})["data"] == {"size": "1"}


@simulate()
async def test_using_an_undeclared_kind_is_an_error_that_says_where_to_declare_it(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await ctx.apply(Secret, gadget.name, {})
        return Result.done()

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(world.condition)
    assert (
        world.condition()["message"]
        == "GadgetReconciler uses Secret without declaring it: add Secret to `owns` of the class"
    )


@simulate()
async def test_an_exception_is_shown_retried_with_growing_delays_and_stays_with_its_object(sim: Sim) -> None:
    times: list[float] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.name == "bad" and len(times) < 8:
            times.append(sim.time)
            raise ValueError("no luck")
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step)).start()
    await world.create("bad")
    await world.create("good")
    await sim.until(lambda: world.condition(name="bad").get("status") == "False")
    assert world.condition(name="bad")["message"] == "no luck"
    assert world.condition(name="bad")["reason"] == "ReconcileError"
    assert world.condition("Reconciling", "bad")["status"] == "True"
    assert not world.condition("Stalled", "bad")
    await sim.until(lambda: world.ready("bad") and world.ready("good"))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 20 * gaps[0]


@simulate()
async def test_terminal_is_stalled_and_waits_for_an_edit(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.spec.size > 5:
            raise Terminal("TooLarge", "at most 5")
        return await mirror(gadget, ctx)

    reconciler = GadgetReconciler(step)
    world = World(sim, reconciler).start()
    await world.create(size=6)
    await sim.until(lambda: world.condition("Stalled").get("status") == "True")
    assert world.condition()["status"] == "False"
    assert world.condition()["reason"] == "TooLarge"
    assert not world.condition("Reconciling")
    calls = reconciler.calls
    await sim.clock.sleep(5000)
    assert reconciler.calls == calls
    assert [event["reason"] for event in world.api.objects(Event)] == ["TooLarge"]
    await world.edit(size=2)
    await sim.until(world.ready)
    assert not world.condition("Stalled")


@simulate()
async def test_retry_after_chooses_the_delay(sim: Sim) -> None:
    times: list[float] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        times.append(sim.time)
        if len(times) == 1:
            raise RetryAfter(42, "QuotaExceeded", "none left")
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(world.ready)
    assert 42 <= times[1] - times[0] < 43


@simulate()
async def test_after_looks_again_and_waiting_is_not_ready(sim: Sim) -> None:
    looks: list[float] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        looks.append(sim.time)
        return Result.waiting("Warming", "1 of 2", after=5) if len(looks) < 3 else Result.after(100)

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(world.condition)
    assert world.condition()["status"] == "Unknown"
    assert world.condition("Reconciling")["reason"] == "Warming"
    await sim.until(world.ready)
    await sim.clock.sleep(250)
    gaps = [round(later - earlier) for earlier, later in pairwise(looks)]
    assert gaps == [5, 5, 100, 100]


@simulate()
async def test_a_reconcile_that_takes_too_long_is_cut_off_and_tried_again(sim: Sim) -> None:
    attempts = 0

    async def step(gadget: Any, ctx: Context) -> Result:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.Event().wait()
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(world.ready)
    first = world.writes_of("one")[0]
    assert 30 <= first.time < 31
    shown = first.object["status"]["conditions"][0]
    assert (shown["reason"], shown["message"]) == ("ReconcileTimeout", "took longer than 30 s")


@simulate()
async def test_a_timeout_inside_the_reconciler_is_its_own_error(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        async with asyncio.timeout(1):
            await asyncio.Event().wait()
        return Result.done()

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(world.condition)
    assert world.condition()["reason"] == "ReconcileError"


@simulate()
async def test_an_object_that_does_not_parse_is_set_aside_and_the_others_go_on(sim: Sim) -> None:
    """Replay 10: replicas: "two" among good ones."""
    world = World(sim, GadgetReconciler())
    await world.create("good")
    await world.create("bad", size="two")  # type: ignore[arg-type]
    world.start()
    await sim.until(lambda: world.ready("good") and world.condition("Stalled", "bad").get("status") == "True")
    assert world.condition(name="bad")["reason"] == "InvalidManifest"
    assert "spec.size" in world.condition(name="bad")["message"]
    writes = len(world.api.writes)
    await sim.clock.sleep(3600)
    assert len(world.api.writes) == writes
    await world.edit("bad", size=2)
    await sim.until(lambda: world.ready("bad"))


@simulate()
async def test_a_status_wiped_or_doubled_by_hand_is_rebuilt(sim: Sim) -> None:
    """Replay 22: three Ready conditions become one."""
    world = World(sim, GadgetReconciler()).start()
    await world.create()
    await sim.until(world.ready)
    person = world.api.client("person")
    await person.patch(world.resource, "one", {"status": None}, NAMESPACE, subresource="status")
    await sim.until(world.ready)
    ready = world.condition()
    thrice = [{**ready, "status": "False"}, ready, {**ready, "status": "Unknown"}]
    await person.patch(world.resource, "one", {"status": {"conditions": thrice}}, NAMESPACE, subresource="status")
    await sim.until(lambda: len((world.get() or {})["status"]["conditions"]) == 1 and world.ready())


@simulate()
async def test_a_status_conflict_is_reread_and_other_conditions_survive(sim: Sim) -> None:
    """Replay 7."""
    world = World(sim, GadgetReconciler())
    conflict = ApiError.of(409, "Conflict", "modified")
    world.api.faults.inject(conflict, verbs=["patch"], resource=world.resource, times=3)
    await world.create()
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    person = world.api.client("person")
    await person.patch(world.resource, "one", {"status": {"conditions": [theirs]}}, NAMESPACE, subresource="status")
    world.start()
    await sim.until(world.ready)
    assert world.condition("Theirs") == theirs
    assert (
        world.metrics.registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "gadget"})
        == 0
    )


@simulate()
async def test_a_status_that_keeps_conflicting_is_requeued_without_an_error(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    conflict = ApiError.of(409, "Conflict", "modified")
    world.api.faults.inject(conflict, verbs=["patch"], resource=world.resource, times=6)
    await world.create()
    world.start()
    await sim.until(world.ready)
    value = world.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_total", {"controller": "gadget", "result": "requeue"}) == 1
    assert value("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 0


@simulate()
async def test_a_read_sees_the_write_before_it(sim: Sim) -> None:
    """Read-your-writes: though every watch event is late, a child is made once."""
    seen: list[bool] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        await mirror(gadget, ctx)
        seen.append(ctx.get(ConfigMap, gadget.name) is not None and len(ctx.children(ConfigMap)) == 1)
        return Result.done()

    world = World(sim, GadgetReconciler(step))
    world.api.faults.watch_delay = (5.0, 9.0)
    world.start()
    await world.create()
    await sim.until(world.ready)
    assert seen == [True]


@simulate()
async def test_a_namespace_that_is_going_is_no_error(sim: Sim) -> None:
    cause = {"reason": "NamespaceTerminating", "message": "namespace default is being terminated", "field": "x"}
    refused = ApiError.of(403, "Forbidden", "unable to create new content", details={"causes": [cause]})
    world = World(sim, GadgetReconciler())
    world.api.faults.inject(refused, verbs=["apply"], times=3)
    world.start()
    await world.create()
    await sim.until(world.ready)
    value = world.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 0
    assert world.api.objects(Event) == []


@simulate()
async def test_another_refusal_is_an_error(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    world.api.faults.inject(ApiError.of(403, "Forbidden", "configmaps is forbidden"), verbs=["apply"], times=100)
    world.start()
    await world.create()
    await sim.until(lambda: world.condition().get("reason") == "Forbidden")
    assert "configmaps is forbidden" in world.condition()["message"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (RecursionError("too deep"), "too deep"),
        (MemoryError(), "MemoryError"),
        (BaseException("panic in a library of another language"), "panic in a library of another language"),
        (SystemExit(3), "3"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=lambda value: type(value).__name__,
)
@simulate()
async def test_what_is_no_ordinary_exception_is_counted_and_the_worker_lives(
    sim: Sim, error: BaseException, shown: str
) -> None:
    """More often than there are workers: a single lost one would stop the controller for good."""
    attempts = 0

    async def step(gadget: Any, ctx: Context) -> Result:
        nonlocal attempts
        attempts += 1
        if attempts <= 6:
            raise error
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(lambda: world.condition().get("status") == "False")
    assert world.condition()["message"] == shown
    await sim.until(world.ready)
    value = world.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_panics_total", {"controller": "gadget"}) == 6
    assert value("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 6


@simulate()
async def test_an_ordinary_exception_is_no_panic(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        raise TypeError("no")

    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(lambda: world.condition().get("status") == "False")
    value = world.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_panics_total", {"controller": "gadget"}) == 0


def _first_letter(key: Key) -> str:
    return key.name[0]


class TenantReconciler(GadgetReconciler, workers=4, shards=2, shard_of=_first_letter):
    """The objects of one letter share a half of the workers; `a` and `d` have different ones."""


@simulate()
async def test_with_shards_the_objects_of_one_tenant_do_not_hold_up_those_of_another(sim: Sim) -> None:
    running: set[str] = set()

    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.name.startswith("a"):
            running.add(gadget.name)
            await sim.clock.sleep(25)
        return await mirror(gadget, ctx)

    world = World(sim, TenantReconciler(step)).start()
    for number in range(8):
        await world.create(f"a{number}")
    await sim.until(lambda: len(running) == 2)
    await world.create("d")
    await sim.until(lambda: world.ready("d"), within=5)
    assert len(running) == 2
    await sim.until(lambda: all(world.ready(f"a{number}") for number in range(8)), within=200)


@simulate()
async def test_fewer_workers_than_shards_leave_no_shard_alone(sim: Sim) -> None:
    world = World(sim, TenantReconciler(), workers=1).start()
    for name in ("a", "b", "c"):
        await world.create(name)
    await sim.until(lambda: all(map(world.ready, ("a", "b", "c"))))
