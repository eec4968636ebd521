"""The HTTP endpoints of the process: checks and metrics in, `/healthz`, `/readyz` and `/metrics` out.

A probe answers like those of Kubernetes: `ok`, or, with `?verbose` or on a failure, a line for each check; `/readyz/NAME`
asks one check, `?exclude=NAME` (any number of times) leaves some out. What listens may speak TLS. kopf has a liveness endpoint of its own; `/healthz` asks it, so that one port tells of both, and a stuck loop or a failing probe
of a user's kopf module is seen.
"""

import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import aiohttp
from aiohttp import web

from konverge.errors import ConfigError

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=web.StreamResponse)

Checks = Mapping[str, str | None]
"""Checks by name: None is fine, a text says what is wrong."""

# Below the one second that a kubelet waits by default, so that it gets the reason and not a timeout.
_KOPF_TIMEOUT = aiohttp.ClientTimeout(total=0.8)
_EXAMPLES = "give host:port or :port, for example 127.0.0.1:8080, [::]:8080 or :8080 (all interfaces); 0 turns it off"


class Guard(Protocol):
    """Who may come in."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Why the request is not answered; None where it is."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `host` None is every interface; port 0 is any free port."""

    host: str | None
    port: int


@dataclass(frozen=True, slots=True)
class Site:
    """Routes to serve at an address, as a person wrote it; `name` is for messages. With `tls` they are served over it."""

    name: str
    address: str
    routes: Sequence[web.RouteDef]
    tls: ssl.SSLContext | None = None


def parse_address(name: str, text: str) -> Address | None:
    """Read `host:port`, `[v6]:port` or `:port`; `0` is None, which turns it off.

    Raises: ConfigError with examples, which names the address as `name`.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    problem = None
    if not colon:
        problem = "has no port"
    elif not (port.isascii() and port.isdigit() and int(port) < 65536):
        problem = f"has a port that is not a number from 0 to 65535: {port!r}"
    elif (bracketed or ":" in bare) and not (bracketed and _is_v6(bare)):
        problem = "has an IPv6 host that is not an address in brackets"
    if problem:
        raise ConfigError(f"{name} address {text!r} {problem}; {_EXAMPLES}")
    return Address(bare or None, int(port))


def is_loopback(host: str | None) -> bool:
    """Whether only this machine can reach `host`; None is every interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _is_v6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def probe_routes(
    liveness: Callable[[], Awaitable[Checks]], readiness: Callable[[], Awaitable[Checks]]
) -> list[web.RouteDef]:
    """`/healthz` and `/readyz`: 200 while every check is fine, else 503; 404 for a check that there is not."""
    return [
        web.get(path, _probe(name, checks))
        for name, checks in (("healthz", liveness), ("readyz", readiness))
        for path in (f"/{name}", f"/{name}/{{check}}")
    ]


def metrics_routes(metrics: Callable[[], tuple[bytes, str]], guard: Guard | None = None) -> list[web.RouteDef]:
    """`/metrics`: what `metrics` returns, a body and its content type, for those whom `guard` lets in."""

    async def handler(request: web.Request) -> web.Response:
        refusal = None if guard is None else await guard.refusal(request)
        if refusal is not None:
            return closing(refusal)
        body, content_type = metrics()
        return closing(web.Response(body=body, headers={"Content-Type": content_type}))

    return [web.get("/metrics", handler)]


@asynccontextmanager
async def listening(sites: Sequence[Site]) -> AsyncIterator[None]:
    """Serve `sites` meanwhile; sites that share an address share a server.

    Raises: ConfigError when an address cannot be parsed or listened on, or is shared by a site with and one without TLS.
    """
    shared: dict[Address, list[Site]] = {}
    for site in sites:
        if address := parse_address(site.name, site.address):
            shared.setdefault(address, []).append(site)
            first = shared[address][0]
            if first.tls is not site.tls:
                raise ConfigError(
                    f"{first.name} and {site.name} cannot share the address {site.address}: only one of them speaks TLS"
                )
    async with AsyncExitStack() as stack:
        for address, together in shared.items():
            app = web.Application()
            app.add_routes([route for site in together for route in site.routes])
            # An answer that nobody waits for any more, such as a long profile, is given up.
            runner = web.AppRunner(
                app, handle_signals=False, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            names = " and ".join(site.name for site in together)
            try:
                await web.TCPSite(runner, address.host, address.port, ssl_context=together[0].tls).start()
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {names} address {together[0].address}: {error}; choose a free one, or 0 to turn it off"
                ) from error
            logger.info("serving %s on %s%s", names, together[0].address, " with TLS" if together[0].tls else "")
        yield


async def ask_kopf(url: str) -> str | None:
    """Ask kopf's liveness endpoint; None when it is fine, else what is wrong."""
    connector = aiohttp.TCPConnector(force_close=True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_KOPF_TIMEOUT) as session,
            session.get(url) as response,
        ):
            return None if response.ok else f"a probe failed (HTTP {response.status}); the log says which and why"
    except TimeoutError:
        return f"no answer in {_KOPF_TIMEOUT.total} s: a probe is stuck or being retried"
    except aiohttp.ClientError as error:
        return f"no answer: {error}"


def _probe(name: str, checks: Callable[[], Awaitable[Checks]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        try:
            results = await checks()
        except Exception as error:
            logger.exception("the checks of /%s raised", name)
            results = {name: f"{type(error).__name__}: {error}"}
        wanted, excluded = request.match_info.get("check"), request.query.getall("exclude", [])
        if wanted is not None and wanted not in results:
            text = f"there is no check {wanted!r}; there are: {', '.join(results)}\n"
            return closing(web.Response(text=text, status=404))
        results = {check: why for check, why in results.items() if check not in excluded and wanted in {None, check}}
        healthy = all(problem is None for problem in results.values())
        if healthy and "verbose" not in request.query:
            return closing(web.Response(text="ok"))
        lines = [f"[+]{check} ok" if why is None else f"[-]{check} failed: {why}" for check, why in results.items()]
        lines.append(f"{name} check {'passed' if healthy else 'failed'}\n")
        return closing(web.Response(text="\n".join(lines), status=200 if healthy else 503))

    return handler


def closing(response: R) -> R:
    """No keep-alive: kopf, when it stops, waits for every task in the loop, those of idle connections too."""
    response.force_close()
    return response
