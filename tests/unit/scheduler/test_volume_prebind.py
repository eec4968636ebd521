"""VolumeBinding on the way to a node, against an API server: what it writes, and what it waits for."""

from typing import Any

import pytest

from konverge.cache import Caches
from konverge.errors import Conflict
from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume, PersistentVolumeClaim, ResourceType
from konverge.scheduler.changes import Changes
from konverge.scheduler.framework import SUCCESS, Code, CycleState, Verdict
from konverge.scheduler.handle import Handle
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.plugins.volume_binding import VolumeBinding
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import node, snapshot_of
from tests.unit.scheduler.storage import RESOURCES, ZONE, claim, storage_class, user, volume

SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")


class Way:
    """One pod on its way to node `n`, with a server that has its objects, and caches that follow it."""

    def __init__(self, sim: Sim, raw: Object, timeout: int) -> None:
        self.sim, self.pod, self.state = sim, PodInfo(raw), CycleState()
        self.api = FakeApi(clock=sim.clock, random=sim.random)
        caches = Caches(self.api, clock=sim.clock, random=sim.random)
        self.caches = caches
        changes = Changes(sim.clock)
        held = {resource: caches.cache(resource) for resource in RESOURCES.values()}
        for cache in held.values():
            cache.subscribe(lambda _: changes.notify())
        self.lister = CacheLister(held)
        handle = Handle(self.api, self.lister, WaitingRoom(sim.clock), changes.until)
        self.one = VolumeBinding(VolumeBinding.Args.model_validate({"bindTimeoutSeconds": timeout}), handle)
        self.snapshot: Snapshot = snapshot_of(node("n", labels={ZONE: "a"}))

    async def prepare(self, *objects: Object) -> "Way":
        """Let the server have the objects, and promise the pod what it needs on the node."""
        for obj in objects:
            await self.create(obj)
        self.sim.spawn(self.caches.run())
        await self.caches.wait_for_sync(60)
        assert self.one.pre_filter(self.state, self.pod, self.snapshot).verdict == SUCCESS
        assert self.one.reserve(self.state, self.pod, "n") == SUCCESS
        return self

    async def create(self, obj: Object) -> None:
        resource, metadata = RESOURCES[obj["kind"]], obj["metadata"]
        left_out = {"uid", "resourceVersion"}
        manifest = {**obj, "metadata": {key: value for key, value in metadata.items() if key not in left_out}}
        author = self.api.client("author")
        await author.create(resource, manifest, metadata.get("namespace"))
        if "status" in obj:
            status = {"status": obj["status"]}
            await author.patch(resource, metadata["name"], status, metadata.get("namespace"), subresource="status")

    def now(self, resource: ResourceType, name: str) -> Object:
        (found,) = [raw for raw in self.api.objects(resource) if raw["metadata"]["name"] == name]
        return found

    def shown(self, name: str) -> Object:
        """The claim as the caches show it."""
        found = self.lister.get(PersistentVolumeClaim, name, "default")
        assert found is not None
        return found

    async def controller(self, resource: ResourceType, name: str, patch: dict[str, Any]) -> None:
        """What the volume controller, or a provisioner, writes."""
        namespace = "default" if resource.namespaced else None
        await self.api.client("controller").patch(resource, name, patch, namespace)

    async def binds(self, name: str = "data", volume_name: str = "v") -> None:
        annotations = {BOUND: "yes"}
        patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_name}}
        await self.controller(PersistentVolumeClaim, name, patch)

    async def ends_with(self) -> Verdict:
        return await self.one.pre_bind(self.state, self.pod, "n")


async def way(sim: Sim, *objects: Object, claims: tuple[str, ...] = ("data",), bind_timeout: int = 600) -> Way:
    return await Way(sim, user(*claims), bind_timeout).prepare(*objects)


