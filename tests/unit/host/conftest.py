from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from tests.unit.host.running import Host, TinyApi

StartHost = Callable[..., Awaitable[Host]]


@pytest.fixture
async def api() -> AsyncIterator[TinyApi]:
    """A tiny API server on a free loopback port."""
    tiny = TinyApi()
    runner = web.AppRunner(tiny.app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", tiny.port).start()
    yield tiny
    await runner.cleanup()


@pytest.fixture
async def start_host(api: TinyApi) -> AsyncIterator[StartHost]:
    """Starts host processes, and kills those that the test leaves running."""
    started: list[Host] = []

    async def start(manager: str, **settings: Any) -> Host:
        started.append(await Host.start(manager=manager, server=api.url, **settings))
        return started[-1]

    yield start
    for host in started:
        if host.process.returncode is None:
            host.process.kill()
        await host.exit_code()
