"""A Database from apply to deletion, on the fake API server in simulated time."""

from base64 import b64decode
from typing import Any

import pytest

from konverge.controllers.database import Database
from konverge.controllers.database.names import Names
from konverge.errors import ApiError
from konverge.model.resource import ConfigMap, PodDisruptionBudget, Secret, Service, StatefulSet
from konverge.testing.sim import Sim, simulate
from tests.unit.controllers.databases import manifest
from tests.unit.controllers.world import World

CHILDREN = [
    (Secret, "orders-credentials"),
    (ConfigMap, "orders-config"),
    (Service, "orders-pods"),
    (Service, "orders"),
    (PodDisruptionBudget, "orders"),
    (StatefulSet, "orders"),
]


class Shop(World):
    """A cluster with the Database `shop/orders`."""

    async def open(self, name: str = "orders", **spec: Any) -> None:
        await self.run()
        body = manifest(name, **spec)
        body["metadata"] = {"name": name, "namespace": "shop", "labels": {"argocd.argoproj.io/instance": "shop"}}
        await self.user.create(Database.resource, body, "shop")

    def database(self, name: str = "orders") -> Any:
        return self.get(Database.resource, name, "shop")

    def phase(self) -> str | None:
        return str((self.database().get("status") or {}).get("phase"))

    def ready(self) -> tuple[str, str] | None:
        return self.condition(self.database(), "Ready")

    def has(self, *children: tuple[Any, str]) -> bool:
        return all(self.get(kind, name, "shop") is not None for kind, name in children)

    async def until_phase(self, phase: str) -> None:
        await self.sim.until(lambda: self.phase() == phase)

    async def report(self, *, exist: int, ready: int, rolled: bool = True) -> None:
        await self.pods("orders", "shop", exist=exist, ready=ready, rolled=rolled)

    async def until_running(self, replicas: int) -> None:
        await self.sim.until(lambda: self.has((StatefulSet, "orders")))
        await self.report(exist=replicas, ready=replicas)
        await self.until_phase("Running")

    def sets(self) -> Any:
        return self.get(StatefulSet, "orders", "shop")


@simulate()
async def test_comes_up_through_its_phases(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)

    await shop.until_phase("Pending")
    assert shop.ready() == ("Unknown", "WaitingForController")
    assert shop.condition(shop.database(), "Reconciling") is not None
    await shop.report(exist=1, ready=0)
    await shop.until_phase("Provisioning")
    await shop.report(exist=3, ready=3)
    await shop.until_phase("Running")

    assert shop.ready() == ("True", "AllReplicasReady")
    assert shop.condition(shop.database(), "Reconciling") is None
    status = shop.database()["status"]
    assert (status["replicas"], status["readyReplicas"], status["version"]) == (3, 3, "17.2")
    assert status["endpoint"] == "orders.shop.svc:5432"
    assert status["secretName"] == "orders-credentials"
    assert shop.events.reasons == ["Pending", "Provisioning", "Running"]


@simulate()
async def test_makes_its_children_and_owns_them(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_phase("Pending")

    for kind, name in CHILDREN:
        child = shop.get(kind, name, "shop")
        (owner,) = child["metadata"]["ownerReferences"]
        assert owner["uid"] == shop.database()["metadata"]["uid"]
        assert "argocd.argoproj.io/instance" not in child["metadata"]["labels"]


@simulate()
async def test_writes_nothing_when_nothing_changes(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)
    await sim.clock.sleep(1)
    writes = len(shop.api.writes)

    await shop.report(exist=3, ready=3)
    await sim.clock.sleep(3600)

    assert len(shop.api.writes) == writes + 1, "only the report itself"


@simulate()
async def test_never_writes_the_spec(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=2)
    before = shop.database()["spec"]
    await shop.until_running(2)

    assert shop.database()["spec"] == before
    assert shop.database()["metadata"]["generation"] == 1


@simulate()
async def test_repairs_children_that_were_edited_or_deleted(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.edit(StatefulSet, "orders", "shop", replicas=1)
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 3)
    for kind, name in CHILDREN:
        await shop.user.delete(kind, name, "shop")
        await sim.until(lambda kind=kind, name=name: shop.has((kind, name)))  # type: ignore[misc]


@simulate()
async def test_the_password_is_never_replaced(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)
    password = shop.get(Secret, "orders-credentials", "shop")["data"]["password"]
    assert len(b64decode(password)) >= 24

    await shop.edit(Database.resource, "orders", "shop", replicas=2)
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 2)

    assert shop.get(Secret, "orders-credentials", "shop")["data"]["password"] == password


