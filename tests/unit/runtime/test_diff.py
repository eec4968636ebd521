"""The differences between two versions of an object, as people read them."""

from typing import Any

from konverge.model.resource import ConfigMap, Deployment, Secret
from konverge.runtime.context import Context
from konverge.runtime.diff import Difference, differences
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, HeldReconciler, World


def obj(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "resourceVersion": "1", "managedFields": []}, **fields}


def test_fields_that_come_go_and_change() -> None:
    found = differences(ConfigMap, obj(data={"a": "1", "b": "2"}), obj(data={"a": "1", "b": "3", "c": "4"}))
    assert found == [Difference("data.b", "2", "3"), Difference("data.c", None, "4")]
    assert [str(each) for each in found] == ["data.b: '2' -> '3'", "data.c: nothing -> '4'"]


def test_list_items_are_told_apart_by_name_or_by_place() -> None:
    def pod(image: str, *args: str) -> dict[str, Any]:
        return obj(spec={"containers": [{"name": "side"}, {"name": "main", "image": image, "args": list(args)}]})

    assert differences(Deployment, pod("a", "x"), pod("b", "x", "y")) == [
        Difference("spec.containers[name=main].image", "a", "b"),
        Difference("spec.containers[name=main].args[1]", None, "y"),
    ]


def test_status_and_bookkeeping_are_none() -> None:
    before = obj(status={"phase": "a"})
    after = obj(status={"phase": "b"}) | {
        "metadata": {"name": "x", "resourceVersion": "2", "annotations": {"konverge.dev/desired-hash": "h"}}
    }
    assert differences(ConfigMap, before, after) == []


def test_values_of_secrets_are_never_shown() -> None:
    before, after = obj(data={"tls.key": "AAA", "same": "x"}, type="a"), obj(data={"tls.key": "BBB", "same": "x"})
    found = differences(Secret, before, after)
    assert found == [Difference("data.tls.key", "***", "***"), Difference("type", "a", None)]
    assert differences(Secret, obj(), after) == [Difference("data", None, {"tls.key": "***", "same": "***"})]
    assert "BBB" not in repr(differences(Secret, None, after))


@simulate()
async def test_a_reconciler_sees_what_an_apply_would_do_and_nothing_is_written(sim: Sim) -> None:
    seen: list[list[str]] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        wanted = {"data": {"size": str(gadget.spec.size)}}
        changes = await ctx.diff(ConfigMap, gadget.name, wanted)
        seen.append([each.path for each in changes])
        if gadget.spec.size == 1:
            await ctx.apply(ConfigMap, gadget.name, wanted)
        return Result.done()

    world = World(sim, GadgetReconciler(step)).start()
    await world.create(size=1)
    await sim.until(world.ready)
    await world.edit(size=2)
    await sim.until(world.ready)
    assert seen == [[""], ["data.size"]]
    assert (world.child() or {})["data"] == {"size": "1"}


@simulate()
async def test_the_debug_log_tells_what_an_apply_changed(sim: Sim, caplog: Any) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await ctx.apply(Secret, gadget.name, {"stringData": {"password": f"top-{gadget.spec.size}"}})
        await ctx.apply(ConfigMap, gadget.name, {"data": {"size": str(gadget.spec.size)}})
        return Result.done()

    caplog.set_level("DEBUG", "konverge.runtime.apply")
    world = World(sim, HeldReconciler(step)).start()
    await world.create(size=1)
    await sim.until(world.ready)
    await world.edit(size=2)
    await sim.until(world.ready)
    assert "applied ConfigMap default/one: created" in caplog.messages
    assert "applied ConfigMap default/one: data.size: '1' -> '2'" in caplog.messages
    assert "top-" not in caplog.text
