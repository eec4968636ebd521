"""`/debug`: what it answers, and to whom."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from konverge.errors import ConfigError, KonvergeError
from konverge.host.debugging import debug_site
from konverge.host.endpoints import listening
from tests.unit.host.running import free_port


class Known:
    """An inspector that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def queues(self, controller: str = "", limit: int = 1000) -> Any:
        self.asked.append((controller, limit))
        return [{"controller": "gadget"}]

    def caches(self) -> Any:
        return [{"resource": "gadgets"}]

    def explain(self, kind: str, namespace: str, name: str) -> Any:
        if kind != "gadget":
            raise KonvergeError(f"no controller reconciles {kind!r}; known: gadget")
        return {"namespace": namespace, "name": name}


class Debug:
    """A served `/debug`."""

    def __init__(self, port: int, inspector: Known) -> None:
        self.port, self.inspector = port, inspector

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.port}/debug{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
            return response.status, await response.text()


@asynccontextmanager
async def debugging(token_file: Path | None = None, *, started: bool = True) -> AsyncIterator[Debug]:
    inspector, port = Known(), free_port()
    site = debug_site(
        f"127.0.0.1:{port}", token_file, lambda: inspector if started else None, lambda: (b"up 1\n", "text/plain")
    )
    async with listening([site]):
        yield Debug(port, inspector)


async def test_it_answers_what_the_inspector_knows() -> None:
    async with debugging() as debug:
        status, body = await debug.get("/queues?controller=gadget&limit=5")
        assert (status, json.loads(body)) == (200, {"queues": [{"controller": "gadget"}]})
        assert debug.inspector.asked == [("gadget", 5)]
        assert json.loads((await debug.get("/caches"))[1]) == {"caches": [{"resource": "gadgets"}]}
        assert json.loads((await debug.get("/explain/gadget/team/one"))[1]) == {"namespace": "team", "name": "one"}
        assert json.loads((await debug.get("/explain/gadget/one"))[1]) == {"namespace": "", "name": "one"}
        assert await debug.get("/metrics") == (200, "up 1\n")


async def test_its_index_lists_all_that_there_is() -> None:
    async with debugging() as debug:
        status, index = await debug.get("")
        assert status == 200
        for line in index.splitlines():
            path = line.split()[0].partition("[")[0].removeprefix("/debug").replace("KIND", "gadget")
            assert (await debug.get(f"{path}?seconds=0.01"))[0] == 200


async def test_what_is_not_known_is_404_with_what_is() -> None:
    async with debugging() as debug:
        assert await debug.get("/explain/lamp/team/one") == (404, "no controller reconciles 'lamp'; known: gadget\n")
    async with debugging(started=False) as debug:
        assert await debug.get("/queues") == (404, "the operator has not started yet\n")


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "limit=1000000"])
async def test_a_number_out_of_bounds_is_refused_by_name(query: str) -> None:
    async with debugging() as debug:
        status, body = await debug.get(f"/queues?{query}")
    assert status == 400
    assert "limit must be a number above 0 and at most 100000" in body


async def test_a_name_that_is_not_this_machines_is_refused_though_it_leads_here() -> None:
    """As a web page makes a browser ask, whose name was pointed to 127.0.0.1 (DNS rebinding)."""
    async with debugging() as debug:
        status, body = await debug.get("/queues", {"Host": "evil.example"})
        assert (status, body) == (403, "ask for a loopback name, not for 'evil.example'\n")
        assert (await debug.get("/queues", {"Host": f"localhost:{debug.port}"}))[0] == 200


@pytest.mark.parametrize("address", [":8082", "0.0.0.0:8082", "[::]:8082", "10.1.2.3:8082", "example.com:8082"])
def test_an_address_that_others_reach_needs_a_token(address: str, tmp_path: Path) -> None:
    def site(token: Path | None) -> None:
        debug_site(address, token, lambda: None, lambda: (b"", ""))

    with pytest.raises(ConfigError, match=r"other machines, and there is no token: .*--debug-token-file"):
        site(None)
    (tmp_path / "token").write_text("s3cret\n")
    site(tmp_path / "token")


async def test_with_a_token_every_request_must_bear_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    async with debugging(token) as debug:
        for wrong in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic s3cret"}):
            assert (await debug.get("/queues", wrong))[0] == 401
        assert (await debug.get("/queues", {"Authorization": "Bearer s3cret"}))[0] == 200
        token.write_text("rotated")
        assert (await debug.get("/queues", {"Authorization": "Bearer s3cret"}))[0] == 401
        assert (await debug.get("/queues", {"Authorization": "Bearer rotated"}))[0] == 200


async def test_without_its_token_file_nobody_gets_in(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    async with debugging(token) as debug:
        for spoil in (token.unlink, lambda: token.write_text("\n")):
            spoil()
            assert (await debug.get("/queues", {"Authorization": "Bearer "}))[0] == 503


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (" \n", "is empty; write a secret into it")])
def test_a_token_file_of_no_use_is_refused_at_the_start(content: str | None, said: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    with pytest.raises(ConfigError, match=said):
        debug_site("127.0.0.1:0", token, lambda: None, lambda: (b"", ""))


async def test_only_one_cpu_profile_is_taken_at_once() -> None:
    async with debugging() as debug:
        first = asyncio.create_task(debug.get("/profile?seconds=60"))
        while "CpuProfiler.profile" not in (await debug.get("/tasks"))[1]:
            assert not first.done()
        assert (await debug.get("/profile?seconds=0.01"))[0] == 409
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        while (await debug.get("/profile?seconds=0.01"))[0] != 200:  # the one who went away does not hold it
            pass


async def test_the_heap_is_traced_from_the_first_call_until_it_is_stopped() -> None:
    async with debugging() as debug:
        assert json.loads((await debug.get("/heap"))[1])["tracing"].startswith("just started")
        assert json.loads((await debug.get("/heap"))[1])["tracing"] == "on"
        assert json.loads((await debug.get("/heap?stop"))[1]) == {"tracing": "off"}
        assert json.loads((await debug.get("/heap"))[1])["tracing"].startswith("just started")
        await debug.get("/heap?stop")
