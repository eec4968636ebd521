"""Applying children on a real API server: what it rewrites causes no second write, and nobody else's child is taken."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import kubernetes.client as k
import pytest

from konverge.cache.informer import Caches
from konverge.cache.store import Change
from konverge.errors import NotController
from konverge.kube import Client, connect
from konverge.model import meta
from konverge.model.conditions import is_true
from konverge.model.meta import Key, owner_reference
from konverge.model.resource import ConfigMap, Deployment, NetworkPolicy, Object, ResourceType, Secret, Service
from konverge.runtime.apply import Applier
from konverge.runtime.clock import SystemClock
from konverge.testing import Cluster

SYNC = 30.0
MANAGER = "konverge-tests"
LABELS = {"app": "shop"}
KINDS = (ConfigMap, Deployment, NetworkPolicy, Secret, Service)


def deployment(**main: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "env": [{"name": "EMPTY", "value": ""}],
        "resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi"}, "requests": {"cpu": "0.1"}},
        **main,
    }
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    return {"spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}}


class World:
    """An applier on its caches, as a controller holds them, with an owner in the test's namespace."""

    def __init__(self, client: Client, caches: Caches, owner: Object, namespace: str) -> None:
        self.client, self.caches, self.owner, self.namespace = client, caches, owner, namespace
        self.applier = Applier(client, caches, lambda owner: None, field_manager=MANAGER)

    async def apply(self, resource: ResourceType, name: str, desired: Any) -> Object:
        return await self.applier.apply(self.owner, resource, name, desired, self.namespace)

    async def live(self, resource: ResourceType, name: str) -> Object:
        return await self.client.get(resource, name, self.namespace)

    async def seen(self, obj: Object, resource: ResourceType) -> None:
        """Wait until the cache holds that version or a newer one."""
        await self.until(
            resource,
            meta.key_of(obj),
            lambda held: not meta.is_newer(meta.resource_version(obj), meta.resource_version(held)),
        )

    async def until(self, resource: ResourceType, key: Key, condition: Callable[[Object], bool]) -> None:
        """Wait until the cache holds an object of that key for which `condition` holds."""
        met = asyncio.Event()

        def look(change: Change) -> None:
            if change.key == key and change.new is not None and condition(change.new):
                met.set()

        self.caches.cache(resource).subscribe(look)
        async with asyncio.timeout(SYNC):
            await met.wait()


@asynccontextmanager
async def operating(client: Client, owner: Object, namespace: str) -> AsyncIterator[World]:
    """A world with fresh caches, as after a start."""
    caches = Caches(client, namespaces=[namespace], clock=SystemClock(), random=random.Random(1))
    for kind in KINDS:
        caches.cache(kind)
    running = asyncio.create_task(caches.run())
    try:
        await caches.wait_for_sync(SYNC)
        yield World(client, caches, owner, namespace)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await connect(str(cluster.kubeconfig), clock=SystemClock(), random=random.Random(1)) as connected:
        yield connected


@pytest.fixture
async def owner(client: Client, namespace: str) -> Object:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    return await client.create(ConfigMap, body, namespace)


@pytest.fixture
async def world(client: Client, owner: Object, namespace: str) -> AsyncIterator[World]:
    async with operating(client, owner, namespace) as running:
        yield running


async def test_a_form_that_the_server_rewrites_is_written_once(client: Client, owner: Object, world: World) -> None:
    """Replay 6: cpu "1000m" comes back as "1", and an environment variable with an empty value without one."""
    applied = await world.apply(Deployment, "shop", deployment())
    (main,) = applied["spec"]["template"]["spec"]["containers"]
    assert main["resources"]["limits"]["cpu"] == "1"
    assert main["env"] == [{"name": "EMPTY"}]
    await world.apply(Deployment, "shop", deployment())
    assert (await world.live(Deployment, "shop"))["metadata"]["generation"] == 1

    async with operating(client, owner, world.namespace) as restarted:
        before = await restarted.live(Deployment, "shop")
        returned = await restarted.apply(Deployment, "shop", deployment())
        assert meta.resource_version(returned) == meta.resource_version(before)
        assert meta.resource_version(await restarted.live(Deployment, "shop")) == meta.resource_version(before)
        changed = await restarted.apply(Deployment, "shop", deployment(image="registry.k8s.io/pause:3.9"))
        assert changed["metadata"]["generation"] == 2


async def test_models_of_the_kubernetes_client_are_taken_and_written_once(world: World) -> None:
    """Also those whose every unset field the server would default."""
    container = k.V1Container(
        name="main",
        image="registry.k8s.io/pause:3.10",
        env=[k.V1EnvVar(name="EMPTY", value="")],
        ports=[k.V1ContainerPort(container_port=80)],
        resources=k.V1ResourceRequirements(limits={"cpu": "1000m"}),
    )
    spec = k.V1DeploymentSpec(
        replicas=0,
        selector=k.V1LabelSelector(match_labels=LABELS),
        template=k.V1PodTemplateSpec(metadata=k.V1ObjectMeta(labels=LABELS), spec=k.V1PodSpec(containers=[container])),
    )
    rule = k.V1NetworkPolicyIngressRule(_from=[k.V1NetworkPolicyPeer(pod_selector=k.V1LabelSelector())])
    policy = k.V1NetworkPolicySpec(pod_selector=k.V1LabelSelector(match_labels=LABELS), ingress=[rule])
    port = k.V1ServicePort(port=80, target_port="http")
    wanted: list[tuple[ResourceType, Any]] = [
        (Deployment, k.V1Deployment(metadata=k.V1ObjectMeta(labels=LABELS), spec=spec)),
        (NetworkPolicy, k.V1NetworkPolicy(spec=policy)),
        (Service, k.V1Service(spec=k.V1ServiceSpec(selector=LABELS, ports=[port]))),
    ]
    for resource, desired in wanted:
        first = await world.apply(resource, "shop", desired)
        await world.seen(first, resource)
        again = await world.apply(resource, "shop", desired)
        assert meta.resource_version(again) == meta.resource_version(
            world.caches.cache(resource).get(meta.key_of(first)) or {"metadata": {}}
        )
        assert (await world.live(resource, "shop"))["metadata"].get("generation", 1) == 1


