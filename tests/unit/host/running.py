"""What the tests of the host share: a tiny API server, processes with bounded waits, and HTTP requests."""

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT, Process, create_subprocess_exec
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

PATIENCE = 30.0
PROGRAM = Path(__file__).with_name("program.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TinyApi:
    """The API discovery, and one ConfigMap that can be listed and watched. Notes paths; refuses revoked tokens."""

    def __init__(self) -> None:
        self.port = free_port()
        self.paths: list[str] = []
        self.revoked: set[str] = set()
        self.app = web.Application()
        self.app.router.add_get("/{path:.*}", self._answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.revoked:
            return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.Event().wait()
        answers: dict[str, Any] = {
            "/api": {"versions": ["v1"]},
            "/apis": {"groups": []},
            "/api/v1": {"resources": [_resource("configmaps", "ConfigMap"), _resource("namespaces", "Namespace")]},
            "/api/v1/configmaps": {
                "metadata": {"resourceVersion": "7"},
                "apiVersion": "v1",
                "kind": "ConfigMapList",
                "items": [
                    {"metadata": {"name": "settings", "namespace": "default", "uid": "1", "resourceVersion": "7"}}
                ],
            },
        }
        if request.path in answers:
            return web.json_response(answers[request.path])
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)


def _resource(name: str, kind: str) -> dict[str, Any]:
    verbs = ["get", "list", "watch", "patch"]
    return {"name": name, "singularName": "", "kind": kind, "namespaced": name != "namespaces", "verbs": verbs}


class Host:
    """A running `program.py`, and all that it has said so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []

    @classmethod
    async def start(cls, **settings: Any) -> "Host":
        command = (sys.executable, str(PROGRAM), json.dumps(settings))
        return cls(await create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    async def until(self, text: str) -> None:
        """Read on until `text` has been said; return at once where it was already."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while text not in self.output and (line := (await self.process.stdout.readline()).decode()):
                self.lines.append(line.rstrip())
        if text in self.output:
            return
        raise AssertionError(f"ended without {text!r}:\n{self.output}")

    async def exit_code(self) -> int:
        """Read to the end of the output, then of the process."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            self.lines += (await self.process.stdout.read()).decode().splitlines()
            return await self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def before(self, first: str, second: str) -> bool:
        """Whether both were said, and in this order."""
        return 0 <= self.output.find(first) < self.output.find(second)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def eventually(url: str, accept: Callable[[int, str], bool]) -> str:
    """Ask until the answer is acceptable."""
    answer: object = None
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    status, body = await get(url)
                except aiohttp.ClientError as error:
                    answer = error
                else:
                    if accept(status, body):
                        return body
                    answer = (status, body)
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{url} never answered as expected, last: {answer}") from None
