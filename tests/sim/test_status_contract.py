"""The status contract row by row: what the runtime writes, and what kstatus makes of it, at each write and in between."""

from collections.abc import Iterable
from itertools import pairwise, product
from typing import Any, Literal, NamedTuple

import pytest
from pydantic import Field

from konverge.errors import RetryAfter, Terminal
from konverge.model.conditions import MANAGED, State
from konverge.model.crd import crd_of
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.resource import Object
from konverge.model.states import Phase
from konverge.runtime.context import Context
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.testing.fake import FakeApi, Faults, Request
from konverge.testing.harness import SimulatedOperator
from konverge.testing.sim import Sim, simulate
from tests.oracles.kstatus import Health, compute

Mode = Literal["working", "failing", "failed", "done", "suspended"]


class Row(NamedTuple):
    """One row of the contract: the conditions that the framework keeps, and kstatus's word for it."""

    conditions: dict[str, str]
    health: Health


ROWS: dict[Mode, Row] = {
    "working": Row({"Ready": "Unknown", "Reconciling": "True"}, Health.IN_PROGRESS),
    "failing": Row({"Ready": "False", "Reconciling": "True"}, Health.IN_PROGRESS),
    "failed": Row({"Ready": "False", "Stalled": "True"}, Health.FAILED),
    "done": Row({"Ready": "True"}, Health.CURRENT),
    "suspended": Row({"Ready": "True"}, Health.CURRENT),
}
MODES = tuple(ROWS)


class PumpSpec(Spec):
    mode: Mode = Field(default="done", description="How it is with the pump.")


class PumpStatus(Status):
    mode: str | None = Field(default=None, description="How it was when it was looked at.")


class Pump(CustomResource[PumpSpec, PumpStatus], group="test.konverge.dev", version="v1"):
    """Is as it is told; says so by what its reconcile returns or raises."""


class PhasedPump(
    CustomResource[PumpSpec, PumpStatus],
    group="test.konverge.dev",
    version="v1",
    phases=[
        Phase(mode.capitalize(), to=tuple(other.capitalize() for other in MODES if other != mode), state=state)
        for mode, state in zip(MODES, (State.WORKING, State.FAILING, State.FAILED, State.DONE, State.DONE), strict=True)
    ],
):
    """The same; says so by its phase."""


class PumpReconciler(Reconciler[Pump]):
    async def reconcile(self, obj: Pump, ctx: Context, /) -> Result:
        obj.status.mode = obj.spec.mode
        match obj.spec.mode:
            case "working":
                return Result.waiting("Filling", "not full yet", after=60)
            case "failing":
                raise RetryAfter(60, "Leaking", "will be looked at again")
            case "failed":
                raise Terminal("Broken", "beyond repair")
        return Result.done()


class PhasedPumpReconciler(Reconciler[PhasedPump]):
    async def reconcile(self, obj: PhasedPump, ctx: Context, /) -> Result:
        obj.status.mode = obj.spec.mode
        ctx.phase.to(obj.spec.mode.capitalize())
        return Result.done()


PUMPS: list[tuple[type[CustomResource[Any, Any]], type[Reconciler[Any]]]] = [
    (Pump, PumpReconciler),
    (PhasedPump, PhasedPumpReconciler),
]
both = pytest.mark.parametrize(("kind", "reconciler"), PUMPS, ids=["by result", "by phase"])
DEFAULT = crd_of(Pump)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]


def operator_of(sim: Sim, reconciler: Reconciler[Any], faults: Faults | None = None) -> SimulatedOperator:
    """An operator on a server that gives a new object the CRD's default status, as the real one does."""
    api = FakeApi(clock=sim.clock, random=sim.random, faults=faults)

    def default(verb: str, resource: Any, new: dict[str, Any], old: Any) -> None:
        if resource.group == Pump.resource.group:
            new.setdefault("status", dict(DEFAULT))

    api.admission.append(default)
    return SimulatedOperator(sim, reconciler, api=api).start()


def managed(obj: Object) -> dict[str, str]:
    listed = (obj.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition["status"] for condition in listed if condition["type"] in MANAGED}


def settled(obj: Object | None) -> bool:
    return obj is not None and obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


def ours(operator: SimulatedOperator) -> list[Request]:
    """What the operator wrote to pumps, in order."""
    return [
        write
        for write in operator.api.writes
        if write.resource.group == Pump.resource.group and write.user != operator.person.user
    ]


def course(requests: Iterable[Request]) -> list[Object]:
    """Every state that the object was in, in order."""
    return [request.object for request in requests if request.executed and request.changed and request.object]