async def test_a_secret_given_as_text_is_written_once_and_an_entry_taken_out_is_gone(
    client: Client, owner: Object, world: World
) -> None:
    first = await world.apply(Secret, "shop", {"stringData": {"a": "1", "b": "2"}})
    async with operating(client, owner, world.namespace) as restarted:
        again = await restarted.apply(Secret, "shop", {"stringData": {"a": "1", "b": "2"}})
        assert meta.resource_version(again) == meta.resource_version(first)
        less = await restarted.apply(Secret, "shop", {"stringData": {"a": "1"}})
        assert less["data"] == {"a": "MQ=="}


async def test_an_object_that_the_cache_does_not_show_yet_is_not_taken(
    client: Client, owner: Object, namespace: str
) -> None:
    """Made a moment ago: by a person with the same field, or as the child of another controller."""
    blind = Applier(
        client, Caches(client, clock=SystemClock(), random=random.Random(1)), lambda owner: None, field_manager=MANAGER
    )
    other = await client.create(
        ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}, namespace
    )
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("same", {}, "nobody's child"),
        ("another", {"ownerReferences": [owner_reference(other)]}, "belongs to ConfigMap other"),
    ]
    for field, metadata, why in cases:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": field, **metadata}, "data": {"same": "1"}}
        made = await client.create(ConfigMap, body, namespace)
        with pytest.raises(NotController, match=why):
            await blind.apply(owner, ConfigMap, field, {"data": {field: "2"}}, namespace)
        assert meta.resource_version(await client.get(ConfigMap, field, namespace)) == meta.resource_version(made)


async def test_a_field_that_is_no_longer_desired_goes_and_another_manager_s_stays(world: World) -> None:
    await world.apply(ConfigMap, "shop", {"data": {"ours": "1", "also": "1"}})
    theirs = await world.client.patch(ConfigMap, "shop", {"data": {"theirs": "1"}}, world.namespace)
    await world.seen(theirs, ConfigMap)
    applied = await world.apply(ConfigMap, "shop", {"data": {"ours": "2"}})
    assert applied["data"] == {"ours": "2", "theirs": "1"}


async def test_another_controller_s_child_and_nobody_s_are_refused_and_not_written(world: World) -> None:
    other = await world.client.create(
        ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}, world.namespace
    )
    for name, metadata, why in (
        ("taken", {"ownerReferences": [owner_reference(other)]}, "belongs to ConfigMap other"),
        ("free", {}, "nobody's child"),
    ):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}
        made = await world.client.create(Secret, body, world.namespace)
        await world.seen(made, Secret)
        for attempt in (
            world.apply(Secret, name, {"stringData": {"a": "b"}}),
            world.applier.create_once(world.owner, Secret, name, {"stringData": {"a": "b"}}, world.namespace),
            world.applier.delete(world.owner, Secret, name, world.namespace),
        ):
            with pytest.raises(NotController, match=why):
                await attempt
        assert meta.resource_version(await world.live(Secret, name)) == meta.resource_version(made)


async def test_an_orphan_that_carries_our_label_is_adopted(world: World) -> None:
    labels = {"app.kubernetes.io/managed-by": MANAGER}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orphan", "labels": labels}}
    await world.seen(await world.client.create(ConfigMap, body, world.namespace), ConfigMap)
    adopted = await world.apply(ConfigMap, "orphan", {"data": {"a": "b"}})
    assert (meta.controller_of(adopted) or {})["uid"] == meta.uid_of(world.owner)


async def test_a_child_is_made_once_and_pruned_by_its_very_self(world: World) -> None:
    """Replay 5 on a real server: what a write returned is read at once, whether the watch has told of it or not."""
    made = [
        await world.applier.create_once(world.owner, Secret, "once", {"stringData": {"n": str(n)}}, world.namespace)
        for n in range(3)
    ]
    assert len({meta.uid_of(each) for each in made}) == 1
    kept = meta.key_of(await world.apply(Secret, "kept", {"stringData": {"a": "b"}}))
    assert await world.applier.prune(world.owner, Secret, {kept}) == [meta.key_of(made[0])]
    page = await world.client.list(Secret)
    left = {meta.key_of(each) for each in page.items if meta.key_of(each).namespace == world.namespace}
    assert left == {kept}


async def test_a_dry_run_tells_what_would_change(world: World) -> None:
    made = await world.apply(Deployment, "shop", deployment())
    await world.until(
        Deployment, meta.key_of(made), lambda live: is_true(live["status"].get("conditions", []), "Available")
    )
    changes = await world.applier.diff(
        world.owner, Deployment, "shop", deployment(image="registry.k8s.io/pause:3.9"), world.namespace
    )
    assert [str(each) for each in changes] == [
        "spec.template.spec.containers[name=main].image: 'registry.k8s.io/pause:3.10' -> 'registry.k8s.io/pause:3.9'"
    ]
    assert await world.applier.diff(world.owner, Deployment, "shop", deployment(), world.namespace) == []
    assert (await world.live(Deployment, "shop"))["metadata"]["generation"] == 1
