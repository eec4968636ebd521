"""`/debug`: what the operator and its process are doing, as JSON, for those who may look.

Off unless an address is given. Without a token file only this machine may ask: the address must be a loopback one, and
so must be the name in the request (a web page could make a browser ask for another). With one, every request must bear
the token.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

import orjson
from aiohttp import web

from konverge.errors import ConfigError, KonvergeError
from konverge.host.endpoints import Site, closing, is_loopback, parse_address
from konverge.host.profiling import MAX_SECONDS, Busy, CpuProfiler, HeapWatch, tasks

logger = logging.getLogger(__name__)

DEFAULT_SECONDS: Final = 10.0
INDEX: Final = """\
/debug/queues[?controller=NAME][&limit=N]   what is queued, delayed and processing
/debug/caches                               what is cached, and how it is followed
/debug/explain/KIND/NAMESPACE/NAME          all that is known of an object, or of a pod's scheduling (KIND/NAME: cluster-scoped)
/debug/metrics                              the metrics page, for those who look only here
/debug/tasks                                the tasks of the event loop, and where each waits
/debug/profile[?seconds=N]                  CPU profile of the event loop as collapsed stacks
/debug/heap[?stop]                          what grew since the last call; tracing is on from the first one
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Inspector(Protocol):
    """What knows the operator. Each answer is plain data; a KonvergeError means that there is no such thing."""

    def queues(self, controller: str = "", limit: int = 1000) -> Any:
        """Each queue, or the one of a controller, with `limit` keys of each place in it."""
        ...

    def caches(self) -> Any:
        """Each informer."""
        ...

    def explain(self, kind: str, namespace: str, name: str) -> Any:
        """All that is known of one object."""
        ...


def debug_site(
    address: str,
    token_file: Path | None,
    inspector: Callable[[], Inspector | None],
    metrics: Callable[[], tuple[bytes, str]],
) -> Site:
    """The site of `/debug`. `inspector` gives None as long as there is nothing to look into; `metrics` gives a page of
    metrics and its content type.

    Raises: ConfigError when others than this machine could ask without a token, or the token file is of no use.
    """
    parsed = parse_address("debug", address)
    if token_file is not None:
        _token(token_file)
    elif parsed is not None and not is_loopback(parsed.host):
        raise ConfigError(
            f"debug address {address!r} can be reached from other machines, and there is no token: "
            "listen on 127.0.0.1, or require a token with --debug-token-file"
        )
    return Site("debug", address, _Endpoints(inspector, metrics, token_file).routes())


class _Endpoints:
    def __init__(
        self,
        inspector: Callable[[], Inspector | None],
        metrics: Callable[[], tuple[bytes, str]],
        token_file: Path | None,
    ) -> None:
        self._inspector, self._metrics_page, self._token_file = inspector, metrics, token_file
        self._cpu, self._heap = CpuProfiler(), HeapWatch()

    def routes(self) -> list[web.RouteDef]:
        handlers = {
            "/debug": self._index,
            "/debug/queues": self._queues,
            "/debug/caches": self._caches,
            "/debug/explain/{kind}/{namespace}/{name}": self._explain,
            "/debug/explain/{kind}/{name}": self._explain,
            "/debug/metrics": self._metrics,
            "/debug/tasks": self._tasks,
            "/debug/profile": self._profile,
            "/debug/heap": self._growth,
        }
        return [web.get(path, self._guarded(handler), allow_head=False) for path, handler in handlers.items()]

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            refusal = self._refusal(request)
            if refusal is not None:
                return closing(refusal)
            try:
                response = await handler(request)
            except Busy as error:
                response = _text(409, str(error))
            except KonvergeError as error:
                response = _text(404, str(error))
            except ValueError as error:
                response = _text(400, str(error))
            return closing(response)

        return guarded

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Why the request is not answered; None where it is."""
        if self._token_file is None:
            host = request.url.host or ""
            return None if is_loopback(host) else _text(403, f"ask for a loopback name, not for {host!r}")
        try:
            wanted = _token(self._token_file)
        except ConfigError as error:
            logger.error("%s", error)  # noqa: TRY400 - the message says what to do
            return _text(503, "the token file cannot be used; the log says why")
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted):
            return None
        refusal = _text(401, "a bearer token is needed: the content of the file named by --debug-token-file")
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return refusal

    def _inspected(self) -> Inspector:
        inspector = self._inspector()
        if inspector is None:
            raise KonvergeError("the operator has not started yet")
        return inspector

    async def _index(self, _: web.Request) -> web.Response:
        return _text(200, INDEX)

    async def _queues(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", 1000, 100_000)
        return _json({"queues": self._inspected().queues(request.query.get("controller", ""), int(limit))})

    async def _caches(self, _: web.Request) -> web.Response:
        return _json({"caches": self._inspected().caches()})

    async def _explain(self, request: web.Request) -> web.Response:
        wanted = request.match_info
        return _json(self._inspected().explain(wanted["kind"], wanted.get("namespace", ""), wanted["name"]))

    async def _metrics(self, _: web.Request) -> web.Response:
        body, content_type = self._metrics_page()
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _tasks(self, _: web.Request) -> web.Response:
        return _json({"tasks": tasks()})

    async def _profile(self, request: web.Request) -> web.Response:
        return _text(200, await self._cpu.profile(_number(request, "seconds", DEFAULT_SECONDS, MAX_SECONDS)))

    async def _growth(self, request: web.Request) -> web.Response:
        if "stop" in request.query:
            self._heap.stop()
            return _json({"tracing": "off"})
        return _json(await self._heap.growth())


def _number(request: web.Request, name: str, default: float, most: float) -> float:
    """A positive number of the query. Raises: ValueError that names it and its bound."""
    text = request.query.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise ValueError(f"{name} must be a number above 0 and at most {most:g}, not {text!r}")
    return value


def _token(path: Path) -> bytes:
    """The token, read anew each time, so that it can be rotated. Raises: ConfigError."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"debug token file {path}: {error.strerror or error}") from error
    if not token:
        raise ConfigError(f"debug token file {path} is empty; write a secret into it")
    return token


def _json(value: Any) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text if text.endswith("\n") else f"{text}\n")
