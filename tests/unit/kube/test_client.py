"""The verbs over HTTP: what is asked of the server, and what becomes of its answers."""

import asyncio
import socket
from types import MappingProxyType
from typing import Any

import pytest

from konverge.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    WriteBlocked,
)
from konverge.kube import Client
from konverge.model.resource import ConfigMap, Lease, Namespace, Node, Pod
from konverge.ports import PatchType, Scope
from tests.unit.kube.conftest import Connecting
from tests.unit.kube.serving import FakeClock, ScriptedServer, config_map, hangs_up, refuses, replies, says

OBJECT = config_map("a")
UNAVAILABLE = refuses(503, "ServiceUnavailable")


async def test_get_reads_one_object(server: ScriptedServer, client: Client) -> None:
    server.answers(replies(OBJECT))
    assert await client.get(ConfigMap, "a", "ns") == OBJECT
    asked = server.seen[0]
    assert (asked.method, asked.path, dict(asked.query)) == ("GET", "/api/v1/namespaces/ns/configmaps/a", {})
    assert asked.headers["Authorization"] == "Bearer secret"
    assert asked.headers["Accept"] == "application/json"
    assert asked.headers["User-Agent"].startswith("konverge/")


async def test_list_asks_for_a_page(server: ScriptedServer, client: Client) -> None:
    server.answers(
        replies({"metadata": {"resourceVersion": "8", "continue": "next"}, "items": [{"metadata": {"name": "p"}}]})
    )
    scope = Scope("ns", label_selector="app in (a,b),!c", field_selector="spec.nodeName=n")
    page = await client.list(Pod, scope, limit=2, resource_version="5")
    assert page.items == [{"metadata": {"name": "p"}, "apiVersion": "v1", "kind": "Pod"}]
    assert (page.resource_version, page.continue_token) == ("8", "next")
    assert dict(server.seen[0].query) == {
        "labelSelector": "app in (a,b),!c",
        "fieldSelector": "spec.nodeName=n",
        "limit": "2",
        "resourceVersion": "5",
    }


async def test_the_next_page_carries_the_token_and_no_version(server: ScriptedServer, client: Client) -> None:
    server.answers(replies({"metadata": {"resourceVersion": "8"}, "items": []}))
    await client.list(Node, limit=2, continue_token="a+b/=", resource_version="5")
    assert server.seen[0].path == "/api/v1/nodes"
    assert dict(server.seen[0].query) == {"limit": "2", "continue": "a+b/="}


async def test_metadata_alone_is_asked_for_and_named_as_what_it_is_of(server: ScriptedServer, client: Client) -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}}
    server.answers(replies({"metadata": {"resourceVersion": "5"}, "items": [partial]}))
    page = await client.list(ConfigMap, Scope("ns", metadata_only=True))
    assert server.seen[0].headers["Accept"].split(",") == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json",
    ]
    assert page.items == [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]


async def test_apply_names_its_manager_and_fills_in_the_kind(server: ScriptedServer, client: Client) -> None:
    server.answers(replies(OBJECT))
    await client.apply(ConfigMap, "a", {"metadata": {"name": "a"}}, "ns", field_manager="me", force=False, dry_run=True)
    asked = server.seen[0]
    assert (asked.method, asked.headers["Content-Type"]) == ("PATCH", "application/apply-patch+yaml")
    assert dict(asked.query) == {"fieldManager": "me", "force": "false", "fieldValidation": "Strict", "dryRun": "All"}
    assert asked.body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.mark.parametrize("patch_type", list(PatchType))
async def test_patch_says_what_kind_it_is(server: ScriptedServer, client: Client, patch_type: PatchType) -> None:
    server.answers(replies(OBJECT))
    await client.patch(
        ConfigMap, "a", {"data": None}, "ns", patch_type=patch_type, subresource="status", field_manager="me"
    )
    asked = server.seen[0]
    assert (asked.path, asked.headers["Content-Type"]) == (
        "/api/v1/namespaces/ns/configmaps/a/status",
        patch_type.value,
    )
    assert dict(asked.query) == {"fieldManager": "me", "fieldValidation": "Strict"}
    assert asked.body == {"data": None}


