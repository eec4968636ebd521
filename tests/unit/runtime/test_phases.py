"""State machines in a running controller: edges are checked, phases shown with their verdicts, timeouts stall."""

from typing import Any

import pytest

from konverge.errors import ModelError, UndeclaredTransition
from konverge.model.resource import Event
from konverge.model.states import Machine, Phase
from konverge.runtime.context import Context
from konverge.runtime.draft import ConditionsDraft, PhaseDraft
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, Lamp, LampReconciler, World


def follow(*phases: str) -> Any:
    """A reconcile that asks for the phase that the size names."""

    async def step(lamp: Any, ctx: Context) -> Result:
        ctx.phase.to(phases[lamp.spec.size], message=f"size {lamp.spec.size}")
        return Result.done()

    return step


@simulate()
async def test_phase_conditions_and_generation_are_one_write(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("Off", "Warming", "On"))).start()
    await world.create(size=1)
    await sim.until(lambda: world.condition().get("reason") == "Warming")
    status = (world.get() or {})["status"]
    assert status["phase"] == "Warming"
    assert status["phaseSince"] == "2026-01-01T00:00:00Z"
    assert world.condition()["status"] == "Unknown"
    await world.edit(size=2)
    await sim.until(world.ready)
    assert [(write.verb, write.subresource) for write in world.writes_of("one")] == [("patch", "status")] * 2


@simulate()
async def test_an_undeclared_edge_is_refused_and_said(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("Off", "Warming", "On"))).start()
    await world.create(size=1)
    await sim.until(lambda: world.condition().get("reason") == "Warming")
    await world.edit(size=0)
    await sim.until(lambda: world.condition().get("status") == "False")
    assert world.condition()["message"] == "Lamp: no edge from phase Warming to Off; declared from there: On"
    assert (world.get() or {})["status"]["phase"] == "Warming"


@simulate()
async def test_a_failing_phase_is_not_ready_and_not_stalled(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("On", "Broken"))).start()
    await world.create(size=0)
    await sim.until(world.ready)
    await world.edit(size=1)
    await sim.until(lambda: world.condition().get("reason") == "Broken")
    assert world.condition()["status"] == "False"
    assert world.condition("Reconciling")["status"] == "True"
    assert not world.condition("Stalled")


@simulate()
async def test_a_phase_that_outlives_its_timeout_is_stalled_until_it_moves(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("Warming", "On"))).start()
    await world.create(size=0)
    await sim.until(lambda: world.condition("Stalled").get("status") == "True")
    assert 60 <= sim.time < 62
    assert world.condition()["reason"] == "WarmingTimedOut"
    assert world.condition()["message"] == "in phase Warming for over 60 s; last: size 0"
    await world.edit(size=1)
    await sim.until(world.ready)
    assert not world.condition("Stalled")


@simulate()
async def test_a_wiped_status_starts_from_the_observed_world(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("On"))).start()
    await world.create(size=0)
    await sim.until(world.ready)
    await world.api.client("person").patch(world.resource, "one", {"status": None}, NAMESPACE, subresource="status")
    await sim.until(lambda: world.ready() and (world.get() or {})["status"]["phase"] == "On")


@simulate()
async def test_the_readers_own_verdict_goes_before_the_phases(sim: Sim) -> None:
    async def step(lamp: Any, ctx: Context) -> Result:
        ctx.phase.to("On")
        ctx.conditions.set("Bright", "True", "Measured")
        ctx.conditions.remove("Dim")
        return Result.waiting("Checking", "one more look")

    world = World(sim, LampReconciler(step)).start()
    await world.create()
    await sim.until(world.condition)
    assert (world.condition()["status"], world.condition()["reason"]) == ("Unknown", "Checking")
    assert world.condition("Bright")["reason"] == "Measured"


def test_a_resource_without_phases_says_so() -> None:
    gadget = Gadget.parse({"metadata": {"name": "x"}, "spec": {}})
    with pytest.raises(ModelError, match="declares no phases"):
        PhaseDraft(gadget).to("On")


def test_the_managed_conditions_are_not_set_by_hand() -> None:
    draft = ConditionsDraft(1)
    for managed in ("Ready", "Reconciling", "Stalled"):
        with pytest.raises(ModelError, match="follows from what the reconcile returns"):
            draft.set(managed, "True", "X")


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        ([], "at least one"),
        ([Phase("A"), Phase("A")], "twice"),
        ([Phase("lower")], "CamelCase"),
        ([Phase("A", to=("B",))], "not declared"),
        ([Phase("A"), Phase("B")], "no edge leads from A to B"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(phases: list[Phase], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        Machine(phases)


def test_every_declared_edge_can_be_walked_and_no_other() -> None:
    machine = Lamp.phases
    assert machine is not None
    edges = set(machine.edges())
    for source in machine.names:
        for target in machine.names:
            if source == target or (source, target) in edges:
                assert machine.check("Lamp", source, target).name == target
            else:
                with pytest.raises(UndeclaredTransition):
                    machine.check("Lamp", source, target)


def test_a_phase_that_is_no_longer_declared_may_go_anywhere_but_only_to_declared_ones() -> None:
    machine = Lamp.phases
    assert machine is not None
    assert machine.check("Lamp", "Gone", "On").name == "On"
    with pytest.raises(UndeclaredTransition):
        machine.check("Lamp", "On", "Gone")


def test_the_diagram_has_every_edge() -> None:
    assert Lamp.phases is not None
    assert Lamp.phases.mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Off",
        "    Off --> Warming",
        "    Warming --> On",
        "    On --> Off",
        "    On --> Broken",
        "    Broken --> Off",
    ]


def observed(world: World) -> bool:
    obj = world.get() or {}
    return bool(obj["status"]["observedGeneration"] == obj["metadata"]["generation"])


@simulate()
async def test_a_change_of_phase_is_an_event_with_the_reconcilers_words_and_staying_is_none(sim: Sim) -> None:
    world = World(sim, LampReconciler(follow("Off", "Warming", "On", "Broken"))).start()
    await world.create(size=1)
    await sim.until(lambda: world.condition().get("reason") == "Warming")
    for size in (2, 2, 3):
        await world.edit(size=size)
        await sim.until(lambda: observed(world))
    await world.restart()
    await sim.clock.sleep(60)
    told = {event["reason"]: (event["type"], event["note"], event.get("series")) for event in world.api.objects(Event)}
    assert told == {
        "Warming": ("Normal", "size 1", None),
        "On": ("Normal", "size 2", None),
        "Broken": ("Warning", "size 3", None),
    }