@simulate()
async def test_a_volume_is_promised_to_the_claim_and_the_pod_waits_until_that_is_bound(sim: Sim) -> None:
    one = await way(sim, STATIC, claim(), volume("v", on={ZONE: ["a"]}))
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: "claimRef" in one.now(PersistentVolume, "v")["spec"])
    promised = one.now(PersistentVolume, "v")
    owner = one.now(PersistentVolumeClaim, "data")
    assert promised["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": meta.uid_of(owner),
        "resourceVersion": meta.resource_version(owner),
    }
    assert promised["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert not going.done()
    await one.binds()
    assert await going == SUCCESS


@simulate()
async def test_a_claim_gets_its_node_and_the_pod_waits_for_the_new_volume(sim: Sim) -> None:
    one = await way(sim, storage_class(), claim())
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: SELECTED in meta.annotations_of(one.now(PersistentVolumeClaim, "data")))
    assert one.now(PersistentVolumeClaim, "data")["metadata"]["annotations"] == {SELECTED: "n"}
    # Bound before its volume shows: not yet to be trusted.
    await one.binds(volume_name="made")
    await sim.until(lambda: one.shown("data")["spec"].get("volumeName") == "made")
    assert not going.done()
    await one.create(volume("made", on={ZONE: ["a"]}))
    assert await going == SUCCESS


@simulate()
async def test_a_promise_that_a_person_made_is_completed_and_nothing_else_changed(sim: Sim) -> None:
    one = await way(sim, STATIC, claim(), volume("v", meant_for="data"))
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: "uid" in one.now(PersistentVolume, "v")["spec"]["claimRef"])
    assert meta.annotations_of(one.now(PersistentVolume, "v")) == {}
    await one.binds()
    assert await going == SUCCESS


@simulate()
async def test_a_provisioner_that_gives_up_sends_the_pod_back(sim: Sim) -> None:
    one = await way(sim, storage_class(), claim())
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: SELECTED in meta.annotations_of(one.now(PersistentVolumeClaim, "data")))
    await one.controller(PersistentVolumeClaim, "data", {"metadata": {"annotations": {SELECTED: None}}})
    assert await going == Verdict(Code.ERROR, ('binding volumes: provisioning failed for PVC "data"',))


@simulate()
async def test_a_volume_made_where_the_node_does_not_reach_it_sends_the_pod_back(sim: Sim) -> None:
    one = await way(sim, storage_class(), claim())
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: SELECTED in meta.annotations_of(one.now(PersistentVolumeClaim, "data")))
    await one.create(volume("far", on={ZONE: ["b"]}))
    await one.binds(volume_name="far")
    verdict = await going
    reason = 'pv "far" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'
    assert verdict == Verdict(Code.ERROR, (f"binding volumes: {reason}",))


@simulate()
async def test_a_promise_that_is_taken_back_sends_the_pod_back(sim: Sim) -> None:
    one = await way(sim, STATIC, claim(), volume("v"))
    going = sim.spawn(one.ends_with())
    await sim.until(lambda: "claimRef" in one.now(PersistentVolume, "v")["spec"])
    await one.controller(PersistentVolume, "v", {"spec": {"claimRef": None}})
    assert await going == Verdict(Code.ERROR, ('binding volumes: ClaimRef got reset for pv "v"',))


@simulate()
async def test_a_pod_does_not_wait_for_ever(sim: Sim) -> None:
    one = await way(sim, storage_class(), claim(), bind_timeout=30)
    started = sim.clock.monotonic()
    assert await one.ends_with() == Verdict(Code.ERROR, ("binding volumes: context deadline exceeded",))
    assert 30 <= sim.clock.monotonic() - started < 40


@simulate()
async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(sim: Sim) -> None:
    one = await way(sim, STATIC, claim(), volume("v"))
    await one.controller(PersistentVolume, "v", {"metadata": {"labels": {"touched": "yes"}}})
    with pytest.raises(Conflict):
        await one.ends_with()
    one.one.unreserve(one.state, one.pod, "n")
    assert "claimRef" not in one.now(PersistentVolume, "v")["spec"]
    await sim.until(lambda: "claimRef" not in (one.lister.get(PersistentVolume, "v") or {})["spec"])
