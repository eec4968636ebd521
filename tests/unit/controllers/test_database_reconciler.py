"""A Database from apply to deletion, on the fake API server in simulated time."""

from base64 import b64decode
from typing import Any

import pytest

from konverge.controllers.database import Database
from konverge.controllers.database.names import Names
from konverge.errors import ApiError
from konverge.model.resource import (
    ConfigMap,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    Secret,
    Service,
    StatefulSet,
    StorageClass,
)
from konverge.testing.sim import Sim, simulate
from tests.unit.controllers.databases import manifest
from tests.unit.controllers.world import World

CHILDREN = [
    (Secret, "orders-credentials"),
    (Secret, "orders-binding"),
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

    async def claims(self, *ordinals: int, size: str = "10Gi") -> None:
        """Make the claims of pods as the StatefulSet controller does, and give them volumes."""
        labels = self.sets()["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]
        for ordinal in ordinals:
            claim = {
                "metadata": {"name": f"data-orders-{ordinal}", "labels": labels},
                "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": size}}},
            }
            await self.user.create(PersistentVolumeClaim, claim, "shop")
            await self.provide(ordinal, size)

    async def provide(self, ordinal: int, size: str) -> None:
        """Report a volume of that size."""
        status = {"status": {"capacity": {"storage": size}}}
        await self.user.patch(PersistentVolumeClaim, f"data-orders-{ordinal}", status, "shop", subresource="status")

    def claim(self, ordinal: int) -> Any:
        return self.get(PersistentVolumeClaim, f"data-orders-{ordinal}", "shop")

    def asked(self, ordinal: int) -> str:
        return str(self.claim(ordinal)["spec"]["resources"]["requests"]["storage"])

    async def storage_class(self, *, grows: bool) -> None:
        body = {"metadata": {"name": "fast"}, "provisioner": "x", "allowVolumeExpansion": grows}
        await self.user.create(StorageClass, body)

    async def annotate(self, value: str) -> None:
        patch = {"metadata": {"annotations": {"data.konverge.dev/rotate-password": value}}}
        await self.user.patch(Database.resource, "orders", patch, "shop")

    def password(self, secret: str = "orders-credentials") -> str:
        return b64decode(self.get(Secret, secret, "shop")["data"]["password"]).decode()

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
    assert status["binding"] == {"name": "orders-binding"}
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
async def test_the_password_stays_until_a_new_one_is_asked_for(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)
    password = shop.password()
    assert len(password) >= 32

    await shop.edit(Database.resource, "orders", "shop", replicas=2)
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 2)

    assert shop.password() == password
    assert "passwordRotation" not in shop.database()["status"]


@simulate()
async def test_one_request_makes_one_new_password(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)
    seen = [shop.password()]

    for value in ("1", "2"):
        await shop.annotate(value)
        await sim.until(lambda value=value: shop.database()["status"].get("passwordRotation") == value)  # type: ignore[misc]
        await sim.clock.sleep(600)
        seen.append(shop.password())
        assert shop.password("orders-binding") == seen[-1]
    await shop.annotate("2")
    await sim.clock.sleep(600)

    assert shop.password() == seen[-1]
    assert len(set(seen)) == 3
    assert shop.events.reasons.count("PasswordRotated") == 2
    assert shop.sets()["metadata"]["generation"] == 1, "no pod restarts for it"


@simulate()
async def test_a_rotation_that_was_cut_off_is_not_done_twice(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)

    lost = ApiError.of(500, "InternalError", "cut off")
    shop.konverge.faults.inject(lost, verbs=["patch"], resource=Database.resource, times=3)
    await shop.annotate("now")
    await sim.until(lambda: "PasswordRotated" in shop.events.reasons)
    password = shop.password()
    await sim.until(lambda: shop.database()["status"].get("passwordRotation") == "now")

    assert shop.password() == password
    assert shop.events.reasons.count("PasswordRotated") == 1


@simulate()
async def test_a_password_of_a_persons_own_is_passed_on(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)

    await shop.user.patch(Secret, "orders-credentials", {"data": {"password": "bWluZQ=="}}, "shop")
    await sim.until(lambda: shop.password("orders-binding") == "mine")
    await shop.user.patch(Secret, "orders-credentials", {"data": {"password": ""}}, "shop")
    await sim.until(lambda: len(shop.password()) >= 32)


@simulate()
async def test_no_secret_but_in_secrets(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)

    for kind in (Database.resource, ConfigMap, Service, StatefulSet):
        assert shop.password() not in str(shop.api.objects(kind))


