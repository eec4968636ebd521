"""Addresses, the format of the probes, and the listening."""

import asyncio
import ssl

import aiohttp
import pytest
from aiohttp import web

from konverge.errors import ConfigError
from konverge.host.endpoints import (
    Address,
    Checks,
    Site,
    ask_kopf,
    listening,
    metrics_routes,
    parse_address,
    probe_routes,
)
from tests.unit.host.running import free_port, get


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8081", Address(None, 8081)),
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        ("localhost:0", Address("localhost", 0)),
        ("[::]:8081", Address("::", 8081)),
        ("[fe80::1]:65535", Address("fe80::1", 65535)),
        ("0", None),
    ],
)
def test_an_address_is_host_and_port_and_0_is_none(text: str, address: Address | None) -> None:
    assert parse_address("probe", text) == address


@pytest.mark.parametrize(
    "text", ["", "8080", "host", ":", "host:", ":http", ":65536", ":-1", "::1:80", "[]:80", "[a]:80"]
)
def test_a_bad_address_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics address .*for example 127\.0\.0\.1:8080") as caught:
        parse_address("metrics", text)
    assert repr(text) in str(caught.value)


def probes(port: int, *, live: Checks | None = None, ready: Checks | None = None) -> Site:
    async def liveness() -> Checks:
        return live or {}

    async def readiness() -> Checks:
        return ready or {}

    return Site("probe", f"127.0.0.1:{port}", probe_routes(liveness, readiness))


async def test_healthy_probes_say_ok_and_more_when_asked() -> None:
    port = free_port()
    async with listening([probes(port, live={"loop": None}, ready={"cache": None, "lease": None})]):
        assert await get(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
        assert await get(f"http://127.0.0.1:{port}/readyz?verbose") == (
            200,
            "[+]cache ok\n[+]lease ok\nreadyz check passed\n",
        )


async def test_a_failing_probe_is_503_and_names_the_checks_without_being_asked() -> None:
    port = free_port()
    async with listening([probes(port, ready={"cache": "pods are not listed", "lease": None})]):
        assert await get(f"http://127.0.0.1:{port}/readyz") == (
            503,
            "[-]cache failed: pods are not listed\n[+]lease ok\nreadyz check failed\n",
        )
        assert await get(f"http://127.0.0.1:{port}/healthz") == (200, "ok")


async def test_checks_that_raise_are_a_failing_probe() -> None:
    async def broken() -> Checks:
        raise KeyError("cache")

    port = free_port()
    async with listening([Site("probe", f"127.0.0.1:{port}", probe_routes(broken, broken))]):
        status, body = await get(f"http://127.0.0.1:{port}/readyz")
    assert (status, body) == (503, "[-]readyz failed: KeyError: 'cache'\nreadyz check failed\n")


async def test_one_address_can_serve_probes_and_metrics_and_keeps_no_connection_open() -> None:
    port = free_port()
    metrics = metrics_routes(lambda: (b"up 1\n", "text/plain; version=0.0.4; charset=utf-8"))
    async with (
        listening([probes(port), Site("metrics", f"127.0.0.1:{port}", metrics)]),
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            assert await response.read() == b"up 1\n"
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert response.headers["Connection"] == "close"
        assert (await get(f"http://127.0.0.1:{port}/readyz"))[0] == 200


async def test_nothing_listens_for_an_address_that_is_turned_off_nor_afterwards() -> None:
    port = free_port()
    async with listening([Site("probe", "0", []), probes(port)]):
        assert (await get(f"http://127.0.0.1:{port}/healthz"))[0] == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(f"http://127.0.0.1:{port}/healthz")


async def test_an_address_in_use_is_refused_by_name() -> None:
    port = free_port()
    async with listening([probes(port)]):
        with pytest.raises(
            ConfigError, match=f"cannot listen on metrics address localhost:{port}: .*choose a free one"
        ):
            async with listening([Site("metrics", f"localhost:{port}", [])]):
                pass


async def test_kopf_is_fine_when_it_answers_in_time_with_success() -> None:
    async def fine(_: web.Request) -> web.Response:
        return web.json_response({})

    async def failing(_: web.Request) -> web.Response:
        return web.Response(status=500)

    async def stuck(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    port = free_port()
    routes = [web.get("/fine", fine), web.get("/failing", failing), web.get("/stuck", stuck)]
    url = f"http://127.0.0.1:{port}"
    async with listening([Site("kopf", f"127.0.0.1:{port}", routes)]):
        assert await ask_kopf(f"{url}/fine") is None
        assert await ask_kopf(f"{url}/failing") == "a probe failed (HTTP 500); the log says which and why"
        assert await ask_kopf(f"{url}/stuck") == "no answer in 0.8 s: a probe is stuck or being retried"
    assert str(await ask_kopf(f"{url}/fine")).startswith("no answer: ")


async def test_one_check_can_be_asked_alone_and_some_can_be_left_out() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with listening([probes(port, ready={"cache": "pods are not listed", "lease": None, "hooks": "absent"})]):
        assert await get(f"{url}/readyz/lease") == (200, "ok")
        assert await get(f"{url}/readyz/cache") == (
            503,
            "[-]cache failed: pods are not listed\nreadyz check failed\n",
        )
        assert await get(f"{url}/readyz?exclude=cache&exclude=hooks") == (200, "ok")
        assert (await get(f"{url}/readyz?exclude=cache"))[1] == (
            "[+]lease ok\n[-]hooks failed: absent\nreadyz check failed\n"
        )
        assert await get(f"{url}/readyz/queue") == (404, "there is no check 'queue'; there are: cache, lease, hooks\n")


async def test_a_site_with_tls_cannot_share_the_address_of_one_without() -> None:
    port = free_port()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(
        ConfigError, match=r"probe and metrics cannot share the address .*: only one of them speaks TLS"
    ):
        async with listening([probes(port), Site("metrics", f"127.0.0.1:{port}", [], tls)]):
            pass
