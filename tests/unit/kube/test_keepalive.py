"""A watch's connection is probed while it is silent."""

import socket
from collections.abc import Iterator

import pytest

from konverge.kube import Client
from konverge.kube.keepalive import IDLE, kept_alive
from konverge.model.resource import ConfigMap
from tests.unit.kube.serving import ScriptedServer, streams

ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))


@pytest.fixture
def made() -> Iterator[socket.socket]:
    with kept_alive(ADDRESS) as one:
        yield one


def test_a_socket_probes(made: socket.socket) -> None:
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="another name here")
def test_it_begins_soon(made: socket.socket) -> None:
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE


def test_an_option_that_the_system_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name, raising=False)
    with kept_alive(ADDRESS) as one:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_a_watch_goes_over_such_a_socket(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    connector = client._transport._session.connector
    assert connector is not None
    original = connector._socket_factory  # type: ignore[attr-defined]

    def counted(address: tuple[object, ...]) -> socket.socket:
        one: socket.socket = original(address)
        made.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        return one

    monkeypatch.setattr(connector, "_socket_factory", counted)
    server.answers(streams(b'{"type": "ADDED", "object": {}}\n'))
    events = [event.type async for event in client.watch(ConfigMap, resource_version="1", timeout_seconds=60)]
    assert events == ["ADDED"]
    assert made == [1]
