"""Short requests over kept connections: bytes of an HTTP/1.1 request flow in, the status, headers and body of its answer flow out.

An operator's time goes into requests of a kilobyte or two. A general HTTP library spends three times as long on one of
them as on all else that a reconcile does; what is left out here (redirects, cookies, proxies, uploads, streams) is why
this is small. One connection carries one request at a time, and is kept only when its answer ended where it had to.
"""

import asyncio
import re
import ssl
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

IDLE_SECONDS: Final = 15.0
"""A connection that lay idle for longer is not used again: what stands in between may have forgotten it by then."""

MAX_HEAD: Final = 2**16
"""Bytes that the headers of an answer may have, and a line between its chunks."""

_HEAD_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_BODYLESS: Final = frozenset({204, 304})
_GZIP: Final = 16 + zlib.MAX_WBITS


class NotConnected(OSError):
    """No connection was made, so nothing was sent. The cause is the error that says why."""


class BrokenAnswer(OSError):
    """The connection ended or brought what is not HTTP. The request may have been executed."""


class Origin(NamedTuple):
    """Where a connection leads, and how it is secured: no context means plain text."""

    host: str
    port: int
    context: ssl.SSLContext | None
    server_name: str | None
    """The name that the certificate must have, where it is not the host's."""


class Answer(NamedTuple):
    """One answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Head(NamedTuple):
    status: int
    headers: dict[str, str]
    kept: bool
    length: int | None
    chunked: bool


class AnswerReader:
    """Cuts answers out of what a connection brings, in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._chunks: list[bytes] = []
        self._chunk_left = 0
        self.kept = True
        """Whether the connection may carry another request after the answers so far."""

    def feed(self, data: bytes) -> Answer | None:
        """Take more bytes; the answer once it is whole. Raises: BrokenAnswer."""
        self._buffer += data
        while self._head is None:
            end = self._buffer.find(_HEAD_END)
            if end < 0:
                self._limit()
                return None
            head = _parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + len(_HEAD_END)]
            if head.status >= 200:  # what comes before it only announces it
                self._head = head
        if self._head.chunked:
            return self._take_chunks(self._head)
        length = self._head.length
        if length is None or len(self._buffer) < length:
            return None
        return self._whole(self._head, length, bytes(self._buffer[:length]))

    def end(self) -> Answer | None:
        """The connection ended: the answer, where it is one without a length; None where something is missing."""
        head = self._head
        if head is None or head.chunked or head.length is not None:
            return None
        return self._whole(head, len(self._buffer), bytes(self._buffer))

    def _take_chunks(self, head: _Head) -> Answer | None:
        while True:
            if self._chunk_left:
                if len(self._buffer) < self._chunk_left + 2:
                    return None
                self._chunks.append(bytes(self._buffer[: self._chunk_left]))
                if self._buffer[self._chunk_left : self._chunk_left + 2] != b"\r\n":
                    raise BrokenAnswer("a chunk is longer than it says")
                del self._buffer[: self._chunk_left + 2]
                self._chunk_left = 0
            end = self._buffer.find(b"\r\n")
            if end < 0:
                self._limit()
                return None
            size = _CHUNK_SIZE.fullmatch(self._buffer, 0, end)
            if size is None:
                raise BrokenAnswer(f"no size of a chunk: {bytes(self._buffer[:end][:40])!r}")
            self._chunk_left = int(size[1], 16)
            if not self._chunk_left:
                trailers = self._buffer.find(_HEAD_END, end)
                if trailers < 0:
                    self._limit()
                    return None
                return self._whole(head, trailers + len(_HEAD_END), b"".join(self._chunks))
            del self._buffer[: end + 2]

    def _whole(self, head: _Head, taken: int, body: bytes) -> Answer:
        del self._buffer[:taken]
        # What comes unasked belongs to nobody: an answer that does not end where it says cannot be followed by another.
        self.kept = head.kept and not self._buffer
        self._head, self._chunks = None, []
        if body and head.headers.get("content-encoding") == "gzip":
            try:
                body = zlib.decompress(body, _GZIP)
            except zlib.error as error:
                raise BrokenAnswer(f"a body that is no gzip: {error}") from error
        return Answer(head.status, head.headers, body)

    def _limit(self) -> None:
        if len(self._buffer) > MAX_HEAD:
            raise BrokenAnswer(f"more than {MAX_HEAD} bytes of headers")


def _parse_head(head: bytes) -> _Head:
    first, *lines = head.split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None:
        raise BrokenAnswer(f"not HTTP/1.1: {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise BrokenAnswer(f"not a header: {line[:40]!r}")
        headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()
    status = int(status_line[2])
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length")
    if status in _BODYLESS:
        chunked, length = False, "0"
    if length is not None and not length.isdecimal():
        raise BrokenAnswer(f"not a length: {length[:40]!r}")
    connection = headers.get("connection", "").lower()
    kept = "close" not in connection and (status_line[1] == b"1" or "keep-alive" in connection)
    return _Head(status, headers, kept, None if length is None else int(length), chunked)


class _Connection(asyncio.Protocol):
    """One connection: asked, it answers, and is then free for the next request or closed."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.free_since = 0.0
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._reader.kept and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Send `request` and wait for its answer. Raises: BrokenAnswer."""
        if self._transport is None or self._transport.is_closing():
            raise BrokenAnswer("closed by the server")
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is one in all but its base

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # nobody asked
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except BrokenAnswer as error:
            self._fail(error)
        else:
            self._succeed(answer)

    def eof_received(self) -> None:
        try:
            self._succeed(self._reader.end())
        except BrokenAnswer as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(BrokenAnswer(str(exc) if exc else "closed by the server"))

    def _succeed(self, answer: Answer | None) -> None:
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, error: BrokenAnswer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()


class Pool:
    """Kept connections, `limit` at most. Make it inside the event loop; `close` it there. Times are in seconds."""

    def __init__(self, *, limit: int, connect_timeout: float) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._connect_timeout = connect_timeout
        self._free: list[_Connection] = []
        self._busy: set[_Connection] = set()

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        for connection in [*self._free, *self._busy]:
            connection.close()
        self._free.clear()

    async def ask(self, origin: Origin, request: bytes) -> Answer:
        """Send `request` on a kept connection to `origin` or on a new one. Raises: NotConnected; BrokenAnswer."""
        async with self._slots:
            connection = self._kept(origin) or await self._open(origin)
            self._busy.add(connection)
            try:
                answer = await connection.ask(request)
            except BaseException:
                connection.close()
                raise
            finally:
                self._busy.discard(connection)
            if connection.usable:
                connection.free_since = asyncio.get_running_loop().time()
                self._free.append(connection)
            else:
                connection.close()
            return answer

    def _kept(self, origin: Origin) -> _Connection | None:
        """The connection that was used last: so the others grow old, and none is kept that is not needed."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._free:
            connection = self._free.pop()
            if connection.usable and connection.origin == origin and connection.free_since >= oldest:
                return connection
            connection.close()
        return None

    async def _open(self, origin: Origin) -> _Connection:
        loop = asyncio.get_running_loop()
        server_name = (origin.server_name or origin.host) if origin.context else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: _Connection(origin),
                    origin.host,
                    origin.port,
                    ssl=origin.context,
                    server_hostname=server_name,
                )
        except OSError as error:  # TimeoutError and the errors of ssl are such too
            raise NotConnected(str(error)) from error
        return connection
