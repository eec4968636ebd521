"""A watch stream read as events: bytes in chunks flow in, `WatchEvent`s flow out, faults flow out as errors.

The server sends one JSON object a line. A line has no longest length (one object may have 1.5 MB in etcd and more as
JSON), so lines are cut here and not by the HTTP library's reader, which refuses long ones. The stream may end in four
ways: cleanly between two lines (the server's timeout), with an ERROR event, cut in the middle of a line, or by falling
silent without an end (a peer that vanished behind a load balancer). Only the first is no error.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Protocol

import aiohttp
import orjson

from konverge.errors import ConnectionFailed
from konverge.kube.answers import error_of_status, excerpt
from konverge.ports import WatchEvent

_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class Chunks(Protocol):
    """What is read of an HTTP answer: `aiohttp.StreamReader` fits."""

    async def readany(self) -> bytes:
        """The next bytes; empty at the end."""
        ...


class LineSplitter:
    """Cuts chunks at newlines. The pieces of an unfinished line are joined once, so that long lines cost linear time."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines, without newline and without empty ones, that `chunk` completes."""
        head, *tail = chunk.split(b"\n")
        self._pieces.append(head)
        for piece in tail:
            if line := b"".join(self._pieces):
                yield line
            self._pieces = [piece]

    @property
    def rest(self) -> bytes:
        """The line that has begun and not ended."""
        return b"".join(self._pieces)


async def read_events(chunks: Chunks, *, idle: float, asked: str) -> AsyncGenerator[WatchEvent, None]:
    """The events of a stream until the server ends it.

    `idle` is the longest silence in seconds; `asked` names the request in errors.

    Raises: Gone and other ApiErrors for an ERROR event; ConnectionFailed for a stream that is cut, silent or no watch.
    """
    splitter = LineSplitter()
    while chunk := await _next_chunk(chunks, idle, asked):
        for line in splitter.feed(chunk):
            yield _event_of(line, asked)
    if rest := splitter.rest:
        message = f"{asked}: the stream was cut in the middle of an event ({len(rest)} bytes of it had come)"
        raise ConnectionFailed(message)


async def _next_chunk(chunks: Chunks, idle: float, asked: str) -> bytes:
    try:
        async with asyncio.timeout(idle):
            return await chunks.readany()
    except TimeoutError as error:
        message = (
            f"{asked}: nothing came for {idle:g} s, not even the end of the stream; the connection is taken for dead"
        )
        raise ConnectionFailed(message) from error
    except (aiohttp.ClientError, OSError) as error:
        message = f"{asked}: the stream broke: {str(error) or type(error).__name__}"
        raise ConnectionFailed(message) from error


def _event_of(line: bytes, asked: str) -> WatchEvent:
    try:
        event = orjson.loads(line)
        kind, obj = event["type"], event["object"]
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        message = f"{asked}: a line of the stream is not a watch event: {excerpt(line)}"
        raise ConnectionFailed(message) from error
    if kind == "ERROR":
        raise error_of_status(obj, 500)
    if kind not in _TYPES:
        message = f"{asked}: unknown watch event type {kind!r}"
        raise ConnectionFailed(message)
    return WatchEvent(kind, obj)
