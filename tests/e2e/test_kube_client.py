"""The client against a real API server: what no scripted one can tell."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import pytest

from konverge.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConnectionFailed,
    CredentialsError,
    Gone,
    Invalid,
    NotFound,
)
from konverge.kube import Client, connect
from konverge.model.resource import ConfigMap, Namespace, Node, Object, Pod, ServiceAccount
from konverge.ports import PatchType, Scope, WatchEvent
from konverge.runtime.clock import SystemClock
from konverge.testing import Cluster

pytestmark = pytest.mark.e2e

MANAGER = "tests"


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await connect(str(cluster.kubeconfig), clock=SystemClock(), random=random.Random(1)) as connected:
        yield connected


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_the_server_knows_us(client: Client) -> None:
    assert await client.whoami() not in {"", "system:anonymous"}
    assert client.credentials().server.startswith("https://")


async def test_pages_join_to_the_whole_list(client: Client, namespace: str) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        await client.create(
            ConfigMap, {**config_map(name), "metadata": {"name": name, "labels": {"of": "pages"}}}, namespace
        )
    scope = Scope(namespace, label_selector="of=pages")
    found: list[Object] = []
    sizes: list[int] = []
    token = ""
    while True:
        page = await client.list(ConfigMap, scope, limit=2, continue_token=token)
        found += page.items
        sizes.append(len(page.items))
        token = page.continue_token
        if not token:
            break
    assert sizes == [2, 2, 1]
    assert [item["metadata"]["name"] for item in found] == names
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ConfigMap")}


async def test_an_invalid_continue_token_is_an_error(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError, match="continue"):
        await client.list(ConfigMap, Scope(namespace), continue_token="nonsense")


async def test_a_watch_sees_what_changes_after_the_list(client: Client, namespace: str) -> None:
    scope = Scope(namespace, field_selector="metadata.name=seen")
    page = await client.list(ConfigMap, scope)
    events: list[WatchEvent] = []

    async def watch() -> None:
        stream = client.watch(ConfigMap, scope, resource_version=page.resource_version, timeout_seconds=60)
        async for event in stream:
            events.append(event)
            if event.type == "DELETED":
                return

    watching = asyncio.create_task(watch())
    await client.create(ConfigMap, config_map("seen", v="1"), namespace)
    await client.patch(ConfigMap, "seen", {"data": {"v": "2"}}, namespace)
    await client.delete(ConfigMap, "seen", namespace)
    await asyncio.wait_for(watching, 30)
    assert [(event.type, event.object["data"]["v"]) for event in events if event.type != "BOOKMARK"] == [
        ("ADDED", "1"),
        ("MODIFIED", "2"),
        ("DELETED", "2"),
    ]


async def test_a_watch_ends_cleanly_when_the_time_asked_for_is_over(client: Client, namespace: str) -> None:
    page = await client.list(ConfigMap, Scope(namespace))
    stream = client.watch(ConfigMap, Scope(namespace), resource_version=page.resource_version, timeout_seconds=1)
    types = {event.type async for event in stream}
    assert types <= {"ADDED", "BOOKMARK"}


async def test_a_watch_from_an_ancient_version_is_gone_or_catches_up(client: Client, namespace: str) -> None:
    """A young server still holds its first version, and then the whole history must come."""
    await client.create(ConfigMap, config_map("old"), namespace)
    stream = client.watch(ConfigMap, Scope(namespace), resource_version="1", timeout_seconds=60)
    async with aclosing(stream) as events:
        try:
            async for event in events:
                if event.object["metadata"].get("name") == "old":
                    assert event.type == "ADDED"
                    return
        except Gone as error:
            assert "too old" in error.message  # noqa: PT017 - one of two right outcomes


async def test_a_version_that_is_none_is_refused(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as caught:
        async for _ in client.watch(ConfigMap, Scope(namespace), resource_version="nonsense", timeout_seconds=5):
            pass
    assert "nonsense" in caught.value.message


async def test_a_second_apply_changes_nothing(client: Client, namespace: str) -> None:
    first = await client.apply(ConfigMap, "applied", config_map("applied", v="1"), namespace, field_manager=MANAGER)
    again = await client.apply(ConfigMap, "applied", config_map("applied", v="1"), namespace, field_manager=MANAGER)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_dry_run_stores_nothing(client: Client, namespace: str) -> None:
    answer = await client.apply(
        ConfigMap, "dry", config_map("dry", v="1"), namespace, field_manager=MANAGER, dry_run=True
    )
    assert answer["data"] == {"v": "1"}
    with pytest.raises(NotFound, match='configmaps "dry" not found'):
        await client.get(ConfigMap, "dry", namespace)


async def test_an_unforced_apply_of_anothers_field_is_a_conflict(client: Client, namespace: str) -> None:
    await client.apply(ConfigMap, "shared", config_map("shared", v="1"), namespace, field_manager="other")
    with pytest.raises(Conflict, match='conflict with "other"'):
        await client.apply(
            ConfigMap, "shared", config_map("shared", v="2"), namespace, field_manager=MANAGER, force=False
        )
    forced = await client.apply(ConfigMap, "shared", config_map("shared", v="2"), namespace, field_manager=MANAGER)
    assert forced["data"] == {"v": "2"}


async def test_an_invalid_object_is_refused_readably(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r'ConfigMap "Upper_Case" is invalid: metadata\.name'):
        await client.create(ConfigMap, config_map("Upper_Case"), namespace)


async def test_an_unknown_field_is_an_error_and_not_dropped(client: Client, namespace: str) -> None:
    typo = {**config_map("typo"), "dta": {}}
    with pytest.raises(ApiError, match="dta"):
        await client.create(ConfigMap, typo, namespace)
    with pytest.raises(ApiError, match="dta"):
        await client.apply(ConfigMap, "typo", typo, namespace, field_manager=MANAGER)
    await client.create(ConfigMap, config_map("typo"), namespace)
    with pytest.raises(ApiError, match="dta"):
        await client.patch(ConfigMap, "typo", {"dta": {}}, namespace)


async def test_creating_twice_says_already_exists(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, config_map("once"), namespace)
    with pytest.raises(AlreadyExists):
        await client.create(ConfigMap, config_map("once"), namespace)


async def test_delete_keeps_a_successor_of_the_same_name(client: Client, namespace: str) -> None:
    made = await client.create(ConfigMap, config_map("guarded"), namespace)
    with pytest.raises(Conflict, match="UID in the precondition"):
        await client.delete(ConfigMap, "guarded", namespace, uid="00000000-0000-0000-0000-000000000000")
    await client.delete(ConfigMap, "guarded", namespace, uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.delete(ConfigMap, "guarded", namespace, uid=made["metadata"]["uid"])


async def test_a_replace_of_an_old_version_is_a_conflict(client: Client, namespace: str) -> None:
    old = await client.create(ConfigMap, config_map("replaced", v="1"), namespace)
    new = await client.replace(ConfigMap, "replaced", {**old, "data": {"v": "2"}}, namespace)
    assert new["data"] == {"v": "2"}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.replace(ConfigMap, "replaced", {**old, "data": {"v": "3"}}, namespace)


async def test_a_json_patch_whose_test_fails_changes_nothing(client: Client, namespace: str) -> None:
    made = await client.create(ConfigMap, config_map("patched", v="1"), namespace)
    guarded = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/data/w", "value": "1"},
    ]
    first = await client.patch(ConfigMap, "patched", guarded, namespace, patch_type=PatchType.JSON)
    with pytest.raises(ApiError):
        await client.patch(ConfigMap, "patched", guarded, namespace, patch_type=PatchType.JSON)
    assert await client.get(ConfigMap, "patched", namespace) == first


async def test_a_pod_is_bound_through_its_subresource(client: Client, namespace: str) -> None:
    await default_account(client, namespace)
    pod = {
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none.invalid/none"}]},
    }
    await client.create(Pod, pod, namespace)
    node = (await client.list(Node, limit=1)).items[0]["metadata"]["name"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": node},
    }
    await client.create(Pod, binding, namespace, name="p", subresource="binding")
    assert (await client.get(Pod, "p", namespace))["spec"]["nodeName"] == node
    with pytest.raises(Conflict, match="already assigned"):
        await client.create(Pod, binding, namespace, name="p", subresource="binding")


async def test_a_token_connects_as_its_service_account(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    await client.create(ServiceAccount, {"metadata": {"name": "robot"}}, namespace)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await client.create(ServiceAccount, request, namespace, name="robot", subresource="token")
    path = kubeconfig(tmp_path, client, {"token": answer["status"]["token"]})
    async with await connect(str(path), clock=SystemClock(), random=random.Random(1)) as robot:
        assert await robot.whoami() == f"system:serviceaccount:{namespace}:robot"
        with pytest.raises(ApiError, match="cannot list resource"):
            await robot.list(ConfigMap, Scope(namespace))


async def test_nobody_and_a_wrong_token_are_told_apart(client: Client, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="takes us for system:anonymous"):
        await connect(str(kubeconfig(tmp_path, client, {"token": ""})), clock=SystemClock(), random=random.Random(1))
    with pytest.raises(CredentialsError, match="refuses the credentials"):
        await connect(
            str(kubeconfig(tmp_path, client, {"token": "wrong"})), clock=SystemClock(), random=random.Random(1)
        )


async def test_a_server_of_another_ca_is_not_trusted(client: Client, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, client, {"token": "t"}, trusted=False)
    with pytest.raises(ConnectionFailed, match="certificate verify failed"):
        await connect(str(path), clock=SystemClock(), random=random.Random(1))


async def test_an_object_of_a_megabyte_goes_through_create_and_watch(client: Client, namespace: str) -> None:
    big = config_map("big", blob="x" * 1_000_000)
    version = (await client.list(ConfigMap, Scope(namespace))).resource_version
    await client.create(ConfigMap, big, namespace)
    stream = client.watch(ConfigMap, Scope(namespace), resource_version=version, timeout_seconds=60)
    async with aclosing(stream) as events:
        async for event in events:
            if event.object["metadata"].get("name") == "big":
                assert event.object["data"] == big["data"]
                return


async def test_a_cluster_scoped_object_ignores_the_namespace(client: Client, namespace: str) -> None:
    assert (await client.get(Namespace, namespace, "whatever"))["metadata"]["name"] == namespace


async def default_account(client: Client, namespace: str) -> None:
    """Wait until the controller manager has made the account that pods of the namespace need."""
    scope = Scope(namespace, field_selector="metadata.name=default")
    page = await client.list(ServiceAccount, scope)
    if page.items:
        return
    stream = client.watch(ServiceAccount, scope, resource_version=page.resource_version, timeout_seconds=60)
    async with aclosing(stream) as events:
        async for event in events:
            if event.type == "ADDED":
                return
    pytest.fail("the namespace got no default service account")


def kubeconfig(directory: Path, client: Client, user: dict[str, Any], *, trusted: bool = True) -> Path:
    """A kubeconfig of the same server for another user."""
    details = client.credentials()
    cluster = {"server": details.server} | ({"certificate-authority": details.ca_path} if trusted else {})
    path = directory / "other"
    path.write_bytes(
        orjson.dumps(
            {
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": cluster}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path
