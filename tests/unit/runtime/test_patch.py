"""Changing what is no child: declared patches only, seen by the next read; and deleting a child but not what it owns."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from konverge.errors import Conflict
from konverge.model import meta
from konverge.model.rbac import Access
from konverge.model.resource import ConfigMap, PersistentVolumeClaim, Pod, Secret
from konverge.runtime.context import Context
from konverge.runtime.declare import read
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, GadgetReconciler, World

CLAIM = {
    "metadata": {"name": "data", "labels": {"app": "x"}},
    "spec": {"resources": {"requests": {"storage": "1Gi"}}},
}


def growth(size: str) -> dict[str, Any]:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


def size_of(claim: Any) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


class Growing(
    GadgetReconciler,
    reads=[read(PersistentVolumeClaim, selector="app=x"), Secret],
    access=[Access(PersistentVolumeClaim, ("patch",)), Access(Pod, ("patch",)), Access(Secret, ("patch",), "status")],
):
    """Reads some claims, and may change them."""


async def run(sim: Sim, step: Callable[[Any, Context], Awaitable[Result]]) -> World:
    """A world with the claim `data`, and one gadget reconciled by `step`."""
    world = World(sim, Growing(step))
    await world.api.client("person").create(PersistentVolumeClaim, CLAIM, NAMESPACE)
    world.start()
    await world.create()
    return world


@simulate()
async def test_a_patch_is_seen_by_the_next_read(sim: Sim) -> None:
    seen: list[str] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        if size_of(ctx.get(PersistentVolumeClaim, "data")) == "1Gi":
            seen.append(size_of(await ctx.patch(PersistentVolumeClaim, "data", growth("2Gi"))))
            seen.append(size_of(ctx.get(PersistentVolumeClaim, "data")))
        return Result.done()

    world = await run(sim, step)
    await sim.until(world.ready)

    assert seen == ["2Gi", "2Gi"]
    assert [size_of(claim) for claim in world.api.objects(PersistentVolumeClaim)] == ["2Gi"]
    assert "ownerReferences" not in world.api.objects(PersistentVolumeClaim)[0]["metadata"]


@simulate()
async def test_a_guarded_patch_does_not_overwrite_what_others_did(sim: Sim) -> None:
    refused: list[Conflict] = []

    async def step(gadget: Any, ctx: Context) -> Result:
        guard = {"metadata": {"resourceVersion": "1"}}
        try:
            await ctx.patch(PersistentVolumeClaim, "data", {**growth("2Gi"), **guard})
        except Conflict as error:
            refused.append(error)
        return Result.done()

    world = await run(sim, step)
    await sim.until(world.ready)

    assert len(refused) == 1
    assert size_of(world.api.objects(PersistentVolumeClaim)[0]) == "1Gi"


@pytest.mark.parametrize(
    ("kind", "what_to_do"),
    [
        (ConfigMap, 'add Access(ConfigMap, ("patch",)) to `access` of the class'),
        (Secret, 'add Access(Secret, ("patch",)) to `access` of the class'),
        (Pod, "add Pod to `reads` of the class"),
    ],
)
@simulate()
async def test_what_was_not_declared_is_not_patched(sim: Sim, kind: Any, what_to_do: str) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        await ctx.patch(kind, "data", {"metadata": {"labels": {"a": "b"}}})
        return Result.done()

    world = await run(sim, step)
    await sim.until(world.condition)

    assert what_to_do in world.condition()["message"]


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("Orphan", 1)])
@simulate()
async def test_what_a_deleted_child_owns_may_be_left_alone(sim: Sim, propagation: Any, left: int) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.spec.size == 1:
            await ctx.apply(ConfigMap, "child", {"data": {}})
        else:
            await ctx.delete(ConfigMap, "child", propagation=propagation)
        return Result.done()

    world = await run(sim, step)
    await sim.until(lambda: world.api.objects(ConfigMap))
    owner = meta.owner_reference(world.api.objects(ConfigMap)[0])
    grandchild = {"metadata": {"name": "grandchild", "ownerReferences": [owner]}}
    await world.api.client("person").create(Pod, grandchild, NAMESPACE)

    await world.edit(size=5)
    await sim.until(lambda: not world.api.objects(ConfigMap))
    await sim.clock.sleep(600)

    assert len(world.api.objects(Pod)) == left