async def test_create_posts_to_the_collection_of_the_namespace_that_the_object_names(
    server: ScriptedServer, client: Client
) -> None:
    server.answers(replies(OBJECT, 201))
    await client.create(ConfigMap, MappingProxyType(OBJECT))
    asked = server.seen[0]
    assert (asked.method, asked.path, dict(asked.query)) == (
        "POST",
        "/api/v1/namespaces/ns/configmaps",
        {"fieldValidation": "Strict"},
    )
    assert asked.body == OBJECT


async def test_what_is_no_json_is_never_sent(server: ScriptedServer, client: Client) -> None:
    with pytest.raises(TypeError, match="not JSON serializable: set"):
        await client.create(ConfigMap, {"data": {"a"}}, "ns")
    assert server.seen == []


async def test_create_reaches_the_subresource_of_an_object(server: ScriptedServer, client: Client) -> None:
    server.answers(replies({"kind": "Status", "status": "Success"}, 201))
    await client.create(Pod, {"kind": "Binding"}, "ns", name="p", subresource="binding")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/p/binding"


async def test_replace_puts(server: ScriptedServer, client: Client) -> None:
    server.answers(replies(OBJECT))
    await client.replace(ConfigMap, "a", OBJECT, "ns", subresource="status")
    assert (server.seen[0].method, server.seen[0].path) == ("PUT", "/api/v1/namespaces/ns/configmaps/a/status")


async def test_delete_carries_its_precondition(server: ScriptedServer, client: Client) -> None:
    server.answers(replies({"kind": "Status", "status": "Success"}))
    await client.delete(ConfigMap, "a", "ns", uid="u-1", propagation="Foreground")
    asked = server.seen[0]
    assert asked.method == "DELETE"
    assert (asked.body["preconditions"], asked.body["propagationPolicy"]) == ({"uid": "u-1"}, "Foreground")


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_would_mean_another_resource_is_never_sent(
    server: ScriptedServer, client: Client, name: str
) -> None:
    with pytest.raises(ValueError, match="is no name"):
        await client.delete(ConfigMap, name, "ns")
    with pytest.raises(ValueError, match="is no name"):
        await client.list(ConfigMap, Scope(name or ".."))
    assert server.seen == []


async def test_a_namespaced_object_needs_its_namespace(server: ScriptedServer, client: Client) -> None:
    with pytest.raises(ValueError, match="pass the object's namespace"):
        await client.get(ConfigMap, "a")
    with pytest.raises(ValueError, match="pass the object's namespace"):
        await client.create(ConfigMap, {"metadata": {"name": "a"}})
    assert server.seen == []


async def test_a_name_stays_one_segment_of_the_path(server: ScriptedServer, client: Client) -> None:
    server.answers(replies({}))
    await client.get(Namespace, "a/b?c:d")
    assert server.seen[0].path == "/api/v1/namespaces/a%2Fb%3Fc:d"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (422, "Invalid", Invalid),
        (410, "Expired", Gone),
    ],
)
async def test_refusals_surface_at_once_by_their_names(
    server: ScriptedServer, client: Client, code: int, reason: str, kind: type[ApiError]
) -> None:
    server.answers(refuses(code, reason, "because"))
    with pytest.raises(kind, match="because"):
        await client.get(ConfigMap, "a", "ns")
    assert len(server.seen) == 1


async def test_an_error_page_of_a_proxy_is_an_error_with_its_text(server: ScriptedServer, client: Client) -> None:
    server.answers(says("<html>upstream is down</html>", 502))
    with pytest.raises(ServerError, match="GET /api/v1/nodes/n: <html>upstream is down"):
        await client.get(Node, "n")


async def test_a_success_that_is_not_json_is_no_answer(server: ScriptedServer, client: Client) -> None:
    server.answers(says("<html>please log in</html>", 200))
    with pytest.raises(ConnectionFailed, match="not JSON; a proxy in between\\? <html>please log in"):
        await client.get(Node, "n")


async def test_a_redirect_is_not_followed(server: ScriptedServer, client: Client) -> None:
    server.answers(says("elsewhere", 307, {"Location": "http://127.0.0.1:1/"}))
    with pytest.raises(ApiError, match="307 TemporaryRedirect"):
        await client.get(Node, "n")
    assert len(server.seen) == 1