@simulate()
async def test_no_secret_in_status_or_events(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)
    password = b64decode(shop.get(Secret, "orders-credentials", "shop")["data"]["password"]).decode()

    for kind in (Database.resource, ConfigMap, Service, StatefulSet):
        assert password not in str(shop.api.objects(kind))


@simulate()
async def test_an_edit_is_an_update_and_not_a_failure(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.edit(Database.resource, "orders", "shop", version="17.4")
    await shop.until_phase("Updating")
    await shop.report(exist=3, ready=2, rolled=False)
    await sim.until(lambda: shop.ready() == ("Unknown", "RollingOut"))
    assert shop.database()["status"]["version"] == "17.2"
    await shop.report(exist=3, ready=3)
    await shop.until_phase("Running")

    assert shop.database()["status"]["version"] == "17.4"


@simulate()
async def test_a_lost_pod_degrades_until_it_is_back(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.report(exist=3, ready=2)
    await shop.until_phase("Degraded")
    assert shop.ready() == ("False", "ReplicasNotReady")
    assert shop.condition(shop.database(), "Stalled") is None
    await shop.report(exist=3, ready=3)
    await shop.until_phase("Running")


@simulate()
async def test_suspends_and_resumes(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.edit(Database.resource, "orders", "shop", suspend=True)
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 0)
    await shop.report(exist=1, ready=1)
    await sim.until(lambda: shop.ready() == ("Unknown", "Suspending"))
    await shop.report(exist=0, ready=0)
    await shop.until_phase("Suspended")
    assert shop.ready() == ("True", "Suspended")
    assert not shop.has((PodDisruptionBudget, "orders"))

    await shop.edit(Database.resource, "orders", "shop", suspend=False)
    await shop.until_phase("Provisioning")
    await shop.until_running(3)


@simulate()
async def test_a_disruption_budget_only_where_pods_can_be_spared(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=1)
    await shop.until_running(1)
    assert not shop.has((PodDisruptionBudget, "orders"))

    await shop.edit(Database.resource, "orders", "shop", replicas=2)
    await sim.until(lambda: shop.has((PodDisruptionBudget, "orders")))
    await shop.edit(Database.resource, "orders", "shop", replicas=1)
    await sim.until(lambda: not shop.has((PodDisruptionBudget, "orders")))


@simulate()
async def test_a_name_that_cannot_be_a_services_is_refused_for_good(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open("1st.db")
    await sim.until(lambda: shop.condition(shop.database("1st.db"), "Stalled") is not None)

    assert shop.condition(shop.database("1st.db"), "Ready") == ("False", "InvalidName")
    assert shop.api.objects(StatefulSet) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("orders", None), ("a" * 52, None), ("a" * 53, "use at most 52"), ("1st", "with a letter"), ("a.b", "only a-z")],
)
def test_names_that_children_can_carry(name: str, words: str | None) -> None:
    problem = Names(name).problem()

    assert (problem is None) if words is None else (problem is not None and words in problem)


@simulate()
async def test_deletion_waits_until_the_pods_have_stopped(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.user.delete(Database.resource, "orders", "shop")
    await shop.until_phase("Deleting")
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 0)
    await shop.report(exist=1, ready=1)
    await sim.clock.sleep(60)
    assert shop.database() is not None
    await shop.report(exist=0, ready=0)
    await sim.until(lambda: shop.database() is None)


@simulate()
async def test_deletion_finishes_when_the_stateful_set_is_gone_already(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    await shop.user.delete(Database.resource, "orders", "shop")
    await shop.until_phase("Deleting")
    await shop.user.delete(StatefulSet, "orders", "shop")
    await sim.until(lambda: shop.database() is None)


@simulate()
async def test_deletion_finishes_when_the_server_does_not_take_the_spec(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open(replicas=3)
    await shop.until_running(3)

    refusal = ApiError.of(422, "Invalid", "spec.template is invalid")
    shop.konverge.faults.inject(refusal, verbs=["apply"], resource=StatefulSet, times=10)
    await shop.user.delete(Database.resource, "orders", "shop")
    await sim.until(lambda: shop.database() is None)

    assert shop.sets() is None


@simulate()
async def test_deletion_right_after_creation_finishes(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open("1st.db")
    await sim.until(lambda: shop.condition(shop.database("1st.db"), "Stalled") is not None)

    await shop.user.delete(Database.resource, "1st.db", "shop")
    await sim.until(lambda: shop.database("1st.db") is None)
