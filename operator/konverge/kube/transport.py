"""One HTTP exchange with the API server: headers and TLS of the credentials, time limits, 401, and errors by their names.

A method, a target and a JSON body flow in; parsed JSON (or an open stream) flows out, or an `ApiError` or
`ConnectionFailed`. Nothing is repeated here but the one exchange after a 401 for which new credentials were had: a
request that was not authenticated was not executed.

Watches have a connection pool of their own without a limit. They hold their connections for minutes; in one pool with
the other requests, enough watches would starve them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

import aiohttp
import orjson
from yarl import URL

from konverge.errors import ConnectionFailed, CredentialsError, Unauthorized
from konverge.kube.answers import error_of, excerpt, parse_retry_after
from konverge.kube.auth import Credentials
from konverge.kube.proxy import is_loopback
from konverge.kube.retry import NeverSent
from konverge.ports import Clock

RequestObserver = Callable[[str, str, str, float], None]
"""Told of every exchange: method, host, HTTP status (or `<error>` when none came), seconds."""

JSON = "application/json"
CONNECT_TIMEOUT = 10.0
"""Seconds for the TCP connection and TLS."""

_READ_BUFFER = 2**20
_USER_AGENT = f"konverge/{version('konverge')}"


class Transport:
    """The connections to one API server. Make it inside the event loop; `close` it there."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        clock: Clock,
        observer: RequestObserver | None = None,
        request_timeout: float = 30.0,
        connections: int = 100,
    ) -> None:
        self.credentials = credentials
        self._clock = clock
        self._observer = observer
        self._seconds = request_timeout
        self._timeout = aiohttp.ClientTimeout(total=request_timeout, sock_connect=CONNECT_TIMEOUT)
        # A watch has no end of its own: the wait for its headers is limited below, the wait for events by its reader.
        self._stream_timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        self._requests = self._session(connections)
        self._streams = self._session(0)
        self._adopted = -1
        self._headers: dict[str, str] = {}

    def _session(self, connections: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER,
            middlewares=(self._once,),
        )

    @property
    def server(self) -> str:
        """`https://host:port`, as configured."""
        return self.credentials.details.server

    async def close(self) -> None:
        """Close every connection; open streams end."""
        await self.credentials.close()
        await self._requests.close()
        await self._streams.close()

    async def exchange(self, method: str, target: str, body: bytes | None = None, content_type: str = JSON) -> Any:
        """Send one request and return the parsed answer.

        `target` is the path with its query, already quoted. Raises: ApiError; ConnectionFailed.
        """
        async with self._respond(self._requests, method, target, body, content_type, self._timeout) as response:
            try:
                answer = await response.read()
            except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
                raise self._failed(error) from error
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            message = (
                f"{self.server} answered {method} {target} with what is not JSON; a proxy in between? {excerpt(answer)}"
            )
            raise ConnectionFailed(message) from error

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a stream and yield the reader of its body. The connection is closed at the end, whatever the reason.

        Raises: ApiError; ConnectionFailed.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._seconds):
                    response = await stack.enter_async_context(
                        self._respond(self._streams, "GET", target, None, "", self._stream_timeout)
                    )
            except TimeoutError as error:
                raise self._failed(error) from error
            yield response.content

    @asynccontextmanager
    async def _respond(
        self,
        session: aiohttp.ClientSession,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own limits, enforced there
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response; afterwards it is closed unless its body was read to the end."""
        seen = self.credentials.generation
        response = await self._send(session, method, target, body, content_type, timeout)
        try:
            if response.status == 401 and await self._renewed(seen):
                response.close()
                response = await self._send(session, method, target, body, content_type, timeout)
            if response.status >= 300:
                await self._refuse(response, f"{method} {target}")
            yield response
        finally:
            response.close()

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own limits, enforced there
    ) -> aiohttp.ClientResponse:
        headers = await self._current_headers()
        details = self.credentials.details
        started = self._clock.monotonic()
        code = "<error>"
        try:
            response = await session.request(
                method,
                URL(details.server + target, encoded=True),
                data=body,
                headers=headers if body is None else {**headers, "Content-Type": content_type},
                timeout=timeout,
                # A redirect would carry the token to wherever it points.
                allow_redirects=False,
                ssl=self.credentials.ssl_context or True,
                server_hostname=details.tls_server_name or None,
                proxy=details.proxy or None,
            )
            code = str(response.status)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(error) from error
        finally:
            if self._observer is not None:
                host = URL(details.server).authority
                self._observer(method, host, code, self._clock.monotonic() - started)
        return response

    async def _once(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Name failures before aiohttp sees them: it would send GET, PUT and DELETE again by itself.

        Only `Retrier` decides that. It knows that a DELETE without a uid may hit a successor of the same name.
        """
        try:
            return await handler(request)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(error) from error

    async def _current_headers(self) -> Mapping[str, str]:
        authorization = await self.credentials.authorization()
        if self._adopted != self.credentials.generation or self._headers.get("Authorization", "") != authorization:
            self._adopted = self.credentials.generation
            self._headers = {
                "Accept": JSON,
                "User-Agent": _USER_AGENT,
                # Compression pays on a network; over loopback it only costs both sides time.
                "Accept-Encoding": "identity" if is_loopback(self.server) else "gzip",
            }
            if authorization:
                self._headers["Authorization"] = authorization
        return self._headers

    async def _renewed(self, seen: int) -> bool:
        try:
            return await self.credentials.renew(seen)
        except CredentialsError as error:
            # To callers it stays an answer of the server: they retry it as they do every other.
            message = f"{self.server} refused our credentials, and there are no new ones: {error}"
            raise Unauthorized(401, "Unauthorized", message) from error

    async def _refuse(self, response: aiohttp.ClientResponse, asked: str) -> None:
        """Raises: the ApiError that the response stands for."""
        try:
            async with asyncio.timeout(self._seconds):
                body = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(error) from error
        retry_after = parse_retry_after(response.headers.get("Retry-After"), self._clock.now())
        raise error_of(response.status, body, asked=asked, retry_after=retry_after)

    def _failed(self, error: BaseException) -> ConnectionFailed:
        """The failure with the server's name and the cause, and whether the request can have arrived."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            hint = "the kubeconfig's `certificate-authority` must be the CA that signed the server's certificate"
            return NeverSent(f"{self.server} cannot be trusted: {error.certificate_error}; {hint}")
        if isinstance(error, aiohttp.ClientConnectorError):
            return NeverSent(f"cannot connect to {self.server}: {error.os_error}")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return NeverSent(f"cannot connect to {self.server}: nobody accepted within {CONNECT_TIMEOUT:g} s")
        if isinstance(error, TimeoutError):
            return ConnectionFailed(f"{self.server} did not answer within {self._seconds:g} s")
        return ConnectionFailed(f"the connection to {self.server} broke: {str(error) or type(error).__name__}")