THROTTLED: dict[str, Any] = {
    "LIST": lambda client: client.list(ConfigMap),
    "PATCH": lambda client: client.patch(ConfigMap, "a", {"data": None}, "ns"),
    "POST": lambda client: client.create(ConfigMap, OBJECT),
}


@pytest.mark.parametrize("verb", THROTTLED)
async def test_a_throttled_request_waits_as_long_as_asked(
    server: ScriptedServer, client: Client, clock: FakeClock, verb: str
) -> None:
    """Replay 12: nothing was executed, so that even a create may be sent again."""
    server.answers(*[refuses(429, "TooManyRequests", headers={"Retry-After": "3"})] * 5, replies(OBJECT))
    await THROTTLED[verb](client)
    assert len(clock.slept) == 5
    assert all(seconds >= 3 for seconds in clock.slept)


async def test_retry_after_may_be_a_date(server: ScriptedServer, client: Client, clock: FakeClock) -> None:
    header = {"Retry-After": "Tue, 01 Jan 2030 00:00:07 GMT"}
    server.answers(refuses(503, "ServiceUnavailable", headers=header), replies(OBJECT))
    await client.get(ConfigMap, "a", "ns")
    assert clock.slept[0] >= 7


async def test_too_long_a_wait_is_left_to_the_caller(server: ScriptedServer, client: Client, clock: FakeClock) -> None:
    server.answers(refuses(429, "TooManyRequests", details={"retryAfterSeconds": 600}))
    with pytest.raises(TooManyRequests) as caught:
        await client.get(ConfigMap, "a", "ns")
    assert (caught.value.retry_after, clock.slept) == (600.0, [])


