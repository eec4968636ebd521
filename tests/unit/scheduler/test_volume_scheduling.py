"""Pods with volumes under a running scheduler: what wakes them, and that no volume is promised twice, whatever goes wrong."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

from konverge.errors import KonvergeError
from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume, PersistentVolumeClaim, Pod
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, node, running
from tests.unit.scheduler.storage import RESOURCES, ZONE, claim, storage_class, user, volume

SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
NODES = [node(f"{zone}{index}", labels={ZONE: zone}) for zone in "ab" for index in range(2)]


async def furnish(api: FakeApi, *objects: Object) -> None:
    """Let the server have claims, volumes and classes, with their status."""
    author = api.client("author")
    for obj in objects:
        resource, metadata = RESOURCES[obj["kind"]], obj["metadata"]
        kept = {key: value for key, value in metadata.items() if key not in {"uid", "resourceVersion"}}
        await author.create(resource, {**obj, "metadata": kept}, metadata.get("namespace"))
        if "status" in obj:
            status = {"status": obj["status"]}
            await author.patch(resource, metadata["name"], status, metadata.get("namespace"), subresource="status")


def found(api: FakeApi, resource: Any, name: str) -> Object:
    (one,) = [raw for raw in api.objects(resource) if raw["metadata"]["name"] == name]
    return one


class VolumeController:
    """What binds claims to the volumes that are promised to them, and makes volumes where a claim has a node."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.client = api, api.client("volumes")

    async def run(self) -> None:
        while True:
            with suppress(KonvergeError):  # the next round does it
                await self.step()
            await asyncio.sleep(0.5)

    async def step(self) -> None:
        claims = {meta.uid_of(raw): raw for raw in self.api.objects(PersistentVolumeClaim)}
        for raw in self.api.objects(PersistentVolume):
            owner = claims.get((raw["spec"].get("claimRef") or {}).get("uid", ""))
            if owner is not None and not owner["spec"].get("volumeName"):
                annotations = {BOUND: "yes"}
                patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": raw["metadata"]["name"]}}
                await self.client.patch(PersistentVolumeClaim, owner["metadata"]["name"], patch, "default")
        promised = {(raw["spec"].get("claimRef") or {}).get("uid") for raw in self.api.objects(PersistentVolume)}
        for uid, raw in claims.items():
            selected = meta.annotations_of(raw).get(SELECTED)
            if selected and uid not in promised:
                made = volume(f"made-{raw['metadata']['name']}", on={ZONE: [selected[0]]})
                ref = {"namespace": "default", "name": raw["metadata"]["name"], "uid": uid}
                await furnish(self.api, {**made, "spec": {**made["spec"], "claimRef": ref}})


@simulate()
async def test_a_pod_is_tried_again_when_its_claim_comes_and_when_a_volume_does(sim: Sim) -> None:
    cluster = await running(sim, *NODES)
    await furnish(cluster.api, storage_class(provisioner="kubernetes.io/no-provisioner"))
    await cluster.create(user("data", name="app"))
    await sim.until(lambda: 'persistentvolumeclaim "data" not found' in cluster.condition("app").get("message", ""))
    started = sim.clock.monotonic()
    await furnish(cluster.api, claim())
    words = "didn't find available persistent volumes to bind"
    await sim.until(lambda: words in cluster.condition("app").get("message", ""))
    await furnish(cluster.api, volume("v", on={ZONE: ["b"]}))
    sim.spawn(VolumeController(cluster.api).run())
    (where,) = await cluster.placed("app")
    assert where.startswith("b")
    assert sim.clock.monotonic() - started < 60, "not by the five minutes after which everything is tried again"


@simulate()
async def test_a_pod_is_bound_only_once_its_volume_is_made(sim: Sim) -> None:
    cluster = await running(sim, *NODES)
    await furnish(cluster.api, storage_class(), claim())
    await cluster.create(user("data", name="app"))
    await sim.until(lambda: SELECTED in meta.annotations_of(found(cluster.api, PersistentVolumeClaim, "data")))
    await asyncio.sleep(30)
    assert not cluster.at("app")
    sim.spawn(VolumeController(cluster.api).run())
    (where,) = await cluster.placed("app")
    assert where == meta.annotations_of(found(cluster.api, PersistentVolumeClaim, "data"))[SELECTED]


@simulate()
async def test_pods_that_wait_for_volumes_do_not_hold_up_others(sim: Sim) -> None:
    cluster = await running(sim, *NODES)
    names = [f"c{index}" for index in range(70)]
    await furnish(cluster.api, storage_class(), *(claim(name) for name in names))
    await cluster.create(*(user(name, name=f"waits-{name}") for name in names))
    await sim.until(
        lambda: all(SELECTED in meta.annotations_of(raw) for raw in cluster.api.objects(PersistentVolumeClaim))
    )
    await cluster.create(user(name="free"))
    assert await cluster.placed("free")


@simulate()
async def test_a_pod_that_is_deleted_while_it_waits_gives_everything_back(sim: Sim) -> None:
    cluster = await running(sim, *NODES)
    only = volume("v", on={ZONE: ["a"]})
    await furnish(cluster.api, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("mine"), only)
    await cluster.create(user("mine", name="first"))
    await sim.until(lambda: "claimRef" in found(cluster.api, PersistentVolume, "v")["spec"])
    await cluster.api.client("author").delete(Pod, "first", "default")
    # The claim is promised the volume still, so whoever uses it next gets it.
    await cluster.create(user("mine", name="second"))
    sim.spawn(VolumeController(cluster.api).run())
    (where,) = await cluster.placed("second")
    assert where.startswith("a")


@simulate(seeds=range(8), max_steps=5_000_000)
async def test_no_volume_is_promised_twice_and_all_pods_get_theirs(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    cluster = Running(sim, api)
    await cluster.create(*NODES)
    names = [f"c{index}" for index in range(16)]
    volumes = [volume(f"v{index}", on={ZONE: ["ab"[index % 2]]}) for index in range(16)]
    await furnish(api, storage_class(provisioner="kubernetes.io/no-provisioner"), *volumes, *map(claim, names))
    api.faults.conflict = api.faults.drop_after = api.faults.server_error = 0.15
    await cluster.create(*(user(name, name=f"p-{name}") for name in names))
    await cluster.start()
    sim.spawn(VolumeController(api).run())
    await sim.until(lambda: all(raw["spec"].get("nodeName") for raw in api.objects(Pod)), within=3600, every=1.0)
    taken = Counter(raw["spec"]["volumeName"] for raw in api.objects(PersistentVolumeClaim))
    assert len(taken) == len(names)
    for raw in api.objects(Pod):
        used = found(api, PersistentVolumeClaim, raw["metadata"]["name"].removeprefix("p-"))
        number = int(used["spec"]["volumeName"].removeprefix("v"))
        assert raw["spec"]["nodeName"].startswith("ab"[number % 2])
