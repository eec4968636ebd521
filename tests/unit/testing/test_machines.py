"""Every edge gets a path, every path is allowed, and the runtime follows each: Lamp's and Database's own machines."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.controllers.database import Database
from konverge.errors import ModelError
from konverge.model.conditions import State
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.states import Machine, Phase
from konverge.runtime.context import Context
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.testing.harness import SimulatedOperator
from konverge.testing.machines import Path, walk
from konverge.testing.sim import Sim, simulate
from tests.gadgets import Gadget, Lamp

SPECS: Mapping[type[CustomResource[Any, Any]], Mapping[str, Any]] = {
    Lamp: {"size": 1},
    Database: {"version": "17.2", "storage": {"size": "1Gi"}},
}
READY = {State.DONE: "True", State.WORKING: "Unknown", State.FAILING: "False", State.FAILED: "False"}
WALKS = [(kind, path) for kind in SPECS for path in walk(kind)]
WHERE = "test.konverge.dev/where"


class Obedient:
    """Goes to the phase that an annotation of its object names."""

    async def reconcile(self, obj: Any, ctx: Context, /) -> Result:
        ctx.phase.to(obj.annotations[WHERE])
        return Result.done()


class ObedientLamps(Obedient, Reconciler[Lamp]):
    """Lamps without light."""


class ObedientDatabases(Obedient, Reconciler[Database]):
    """Databases without data."""


RECONCILERS: Mapping[type[CustomResource[Any, Any]], type[Reconciler[Any]]] = {
    Lamp: ObedientLamps,
    Database: ObedientDatabases,
}


@pytest.mark.parametrize(("kind", "path"), WALKS, ids=[f"{kind.__name__}-{'-'.join(path)}" for kind, path in WALKS])
@simulate()
async def test_every_edge_is_walked_and_told(sim: Sim, kind: type[CustomResource[Any, Any]], path: Path) -> None:
    """Each step is one status write, an event and a count."""
    machine = kind.phases
    assert machine is not None
    operator = SimulatedOperator(sim, RECONCILERS[kind]()).start()
    await operator.create(kind, "one", SPECS[kind], annotations={WHERE: path[0]})
    for phase in path:
        annotations = {"metadata": {"annotations": {WHERE: phase}}}
        await operator.person.patch(kind.resource, "one", annotations, "default")
        await sim.until(partial(in_phase, operator, kind, phase))
        assert operator.condition(kind, "one")["status"] == READY[machine.phases[phase].state]
    wrong = {State.FAILING, State.FAILED}
    told = [
        ("Warning" if machine.phases[phase].state in wrong else "Normal", phase, f"was {before}")
        for before, phase in pairwise(("in no phase", *path))
    ]
    await sim.until(lambda: len(operator.events(kind, "one")) == len(path))
    assert operator.events(kind, "one") == told
    for before, after in pairwise(path):
        labels = {"kind": kind.resource.kind, "from": before, "to": after}
        assert operator.metrics.registry.get_sample_value("konverge_phase_transitions_total", labels)


def in_phase(operator: SimulatedOperator, kind: type[CustomResource[Any, Any]], phase: str) -> bool:
    obj = operator.read(kind, "one")
    return bool((obj.get("status") or {}).get("phase") == phase)


@st.composite
def phases(draw: st.DrawFn) -> list[Phase]:
    """Phases in a line, so that all are reached, with any further edges."""
    names = [f"P{number}" for number in range(draw(st.integers(1, 8)))]
    return [
        Phase(name, to=tuple(dict.fromkeys([*names[at + 1 : at + 2], *draw(st.lists(st.sampled_from(names)))])))
        for at, name in enumerate(names)
    ]


@given(phases())
def test_each_path_begins_at_the_start_takes_declared_edges_and_ends_with_its_own(declared: list[Phase]) -> None:
    class Walker(CustomResource[Spec, Status], group="test.konverge.dev", version="v1", phases=declared):
        """With whatever machine."""

    machine = Machine(declared)
    paths = walk(Walker)
    assert [path[-2:] for path in paths] == list(machine.edges())
    for path in paths:
        assert path[0] == machine.initial
        assert set(pairwise(path)) <= set(machine.edges())


def test_a_resource_without_phases_has_nothing_to_walk() -> None:
    with pytest.raises(ModelError, match="Gadget declares no phases: there is nothing to walk"):
        walk(Gadget)
