"""A real HTTP server on a loopback port that answers from a script, and the clock and chance of these tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeClock:
    """Time that passes only by sleeping, and says how long it was asked to."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._elapsed = 0.0

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._elapsed)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._elapsed += seconds
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._elapsed += seconds


class NoJitter:
    """Chance that always takes the upper end."""

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:
        return b


class Seen(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """Answers each request with the next answer of its script; the last one repeats."""

    script: list[Answer] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""

    def answers(self, *script: Answer) -> None:
        self.script = list(script)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = orjson.loads(raw) if raw else None
        self.seen.append(Seen(request.method, request.raw_path.partition("?")[0], request.query, request.headers, body))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await answer(request)


@asynccontextmanager
async def serving() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", scripted.handle)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server(shutdown_timeout=0)
    scripted.url = str(server.make_url("")).rstrip("/")
    try:
        yield scripted
    finally:
        await server.close()


def replies(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type="application/json")

    return answer


def refuses(
    code: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None, **more: Any
) -> Answer:
    return replies({"kind": "Status", "code": code, "reason": reason, "message": message, **more}, code, headers)


def says(text: str, status: int, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, status=status, headers=headers, content_type="text/html")

    return answer


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """Break the connection after the request was read: whether it was executed, nobody knows."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def streams(*chunks: bytes, then: Callable[[web.Request], Awaitable[None]] | None = None) -> Answer:
    """A body sent in these pieces, each flushed, and `then` what happens before its end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then(request)
        return response

    return answer


def only_for(token: str) -> Answer:
    """An object for who shows `token`, 401 for everyone else."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") == f"Bearer {token}":
            return await replies(config_map("a"))(request)
        return await refuses(401, "Unauthorized", "Unauthorized")(request)

    return answer


def config_map(name: str, version: str = "1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version},
    }


def write_kubeconfig(path: Path, server: str, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
    """A kubeconfig of one cluster and one user; a user of None means that the context names none."""
    context = {"cluster": "c", "namespace": "team"} | ({"user": "u"} if user is not None else {})
    path.write_bytes(
        orjson.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "contexts": [{"name": "x", "context": context}],
                "users": [{"name": "u", "user": user}] if user is not None else [],
            }
        )
    )
    return path


class Plugin:
    """An exec plugin as a shell script: prints the token of a file, counts its runs, waits for a pipe where there is one."""

    def __init__(self, directory: Path, output: str | None = None) -> None:
        self.token_file = directory / "token"
        self.pipe = directory / "pipe"
        self._runs = directory / "runs"
        self._script = directory / "plugin.sh"
        credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
        print_it = output or f"""printf '{credential}' "$(cat {self.token_file})" """
        self._script.write_text(
            f"#!/bin/sh\necho run >> {self._runs}\nif [ -p {self.pipe} ]; then cat {self.pipe} > /dev/null; fi\n{print_it}\n"
        )
        self._script.chmod(0o700)

    @property
    def user(self) -> dict[str, Any]:
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(self._script)}}

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines())
