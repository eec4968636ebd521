"""A server that answers from a script, and clients of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from konverge.kube import Client, connect
from tests.unit.kube.serving import FakeClock, NoJitter, ScriptedServer, serving, write_kubeconfig


class Connecting(Protocol):
    def __call__(self, user: Any = ..., **options: Any) -> Awaitable[Client]: ...


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with serving() as scripted:
        yield scripted


@pytest.fixture
async def connecting(server: ScriptedServer, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Connect to the server as a user with a token, or as the given one; nothing is sent."""
    async with AsyncExitStack() as stack:

        async def open_client(user: Any = None, **options: Any) -> Client:
            path = write_kubeconfig(tmp_path / "config", server.url, user or {"token": "secret"})
            settings: dict[str, Any] = {"clock": clock, "random": NoJitter(), "check": False, **options}
            return await stack.enter_async_context(await connect(str(path), **settings))

        yield open_client


@pytest.fixture
async def client(connecting: Connecting) -> Client:
    return await connecting()
