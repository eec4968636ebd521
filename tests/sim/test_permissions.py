"""One permission is missing: the object's status, its events and the log name the rule to add, and the rest goes on."""

import logging
from typing import Any

import pytest

from konverge.errors import ApiError
from konverge.model.rbac import rule_text
from konverge.model.resource import ConfigMap, Event, ResourceType
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, GadgetReconciler, HeldReconciler, World, mirror

GADGETS = Gadget.resource


async def replace(gadget: Any, ctx: Context) -> Result:
    """Makes its child, and with size 2 takes it away."""
    if gadget.spec.size == 2:
        await ctx.delete(ConfigMap, gadget.name)
        return Result.done()
    return await mirror(gadget, ctx)


def refusal(verb: str, resource: ResourceType, subresource: str = "") -> ApiError:
    """What the API server says where RBAC does not allow the call."""
    target = f"{resource.plural}/{subresource}" if subresource else resource.plural
    who = 'User "system:serviceaccount:default:op"'
    said = f'cannot {verb} resource "{target}" in API group "{resource.group}" in the namespace "{NAMESPACE}"'
    return ApiError.of(403, "Forbidden", f'{resource} "one" is forbidden: {who} {said}')


async def without(sim: Sim, verb: str, resource: ResourceType, error: ApiError, *, held: bool = True) -> World:
    """An operator whose calls of that kind are refused from the start."""
    world = World(sim, HeldReconciler(replace) if held else GadgetReconciler(replace))
    world.api.faults.inject(error, verbs=[verb], resource=resource, times=10_000)
    world.start()
    await world.create()
    return world


def told(world: World) -> str:
    return " ".join(event["note"] for event in world.api.objects(Event) if event["type"] == "Warning")


@pytest.mark.parametrize(("verb", "size"), [("patch", 1), ("delete", 2)])
@simulate()
async def test_on_a_child_status_event_and_log_say_it(
    sim: Sim, caplog: pytest.LogCaptureFixture, verb: str, size: int
) -> None:
    world = await without(sim, "apply" if verb == "patch" else verb, ConfigMap, refusal(verb, ConfigMap))
    if size != 1:
        await sim.until(world.ready)
        await world.edit(size=size)
    await sim.until(lambda: world.condition().get("reason") == "Forbidden")
    rule = rule_text("", "configmaps", [verb])
    assert world.condition()["message"].endswith(rule)
    assert world.condition("Reconciling")["status"] == "True"
    await sim.until(lambda: rule in told(world))
    assert rule in caplog.text
    world.api.faults.stop()
    await sim.until(world.ready, within=2000)


@pytest.mark.parametrize("subresource", ["", "status"], ids=["finalizer", "status"])
@simulate()
async def test_on_the_object_itself_event_and_log_say_it(
    sim: Sim, caplog: pytest.LogCaptureFixture, subresource: str
) -> None:
    world = await without(sim, "patch", GADGETS, refusal("patch", GADGETS, subresource), held=not subresource)
    rule = rule_text(GADGETS.group, f"gadgets/{subresource}".rstrip("/"), ["patch"])
    await sim.until(lambda: rule in told(world))
    assert rule in caplog.text
    world.api.faults.stop()
    await sim.until(world.ready, within=2000)


@simulate()
async def test_on_events_the_log_says_it_once(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = await without(sim, "create", Event, refusal("create", Event))
    await sim.until(world.ready)
    for number in range(5):
        world.recorder.event(world.get() or {}, "Normal", "Counted", f"number {number}")
    await world.recorder.flush()
    assert caplog.text.count(rule_text(Event.group, "events", ["create"])) == 1
