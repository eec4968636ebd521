"""One HTTP exchange with the API server: headers and TLS of the credentials, time limits, 401, and errors by their names.

A method, a target and a JSON body flow in; parsed JSON (or an open stream) flows out, or an `ApiError` or
`ConnectionFailed`. Nothing is repeated here but the one exchange after a 401 for which new credentials were had: a
request that was not authenticated was not executed.

Short requests go through `kube/http`, which costs a third of what aiohttp does; streams go through aiohttp, and so does
everything where a proxy is in between. Streams hold their connections for minutes, so they have them without a limit.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

import aiohttp
import orjson
from yarl import URL

from konverge.errors import ApiError, ConnectionFailed, CredentialsError, Unauthorized
from konverge.kube.answers import error_of, excerpt, parse_retry_after
from konverge.kube.auth import Credentials
from konverge.kube.http import Answer, NotConnected, Origin, Pool
from konverge.kube.keepalive import kept_alive
from konverge.kube.proxy import is_loopback
from konverge.kube.retry import NeverSent
from konverge.ports import Clock

RequestObserver = Callable[[str, str, str, float], None]
"""Told of every exchange: method, host, HTTP status (or `<error>` when none came), seconds."""

JSON = "application/json"
FAILED = "<error>"
"""What stands for the status of an exchange that failed."""

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
        self._pool = Pool(limit=connections, connect_timeout=CONNECT_TIMEOUT)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=kept_alive),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER,
            middlewares=(self._once,),
        )
        self._adopted = -1
        self._headers: dict[str, str] = {}
        self._origin = Origin("", 0, None, None)
        self._authority = self._prefix = self._server = ""

    @property
    def server(self) -> str:
        """`https://host:port`, as configured."""
        return self.credentials.details.server

    async def close(self) -> None:
        """Close every connection; open streams end."""
        await self.credentials.close()
        self._pool.close()
        await self._session.close()
        await asyncio.sleep(0)  # the loop closes the sockets of what was aborted

    async def exchange(
        self, method: str, target: str, body: bytes | None = None, content_type: str = JSON, *, accept: str = ""
    ) -> Any:
        """Send one request and return the parsed answer.

        `target` is the path with its query, already quoted; `accept` asks for another form than plain JSON. Raises:
        ApiError; ConnectionFailed.
        """
        own = _own_headers(content_type if body is not None else "", accept)
        seen = self.credentials.generation
        answer = await self._ask(method, target, body, own)
        if answer.status == 401 and await self._renewed(seen):
            answer = await self._ask(method, target, body, own)
        if answer.status >= 300:
            raise self._refusal(answer, f"{method} {target}")
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            message = f"{self.server} answered {method} {target} with what is not JSON; a proxy in between? {excerpt(answer.body)}"
            raise ConnectionFailed(message) from error

    @asynccontextmanager
    async def stream(self, target: str, accept: str = "") -> AsyncIterator[aiohttp.StreamReader]:
        """Open a stream and yield the reader of its body. The connection is closed at the end, whatever the reason.

        `accept` is as in `exchange`. Raises: ApiError; ConnectionFailed.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._seconds):
                    response = await stack.enter_async_context(self._opened(target, _own_headers("", accept)))
            except TimeoutError as error:
                raise self._failed(error) from error
            yield response.content

    async def _ask(self, method: str, target: str, body: bytes | None, own: Mapping[str, str]) -> Answer:
        """One exchange, whatever the server answers. Raises: ConnectionFailed."""
        headers = await self._headers_with(own)
        if self.credentials.details.proxy:
            return await self._ask_through_proxy(method, target, body, headers)
        request = _request(method, self._prefix + target, self._authority, headers, body)
        started, code = self._clock.monotonic(), FAILED
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._pool.ask(self._origin, request)
            code = str(answer.status)
        except OSError as error:  # a TimeoutError is an OSError
            raise self._failed(error) from error
        finally:
            self._observe(method, code, started)
        return answer

    async def _ask_through_proxy(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        response = await self._send(method, target, body, headers, self._timeout)
        try:
            return await self._read(response)
        finally:
            _end(response)

    @asynccontextmanager
    async def _opened(self, target: str, own: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """The successful answer to a GET, of which the body is still to come; afterwards it is closed."""
        seen = self.credentials.generation
        response = await self._send("GET", target, None, await self._headers_with(own), self._stream_timeout)
        try:
            if response.status == 401 and await self._renewed(seen):
                _end(response)
                response = await self._send("GET", target, None, await self._headers_with(own), self._stream_timeout)
            if response.status >= 300:
                raise self._refusal(await self._read(response), f"GET {target}")
            yield response
        finally:
            _end(response)

    async def _read(self, response: aiohttp.ClientResponse) -> Answer:
        """All of an answer that is no stream. Raises: ConnectionFailed."""
        try:
            async with asyncio.timeout(self._seconds):
                content = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(error) from error
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, content)

    async def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own limits, enforced there
    ) -> aiohttp.ClientResponse:
        details = self.credentials.details
        started, code = self._clock.monotonic(), FAILED
        try:
            response = await self._session.request(
                method,
                URL(details.server + target, encoded=True),
                data=body,
                headers=headers,
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
            self._observe(method, code, started)
        return response

    def _observe(self, method: str, code: str, started: float) -> None:
        if self._observer is not None:
            self._observer(method, self._authority, code, self._clock.monotonic() - started)

    async def _once(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Name failures before aiohttp sees them: it would send GET, PUT and DELETE again by itself.

        Only `Retrier` decides that. It knows that a DELETE without a uid may hit a successor of the same name.
        """
        try:
            return await handler(request)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(error) from error

    async def _headers_with(self, own: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of a request: those of all, and its own."""
        credentials, details = self.credentials, self.credentials.details
        authorization = await credentials.authorization()
        if (
            self._adopted != credentials.generation
            or self._headers.get("Authorization", "") != authorization
            or self._server != details.server
        ):
            self._adopt(authorization)
        return {**self._headers, **own} if own else self._headers

    def _adopt(self, authorization: str) -> None:
        """Take over credentials that are new: what all requests have in common is made once."""
        credentials, details = self.credentials, self.credentials.details
        self._adopted, self._server = credentials.generation, details.server
        url = URL(details.server)
        self._authority = url.host_port_subcomponent or ""
        self._prefix = url.raw_path.rstrip("/")
        self._origin = Origin(
            url.raw_host or "", url.port or 443, credentials.ssl_context, details.tls_server_name or None
        )
        self._headers = {
            "Accept": JSON,
            "User-Agent": _USER_AGENT,
            # Compression pays on a network; over loopback it only costs both sides time.
            "Accept-Encoding": "identity" if is_loopback(details.server) else "gzip",
        }
        if authorization:
            self._headers["Authorization"] = authorization

    async def _renewed(self, seen: int) -> bool:
        try:
            return await self.credentials.renew(seen)
        except CredentialsError as error:
            # To callers it stays an answer of the server: they retry it as they do every other.
            message = f"{self.server} refused our credentials, and there are no new ones: {error}"
            raise Unauthorized(401, "Unauthorized", message) from error

    def _refusal(self, answer: Answer, asked: str) -> ApiError:
        """The error that the answer stands for."""
        retry_after = parse_retry_after(answer.headers.get("retry-after"), self._clock.now())
        return error_of(answer.status, answer.body, asked=asked, retry_after=retry_after)

    def _failed(self, error: BaseException) -> ConnectionFailed:
        """The failure with the server's name and the cause, and whether the request can have arrived."""
        if isinstance(error, NotConnected | aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return NeverSent(self._why_not_connected(error))
        if isinstance(error, TimeoutError):
            return ConnectionFailed(f"{self.server} did not answer within {self._seconds:g} s")
        return ConnectionFailed(f"the connection to {self.server} broke: {str(error) or type(error).__name__}")

    def _why_not_connected(self, error: NotConnected | aiohttp.ClientError) -> str:
        cause = error.__cause__ if isinstance(error, NotConnected) else error
        if isinstance(cause, aiohttp.ClientConnectorCertificateError):
            cause = cause.certificate_error
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "the kubeconfig's `certificate-authority` must be the CA that signed the server's certificate"
            return f"{self.server} cannot be trusted: {cause}; {hint}"
        if isinstance(cause, TimeoutError):
            return f"cannot connect to {self.server}: nobody accepted within {CONNECT_TIMEOUT:g} s"
        return f"cannot connect to {self.server}: {getattr(cause, 'os_error', cause)}"


def _request(method: str, target: str, authority: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The bytes of one request. Raises: ValueError for a header that would be two."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not fields.count("\r") == fields.count("\n") == len(headers):
        raise ValueError("a header holds a line break; look at the token of the kubeconfig")
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{fields}{length}\r\n".encode() + (body or b"")


def _own_headers(content_type: str, accept: str) -> Mapping[str, str]:
    """The headers of one request beside those of all."""
    return {name: value for name, value in (("Content-Type", content_type), ("Accept", accept)) if value}


def _end(response: aiohttp.ClientResponse) -> None:
    """End an answer and its connection at once: a goodbye by TLS waits for the server, in a loop that may end before."""
    connection = response.connection
    transport = connection.transport if connection is not None else None
    response.close()
    if transport is not None:
        transport.abort()