REPEATABLE: dict[str, Any] = {
    "get": lambda client: client.get(ConfigMap, "a", "ns"),
    "list": lambda client: client.list(ConfigMap),
    "apply": lambda client: client.apply(ConfigMap, "a", {}, "ns", field_manager="me"),
    "merge patch": lambda client: client.patch(ConfigMap, "a", {"data": None}, "ns"),
    "replace": lambda client: client.replace(ConfigMap, "a", OBJECT, "ns"),
    "delete of a uid": lambda client: client.delete(ConfigMap, "a", "ns", uid="u"),
    "JSON patch that tests the version": lambda client: client.patch(
        ConfigMap,
        "a",
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
        "ns",
        patch_type=PatchType.JSON,
    ),
}
ONCE: dict[str, Any] = {
    "create": lambda client: client.create(ConfigMap, OBJECT),
    "delete by name": lambda client: client.delete(ConfigMap, "a", "ns"),
    "JSON patch": lambda client: client.patch(
        ConfigMap, "a", [{"op": "test", "path": "/metadata/uid", "value": "u"}, {"op": "add", "path": "/x/-", "value": 1}], "ns",
        patch_type=PatchType.JSON,
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", REPEATABLE)
async def test_a_repeatable_request_survives_a_fault(server: ScriptedServer, client: Client, verb: str) -> None:
    server.answers(UNAVAILABLE, replies(OBJECT))
    await REPEATABLE[verb](client)
    assert len(server.seen) == 2
    assert server.seen[0] == server.seen[1]


@pytest.mark.parametrize("fault", [UNAVAILABLE, hangs_up], ids=["503", "broken connection"])
@pytest.mark.parametrize("verb", ONCE)
async def test_what_may_have_been_executed_is_not_sent_twice(
    server: ScriptedServer, client: Client, verb: str, fault: Any
) -> None:
    server.answers(fault, replies(OBJECT))
    with pytest.raises((ConnectionFailed, ServerError)):
        await ONCE[verb](client)
    assert len(server.seen) == 1


async def test_a_server_that_is_not_there_is_named_after_a_few_attempts(
    connecting: Connecting, clock: FakeClock
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    client = await connecting()
    client._transport.credentials.details = type(client.credentials())(server=f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionFailed, match=rf"cannot connect to http://127\.0\.0\.1:{port}"):
        await client.create(ConfigMap, OBJECT)
    assert len(clock.slept) == 4


async def test_a_server_may_lie_below_a_path(server: ScriptedServer, connecting: Connecting) -> None:
    server.answers(replies(OBJECT))
    client = await connecting()
    client._transport.credentials.details = type(client.credentials())(server=f"{server.url}/clusters/c-1")
    await client.get(ConfigMap, "a", "ns")
    assert server.seen[0].path == "/clusters/c-1/api/v1/namespaces/ns/configmaps/a"


async def test_a_proxy_is_asked_for_the_whole_address(server: ScriptedServer, connecting: Connecting) -> None:
    server.answers(refuses(404, "NotFound"), replies(OBJECT))
    client = await connecting()
    client._transport.credentials.details = type(client.credentials())(
        server="http://cluster.invalid:6443", proxy=server.url
    )
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", "ns")
    assert await client.apply(ConfigMap, "a", {}, "ns", field_manager="me") == OBJECT
    assert [seen.path for seen in server.seen] == ["http://cluster.invalid:6443/api/v1/namespaces/ns/configmaps/a"] * 2


@pytest.mark.parametrize("token", ["secret\r\nImpersonate-User: admin", "secret\rx", "secret\nx"])
async def test_a_token_cannot_smuggle_a_header(server: ScriptedServer, connecting: Connecting, token: str) -> None:
    client = await connecting({"token": token})
    with pytest.raises(ValueError, match="line break"):
        await client.get(ConfigMap, "a", "ns")
    assert server.seen == []


async def test_a_server_that_does_not_answer_is_given_up(server: ScriptedServer, connecting: Connecting) -> None:
    async def never(request: Any) -> Any:
        await asyncio.Event().wait()

    server.answers(never)
    client = await connecting(request_timeout=0.05)
    with pytest.raises(ConnectionFailed, match=r"did not answer within 0\.05 s"):
        await client.create(ConfigMap, OBJECT)


async def test_every_exchange_is_observed(server: ScriptedServer, connecting: Connecting) -> None:
    seen: list[tuple[str, str, str]] = []
    client = await connecting(observer=lambda method, host, code, seconds: seen.append((method, host, code)))
    server.answers(UNAVAILABLE, hangs_up, hangs_up, replies(OBJECT))
    await client.get(ConfigMap, "a", "ns")
    host = server.url.removeprefix("http://")
    assert {method for method, _, _ in seen} == {"GET"}
    assert {where for _, where, _ in seen} == {host}
    assert [code for _, _, code in seen] == ["503", "<error>", "<error>", "200"]


async def test_a_closed_gate_lets_only_reads_and_leases_pass(server: ScriptedServer, client: Client) -> None:
    server.answers(replies(OBJECT))
    client.gate.close("the lease was lost")
    for verb in ("apply", "merge patch", "replace", "delete of a uid"):
        with pytest.raises(WriteBlocked, match="the lease was lost"):
            await REPEATABLE[verb](client)
    for verb in ONCE.values():
        with pytest.raises(WriteBlocked):
            await verb(client)
    assert server.seen == []
    await client.get(ConfigMap, "a", "ns")
    await client.replace(Lease, "l", {}, "ns")
    assert [seen.method for seen in server.seen] == ["GET", "PUT"]
    client.gate.open()
    await client.create(ConfigMap, OBJECT)


async def test_a_fence_is_asked_before_each_write(server: ScriptedServer, client: Client) -> None:
    """A process that was paused beyond its term has not noticed anything yet when it sends its next write."""
    holds = True
    client.gate.fence(lambda: holds)
    server.answers(replies(OBJECT))
    await client.patch(ConfigMap, "a", {}, "default")
    holds = False
    with pytest.raises(WriteBlocked, match="does not hold the lease now"):
        await client.patch(ConfigMap, "a", {}, "default")


async def test_a_write_that_waits_for_its_retry_meets_the_closed_gate(server: ScriptedServer, client: Client) -> None:
    async def closes(request: Any) -> Any:
        client.gate.close("the lease was lost")
        return await UNAVAILABLE(request)

    server.answers(closes, replies(OBJECT))
    with pytest.raises(WriteBlocked):
        await client.apply(ConfigMap, "a", {}, "ns", field_manager="me")
    assert len(server.seen) == 1
