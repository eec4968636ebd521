"""The tests of secret_copy.py, in simulated time."""

import konverge as kv
from examples.secret_copy import SecretCopy, SecretCopyReconciler
from konverge.testing import SimulatedOperator
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate

SPEC = {"source": {"namespace": "default", "name": "registry"}, "namespaces": ["bank", "shop"]}


async def make_source(operator: SimulatedOperator, token: str) -> None:
    """A Secret has no spec, so that the person's own client makes it."""
    secret = {"metadata": {"name": "registry"}, "type": "Opaque", "data": {"token": token}}
    await operator.person.create(kv.Secret, secret, "default")


async def edit_source(operator: SimulatedOperator, token: str) -> None:
    await operator.person.patch(kv.Secret, "registry", {"data": {"token": token}}, "default")


def copies(api: FakeApi) -> dict[str, str]:
    """The token in each namespace but that of the source."""
    found = {secret["metadata"]["namespace"]: secret["data"]["token"] for secret in api.objects(kv.Secret)}
    found.pop("default", None)
    return found


@simulate()
async def test_it_waits_for_source_and_namespaces_and_follows_both(sim: Sim) -> None:
    operator = SimulatedOperator(sim, SecretCopyReconciler()).start()
    await operator.create(kv.Namespace, "shop", {})
    await operator.create(SecretCopy, "registry", SPEC)
    await sim.until(lambda: operator.condition(SecretCopy, "registry").get("reason") == "NoSource")
    await make_source(operator, "b25l")
    await sim.until(lambda: operator.condition(SecretCopy, "registry").get("reason") == "NoNamespace")
    assert copies(operator.api) == {"shop": "b25l"}

    await operator.create(kv.Namespace, "bank", {})
    await operator.until_ready(SecretCopy, "registry")
    assert copies(operator.api) == {"bank": "b25l", "shop": "b25l"}

    await edit_source(operator, "dHdv")
    await sim.until(lambda: copies(operator.api) == {"bank": "dHdv", "shop": "dHdv"})
    await operator.delete(kv.Secret, "registry", namespace="shop")
    await sim.until(lambda: "shop" in copies(operator.api))
    await operator.edit(SecretCopy, "registry", {"namespaces": ["bank"]})
    await sim.until(lambda: copies(operator.api) == {"bank": "dHdv"})


@simulate()
async def test_a_secret_of_somebody_else_is_left_alone(sim: Sim) -> None:
    operator = SimulatedOperator(sim, SecretCopyReconciler()).start()
    for namespace in SPEC["namespaces"]:
        await operator.create(kv.Namespace, namespace, {})
    theirs = {"metadata": {"name": "registry"}, "type": "Opaque", "data": {"token": "dGhlaXJz"}}
    await operator.person.create(kv.Secret, theirs, "shop")
    await make_source(operator, "b25l")
    await operator.create(SecretCopy, "registry", SPEC)
    await sim.until(lambda: operator.condition(SecretCopy, "registry").get("status") == "False")
    assert "is there already and nobody's child" in operator.condition(SecretCopy, "registry")["message"]
    assert copies(operator.api) == {"bank": "b25l", "shop": "dGhlaXJz"}


@simulate(seeds=range(20))
async def test_it_gets_there_whatever_happens(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random))
    operator = SimulatedOperator(sim, SecretCopyReconciler(), api=api).start()
    for namespace in ("bank", "shop", "till"):
        await operator.create(kv.Namespace, namespace, {})
    await operator.create(SecretCopy, "registry", SPEC)
    await make_source(operator, "b25l")
    for namespaces in (["shop", "till"], ["bank"], ["bank", "till"]):
        await sim.clock.sleep(sim.random.uniform(0, 10))
        await operator.edit(SecretCopy, "registry", {"namespaces": namespaces})
    await edit_source(operator, "dHdv")
    api.faults.stop()
    await sim.until(lambda: copies(api) == {"bank": "dHdv", "till": "dHdv"}, within=600)
    await operator.until_ready(SecretCopy, "registry")
