"""The simulated operator, as a user's tests have it."""

import pytest

from konverge.model.resource import ConfigMap, Secret
from konverge.testing.harness import SimulatedOperator
from konverge.testing.sim import Sim, SimulationError, simulate
from tests.gadgets import Gadget, GadgetReconciler, Lamp, LampReconciler, mirror


@simulate()
async def test_a_person_creates_edits_and_deletes(sim: Sim) -> None:
    operator = SimulatedOperator(sim, GadgetReconciler()).start()
    created = await operator.create(Gadget, "one", {"size": 1}, labels={"team": "shop"})
    assert created["metadata"]["labels"] == {"team": "shop"}
    assert (await operator.until_ready(Gadget, "one"))["status"]["size"] == 1
    await operator.edit(Gadget, "one", {"size": 2})
    assert not operator.ready(Gadget, "one")
    assert (await operator.until_ready(Gadget, "one"))["status"]["size"] == 2
    assert operator.read(ConfigMap, "one")["data"] == {"size": "2"}
    await operator.delete(Gadget, "one")
    await sim.until(lambda: operator.find(ConfigMap, "one") is None)
    assert operator.condition(Gadget, "one") == {}


@simulate()
async def test_namespaces_are_told_apart(sim: Sim) -> None:
    operator = SimulatedOperator(sim, GadgetReconciler()).start()
    await operator.create(Gadget, "one", {"size": 1}, namespace="shop")
    await operator.until_ready(Gadget, "one", namespace="shop")
    assert operator.find(Gadget, "one") is None
    with pytest.raises(AssertionError, match="there is no ConfigMap default/one"):
        operator.read(ConfigMap, "one")


@simulate()
async def test_several_reconcilers_share_one_operator(sim: Sim) -> None:
    async def shine(lamp, ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - as brief as a user's
        ctx.phase.to("On", message="bright")
        return await mirror(lamp, ctx)

    operator = SimulatedOperator(sim, GadgetReconciler(), LampReconciler(shine)).start()
    await operator.create(Gadget, "one", {"size": 1})
    await operator.create(Lamp, "two", {"size": 2})
    await operator.until_ready(Gadget, "one")
    await operator.until_ready(Lamp, "two")
    await sim.until(lambda: operator.events(Lamp, "two"))
    assert operator.events(Lamp, "two") == [("Normal", "On", "bright")]
    assert operator.events(Gadget, "one") == []


@pytest.mark.parametrize("how", ["restart", "crash"])
@simulate()
async def test_it_ends_in_order_or_without_and_begins_anew(sim: Sim, how: str) -> None:
    reconciler = GadgetReconciler()
    operator = SimulatedOperator(sim, reconciler).start()
    await operator.create(Gadget, "one", {"size": 1})
    await operator.until_ready(Gadget, "one")
    if how == "restart":
        await operator.restart()
    else:
        await operator.crash()
        await operator.edit(Gadget, "one", {"size": 2})
        await sim.clock.sleep(600)
        assert not operator.ready(Gadget, "one")
        operator.start()
    await operator.until_ready(Gadget, "one")
    await operator.stop()
    calls = reconciler.calls
    await operator.edit(Gadget, "one", {"size": 3})
    await sim.clock.sleep(600)
    assert reconciler.calls == calls
    await operator.stop()


@simulate()
async def test_what_does_not_become_ready_is_said(sim: Sim) -> None:
    operator = SimulatedOperator(sim, GadgetReconciler())
    await operator.create(Gadget, "one", {"size": 1})
    with pytest.raises(SimulationError, match=r"not within 10 s"):
        await operator.until_ready(Gadget, "one", within=10)
    assert operator.find(Secret, "one") is None
