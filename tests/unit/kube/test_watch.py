"""Watch streams: lines of any length, and the ways a stream can end."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import ConnectionFailed, Gone, ServerError, TooManyRequests
from konverge.kube import Client
from konverge.kube.watch import LineSplitter, read_events
from konverge.model.resource import ConfigMap
from konverge.ports import Scope, WatchEvent
from tests.unit.kube.conftest import Connecting
from tests.unit.kube.serving import ScriptedServer, config_map, hangs_up, refuses, streams


def line(kind: str, obj: object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


ADDED = line("ADDED", config_map("a", "5"))
BOOKMARK = line("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": "9"}})


class Pieces:
    """A stream of these chunks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]

    async def readany(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""


async def collect(client: Client, into: list[WatchEvent], *, timeout_seconds: float = 60) -> None:
    async for event in client.watch(ConfigMap, Scope("ns"), resource_version="4", timeout_seconds=timeout_seconds):
        into.append(event)  # noqa: PERF401 - what came before an error counts


@given(st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b""))), st.lists(st.integers(0, 400)))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(text + b"\n" for text in lines) + b"begun"
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = LineSplitter()
    out = [text for start, end in pairwise(edges) for text in splitter.feed(stream[start:end])]
    assert out == [text for text in lines if text]
    assert splitter.rest == b"begun"


async def test_events_and_bookmarks_arrive_and_a_clean_end_is_no_error(server: ScriptedServer, client: Client) -> None:
    server.answers(streams(ADDED + BOOKMARK[:10], BOOKMARK[10:]))
    events: list[WatchEvent] = []
    await collect(client, events)
    assert [(event.type, event.object["metadata"]["resourceVersion"]) for event in events] == [
        ("ADDED", "5"),
        ("BOOKMARK", "9"),
    ]
    asked = server.seen[0]
    assert asked.path == "/api/v1/namespaces/ns/configmaps"
    assert dict(asked.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "timeoutSeconds": "60",
    }


async def test_initial_events_are_asked_for_as_the_server_wants_it(server: ScriptedServer, client: Client) -> None:
    server.answers(streams())
    stream = client.watch(ConfigMap, resource_version="", timeout_seconds=60, initial_events=True)
    assert [event async for event in stream] == []
    query = server.seen[0].query
    asked = ("sendInitialEvents", "resourceVersionMatch", "allowWatchBookmarks", "resourceVersion")
    assert {name: query[name] for name in asked} == {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
    }


async def test_events_of_metadata_alone_are_named_as_what_they_are_of(server: ScriptedServer, client: Client) -> None:
    server.answers(
        streams(
            b'{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}}\n'
        )
    )
    scope = Scope("ns", metadata_only=True)
    events = [event async for event in client.watch(ConfigMap, scope, resource_version="1", timeout_seconds=60)]
    assert server.seen[0].headers["Accept"].startswith("application/json;as=PartialObjectMetadata;")
    assert events == [WatchEvent("ADDED", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})]


async def test_lines_of_several_megabytes_arrive_whole(server: ScriptedServer, client: Client) -> None:
    big = {**config_map("big"), "data": {"blob": "x" * 5_000_000}}
    sent = line("MODIFIED", big)
    server.answers(streams(*(sent[at : at + 70_000] for at in range(0, len(sent), 70_000)), ADDED))
    events: list[WatchEvent] = []
    await collect(client, events)
    assert [event.type for event in events] == ["MODIFIED", "ADDED"]
    assert events[0].object == big


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"code": 410, "reason": "Expired"}, Gone),
        ({"code": 500}, ServerError),
        ({"reason": "InternalError"}, ServerError),
    ],
)
async def test_an_error_event_is_raised_after_the_events_before_it(
    server: ScriptedServer, client: Client, status: dict[str, object], expected: type[Exception]
) -> None:
    server.answers(streams(ADDED, line("ERROR", {"kind": "Status", "message": "too old", **status})))
    events: list[WatchEvent] = []
    with pytest.raises(expected, match="too old"):
        await collect(client, events)
    assert [event.type for event in events] == ["ADDED"]


async def test_a_version_that_is_too_old_is_gone_on_connect(server: ScriptedServer, client: Client) -> None:
    server.answers(refuses(410, "Expired", "too old resource version: 4"))
    with pytest.raises(Gone, match="too old resource version"):
        await collect(client, [])
    assert len(server.seen) == 1


async def test_a_throttled_watch_surfaces_at_once_with_its_wait(server: ScriptedServer, client: Client) -> None:
    server.answers(refuses(429, "TooManyRequests", headers={"Retry-After": "3"}))
    with pytest.raises(TooManyRequests) as caught:
        await collect(client, [])
    assert caught.value.retry_after == 3.0
    assert len(server.seen) == 1


async def test_half_an_event_is_not_delivered(server: ScriptedServer, client: Client) -> None:
    server.answers(streams(ADDED, ADDED[:-20]))
    events: list[WatchEvent] = []
    with pytest.raises(ConnectionFailed, match="cut in the middle"):
        await collect(client, events)
    assert len(events) == 1


async def test_a_connection_that_breaks_is_named(server: ScriptedServer, client: Client) -> None:
    async def abort(request: web.Request) -> None:
        await hangs_up(request)

    server.answers(streams(ADDED, then=abort))
    with pytest.raises(ConnectionFailed, match=r"configmaps at http://127\.0\.0\.1"):
        await collect(client, [])


async def test_silence_without_an_end_is_taken_for_a_dead_connection(server: ScriptedServer, client: Client) -> None:
    """Replay 3, on a socket."""
    released = asyncio.Event()

    async def silence(request: web.Request) -> None:
        await released.wait()

    client._watch_grace = 0.0
    server.answers(streams(ADDED, then=silence))
    events: list[WatchEvent] = []
    with pytest.raises(ConnectionFailed, match="nothing came for"):
        await collect(client, events, timeout_seconds=0.1)
    released.set()
    assert len(events) == 1


@pytest.mark.parametrize("bad", [b"{not json}\n", b"[]\n", b'{"type": "ADDED"}\n', line("WHATEVER", {})])
async def test_a_line_that_is_no_event_names_itself(bad: bytes) -> None:
    with pytest.raises(ConnectionFailed, match=r"watch of pods: .*(not json|\[\]|ADDED|WHATEVER)"):
        [event async for event in read_events(Pieces([bad]), idle=60, asked="watch of pods")]


async def test_a_cancelled_watch_closes_its_connection(server: ScriptedServer, connecting: Connecting) -> None:
    closed = asyncio.Event()

    async def until_closed(request: web.Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:  # the server cancels a handler whose client went away
            closed.set()

    server.answers(streams(ADDED, then=until_closed))
    client = await connecting()
    first = asyncio.Event()

    async def consume() -> None:
        async for _ in client.watch(ConfigMap, resource_version="4", timeout_seconds=60):
            first.set()

    task = asyncio.create_task(consume())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(closed.wait(), 10)