@simulate()
async def test_volumes_grow_and_the_stateful_set_is_made_anew_around_its_pods(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.storage_class(grows=True)
    await shop.open(replicas=2)
    await shop.until_running(2)
    await shop.claims(0, 1)
    before = shop.sets()
    revision = {"metadata": {"name": "orders-0", "labels": before["spec"]["selector"]["matchLabels"]}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders", "uid": before["metadata"]["uid"]}
    revision["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await shop.user.create(Pod, revision, "shop")

    await shop.edit(Database.resource, "orders", "shop", storage={"size": "20Gi"})
    await sim.until(lambda: (shop.asked(0), shop.asked(1)) == ("20Gi", "20Gi"))
    await sim.until(lambda: shop.sets() and shop.sets()["metadata"]["uid"] != before["metadata"]["uid"])

    assert shop.get(Pod, "orders-0", "shop") is not None, "the pod runs on"
    (template,) = shop.sets()["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert shop.sets()["spec"]["template"] == before["spec"]["template"], "no pod restarts for it"
    await shop.report(exist=2, ready=2)
    await sim.until(lambda: shop.ready() == ("Unknown", "GrowingVolumes"))
    await shop.provide(0, "20Gi")
    await shop.provide(1, "20Gi")
    await shop.until_phase("Running")
    assert shop.database()["status"]["storage"] == "20Gi"


@pytest.mark.parametrize(
    ("verb", "resource"), [("patch", PersistentVolumeClaim), ("delete", StatefulSet), ("apply", StatefulSet)]
)
@simulate()
async def test_a_growth_that_was_cut_off_goes_on(sim: Sim, verb: str, resource: Any) -> None:
    shop = Shop(sim)
    await shop.storage_class(grows=True)
    await shop.open(replicas=2)
    await shop.until_running(2)
    await shop.claims(0, 1)
    uid = shop.sets()["metadata"]["uid"]

    lost = ApiError.of(500, "InternalError", "cut off")
    shop.konverge.faults.inject(lost, verbs=[verb], resource=resource, times=2)
    await shop.edit(Database.resource, "orders", "shop", storage={"size": "20Gi"})

    await sim.until(lambda: shop.sets() and shop.sets()["metadata"]["uid"] != uid)
    assert (shop.asked(0), shop.asked(1)) == ("20Gi", "20Gi")
    (template,) = shop.sets()["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == "20Gi"


@simulate()
async def test_a_claim_of_a_pod_that_was_scaled_away_grows_when_it_is_back(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.storage_class(grows=True)
    await shop.open(replicas=1)
    await shop.until_running(1)
    await shop.claims(0, 1)
    await shop.edit(Database.resource, "orders", "shop", storage={"size": "20Gi"})
    await sim.until(lambda: shop.asked(0) == "20Gi")
    await sim.clock.sleep(60)
    assert shop.asked(1) == "10Gi"

    await shop.edit(Database.resource, "orders", "shop", replicas=2)

    await sim.until(lambda: shop.asked(1) == "20Gi")


@simulate()
async def test_what_a_storage_class_does_not_allow_is_told_and_tried_again(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.storage_class(grows=False)
    await shop.open(replicas=1)
    await shop.until_running(1)
    await shop.claims(0)
    uid = shop.sets()["metadata"]["uid"]

    await shop.edit(Database.resource, "orders", "shop", storage={"size": "20Gi"}, replicas=2)
    await sim.until(lambda: shop.ready() == ("False", "VolumeExpansionUnsupported"))
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 2)
    assert (shop.asked(0), shop.sets()["metadata"]["uid"]) == ("10Gi", uid)
    writes = len(shop.api.writes)
    await sim.clock.sleep(600)
    assert len(shop.api.writes) == writes
    await shop.user.patch(StorageClass, "fast", {"allowVolumeExpansion": True})

    await sim.until(lambda: shop.asked(0) == "20Gi")
    await sim.until(lambda: shop.sets() and shop.sets()["metadata"]["uid"] != uid)


@simulate()
async def test_another_major_version_is_refused_for_good(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.open()
    await shop.until_running(1)

    await shop.edit(Database.resource, "orders", "shop", version="18.1")  # this server has no CRD that refuses it
    await sim.until(lambda: shop.ready() == ("False", "MajorVersionChange"))

    assert shop.condition(shop.database(), "Stalled") is not None
    assert ":17.2" in shop.sets()["spec"]["template"]["spec"]["containers"][0]["image"]
    await shop.edit(Database.resource, "orders", "shop", version="17.4")
    await shop.until_phase("Updating")


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


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@simulate()
async def test_the_volumes_go_or_stay_as_the_deletion_policy_says(sim: Sim, policy: str) -> None:
    shop = Shop(sim)
    await shop.open(replicas=1, deletionPolicy=policy)
    await shop.until_running(1)
    await shop.claims(0, 1)
    await shop.user.delete(StatefulSet, "orders", "shop")
    await shop.until_running(1)
    assert shop.claim(0) is not None, "they never go with the StatefulSet alone"

    await shop.user.delete(Database.resource, "orders", "shop")
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 0)
    await shop.report(exist=0, ready=0)
    await sim.until(lambda: shop.database() is None)

    await sim.until(lambda: shop.sets() is None)
    await sim.clock.sleep(600)
    assert (shop.claim(0) is None) == (shop.claim(1) is None) == (policy == "Delete")


@simulate()
async def test_deletion_while_volumes_grow_finishes_in_order(sim: Sim) -> None:
    shop = Shop(sim)
    await shop.storage_class(grows=False)
    await shop.open(replicas=1)
    await shop.until_running(1)
    await shop.claims(0)
    await shop.edit(Database.resource, "orders", "shop", storage={"size": "20Gi"})
    await sim.until(lambda: shop.ready() == ("False", "VolumeExpansionUnsupported"))

    await shop.user.delete(Database.resource, "orders", "shop")
    await sim.until(lambda: shop.sets()["spec"]["replicas"] == 0)
    assert shop.sets()["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "10Gi"
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