@both
@simulate()
async def test_every_row_follows_from_every_other_in_one_write_each(
    sim: Sim, kind: type[CustomResource[Any, Any]], reconciler: type[Reconciler[Any]]
) -> None:
    operator = operator_of(sim, reconciler())
    await operator.create(kind, "one", {"mode": "done"})
    await operator.until_ready(kind, "one")
    for mode in [mode for pair in product(MODES, MODES) for mode in pair]:
        before = len(ours(operator))
        edited = await operator.edit(kind, "one", {"mode": mode})
        if settled(edited):
            continue  # the same mode again: no edit
        assert compute(edited) is Health.IN_PROGRESS
        await sim.until(lambda: settled(operator.find(kind, "one")))
        obj = operator.read(kind, "one")
        assert managed(obj) == ROWS[mode].conditions
        assert compute(obj) is ROWS[mode].health
        [write] = ours(operator)[before:]
        assert write.subresource == "status"
        assert {"observedGeneration", "conditions", "mode"} <= set(write.body["status"])
        assert all(each["observedGeneration"] == obj["metadata"]["generation"] for each in obj["status"]["conditions"])


@both
@simulate()
async def test_a_created_object_is_in_progress_until_it_was_looked_at(
    sim: Sim, kind: type[CustomResource[Any, Any]], reconciler: type[Reconciler[Any]]
) -> None:
    """Replay 21: without the default, nothing would tell it from one that is done."""
    operator = operator_of(sim, reconciler())
    created = await operator.create(kind, "one", {"mode": "done"})
    assert created["status"] == {"observedGeneration": -1}
    assert compute(created) is Health.IN_PROGRESS
    assert compute({**created, "status": {}}) is Health.CURRENT
    assert compute(await operator.until_ready(kind, "one")) is Health.CURRENT


@simulate()
async def test_what_starts_is_never_failed(sim: Sim) -> None:
    """Replay 23: neither when it still works at it, nor when a first try goes wrong."""
    operator = operator_of(sim, PumpReconciler())
    for name, mode in (("one", "working"), ("two", "failing")):
        await operator.create(Pump, name, {"mode": mode})
        await sim.clock.sleep(5)
        await operator.edit(Pump, name, {"mode": "done"})
        await operator.until_ready(Pump, name)
    states = course(request for request in operator.api.requests if request.resource == Pump.resource)
    assert {compute(state) for state in states} == {Health.IN_PROGRESS, Health.CURRENT}
    assert not any("Stalled" in managed(state) for state in states)


@simulate()
async def test_a_spec_is_never_written(sim: Sim) -> None:
    """Replay 18: a default is read from the model, not written into the object."""
    operator = operator_of(sim, PumpReconciler())
    await operator.create(Pump, "one", {})
    made = await operator.until_ready(Pump, "one")
    assert made["spec"] == {}
    assert made["status"]["mode"] == "done"
    await operator.restart()
    await sim.clock.sleep(3600)
    assert all(write.subresource == "status" and "spec" not in write.body for write in ours(operator))
    assert operator.read(Pump, "one")["metadata"]["generation"] == 1


@simulate()
async def test_a_ready_object_that_is_edited_is_not_ready_before_the_edit_was_observed(sim: Sim) -> None:
    """Replay 25."""
    operator = operator_of(sim, PumpReconciler())
    await operator.create(Pump, "one", {"mode": "done"})
    await operator.until_ready(Pump, "one")
    await operator.stop()
    await operator.edit(Pump, "one", {"mode": "suspended"})
    await sim.clock.sleep(600)
    assert managed(operator.read(Pump, "one")) == {"Ready": "True"}
    assert compute(operator.read(Pump, "one")) is Health.IN_PROGRESS
    operator.start()
    await sim.until(lambda: compute(operator.read(Pump, "one")) is Health.CURRENT)


@both
@simulate(seeds=range(4))
async def test_nothing_is_current_or_failed_before_it_is_so(
    sim: Sim, kind: type[CustomResource[Any, Any]], reconciler: type[Reconciler[Any]]
) -> None:
    """Random edits on a rough network: each state that the object was ever in tells the truth."""
    operator = operator_of(sim, reconciler(), Faults.rough(sim.random))
    await operator.create(kind, "one", {"mode": "done"})
    for _ in range(40):
        await operator.edit(kind, "one", {"mode": sim.random.choice(MODES)})
        await sim.clock.sleep(sim.random.choice([0.01, 0.5, 10]))
    operator.api.faults.stop()
    operator.api.end_watches()
    await operator.edit(kind, "one", {"mode": "done"})
    await operator.until_ready(kind, "one")
    states = course(request for request in operator.api.requests if request.resource == kind.resource)
    assert len(states) > 40
    for state in states:
        health, mode = compute(state), state["spec"]["mode"]
        if settled(state):
            assert (health, state["status"]["mode"]) == (ROWS[mode].health, mode)
        else:
            assert health is Health.IN_PROGRESS
    for before, after in pairwise(states):
        times = [{c["type"]: (c["status"], c["lastTransitionTime"]) for c in _listed(obj)} for obj in (before, after)]
        for name, (status, moved) in times[1].items():
            if name in times[0] and times[0][name][0] == status:
                assert times[0][name][1] == moved


def _listed(obj: Object) -> list[dict[str, Any]]:
    return list((obj.get("status") or {}).get("conditions") or [])
