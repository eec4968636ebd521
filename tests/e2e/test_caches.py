"""Caches against the real API server: what they hold is what it holds, whole, in part, by list and by watch."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from konverge.cache.informer import Caches
from konverge.cache.store import strip_managed_fields
from konverge.kube import Client, connect
from konverge.model.meta import key_of
from konverge.model.resource import ConfigMap, Object
from konverge.model.selectors import Selector
from konverge.ports import Scope
from konverge.runtime.clock import SystemClock
from konverge.testing import Cluster
from tests.unit.testing.conformance import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await connect(str(cluster.kubeconfig), clock=SystemClock(), random=random.Random(0)) as connected:
        yield connected


@asynccontextmanager
async def running(caches: Caches) -> AsyncIterator[None]:
    task = asyncio.create_task(caches.run())
    try:
        await caches.wait_for_sync(60)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def make(client: Client, namespace: str, name: str, tier: str) -> Object:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"tier": tier}},
        "data": {"n": "1"},
    }
    return await client.create(ConfigMap, body, namespace)


@pytest.mark.parametrize("watch_list", [True, False], ids=["initial events", "lists in pages"])
async def test_each_part_of_a_resource_follows_the_server(client: Client, namespace: str, watch_list: bool) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        await make(client, namespace, name, tier)
    clock = SystemClock()
    caches = Caches(client, namespaces=[namespace], clock=clock, random=random.Random(0), watch_list=watch_list)
    whole = caches.cache(ConfigMap)
    front = caches.cache(ConfigMap, label_selector="tier=front")
    named = caches.cache(ConfigMap, field_selector="metadata.name=b")
    lean = caches.cache(ConfigMap, label_selector="tier in (front, back)", metadata_only=True)

    async def all_hold_what_is_there() -> bool:
        there = {
            key_of(obj): strip_managed_fields(obj) for obj in (await client.list(ConfigMap, Scope(namespace))).items
        }
        tiers = {key: obj for key, obj in there.items() if "tier" in (obj["metadata"].get("labels") or {})}
        fronts = Selector.parse("tier=front")
        return (
            {key_of(obj): obj for obj in whole.list()} == there
            and {key_of(obj) for obj in front.list()}
            == {key for key, obj in tiers.items() if fronts.matches(obj["metadata"]["labels"])}
            and {key_of(obj) for obj in named.list()} == {key for key in there if key.name == "b"}
            and {key_of(obj): obj["metadata"] for obj in lean.list()}
            == {key: obj["metadata"] for key, obj in tiers.items()}
        )

    async with running(caches):
        assert await all_hold_what_is_there()
        assert [obj.keys() for obj in lean.list()] == [{"apiVersion", "kind", "metadata"}] * 3
        assert {obj["kind"] for obj in lean.list()} == {"ConfigMap"}
        await client.patch(ConfigMap, "a", {"metadata": {"labels": {"tier": "back"}}}, namespace)
        await client.delete(ConfigMap, "b", namespace)
        await make(client, namespace, "d", "front")
        await eventually(all_hold_what_is_there)
    assert [health.lists for health in caches.health()] == [1, 1, 1, 1]
