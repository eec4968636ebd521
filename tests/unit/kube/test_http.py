"""Short requests over kept connections: how answers are cut out of a stream, and which connections are used again."""

import asyncio
import gzip
import itertools
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from konverge.kube.http import MAX_HEAD, Answer, AnswerReader, BrokenAnswer, NotConnected, Origin, Pool
from konverge.testing.certificates import issue

OK = b"HTTP/1.1 200 OK\r\n"
ANSWER = OK + b"Content-Length: 2\r\n\r\n{}"


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"


@given(parts=st.lists(st.binary(min_size=1, max_size=60), max_size=8), cuts=st.lists(st.integers(0, 999), max_size=9))
@pytest.mark.parametrize("form", ["length", "chunked"])
def test_an_answer_is_the_same_however_it_is_cut(form: str, parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(parts)
    if form == "length":
        sent = OK + b"Content-Length: %d\r\nX-One: a: b \r\n\r\n" % len(body) + body
    else:
        sent = OK + b"Transfer-Encoding: chunked\r\nX-One: a: b \r\n\r\n" + chunked(parts)
    reader = AnswerReader()
    answers = [reader.feed(piece) for piece in pieces_of(sent, cuts)]
    whole = [answer for answer in answers if answer is not None]
    assert [(answer.status, answer.headers["x-one"], answer.body) for answer in whole] == [(200, "a: b", body)]
    assert reader.kept


def test_an_interim_answer_only_announces_one() -> None:
    assert AnswerReader().feed(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ANSWER) == Answer(
        200, {"content-length": "2"}, b"{}"
    )


def test_an_answer_without_a_body_needs_no_length() -> None:
    answer = AnswerReader().feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (answer and answer.status, answer and answer.body) == (204, b"")


def test_a_gzip_body_is_unpacked() -> None:
    packed = gzip.compress(b"{}" * 99)
    answer = AnswerReader().feed(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
    assert answer is not None
    assert answer.body == b"{}" * 99


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = AnswerReader()
    assert reader.feed(OK + b"\r\n{") is None
    assert reader.feed(b"}") is None
    answer = reader.end()
    assert answer is not None
    assert answer.body == b"{}"


@pytest.mark.parametrize(
    "sent", [b"", OK, OK + b"Content-Length: 9\r\n\r\n{", OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
)
def test_what_is_cut_short_is_no_answer(sent: bytes) -> None:
    reader = AnswerReader()
    assert reader.feed(sent) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        OK + b"no header\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"a" * (MAX_HEAD + 1),
    ],
)
def test_what_is_not_http_is_refused(sent: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        AnswerReader().feed(sent)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (ANSWER, True),
        (ANSWER + b"more", False),
        (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_a_connection_is_kept_only_after_a_clean_end(sent: bytes, kept: bool) -> None:
    reader = AnswerReader()
    assert reader.feed(sent) is not None
    assert reader.kept is kept


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class Server:
    """Counts connections, and answers each request by `behave`."""

    def __init__(self) -> None:
        self.connections = self.ended = 0
        self.changed = asyncio.Event()
        self.behave: Behaviour = lambda _, writer: writer.write(ANSWER)
        self.origin = Origin("127.0.0.1", 0, None, None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.behave(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()
            self.ended += 1
            self.changed.set()

    async def all_ended(self) -> None:
        while self.ended < self.connections:
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def served(context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, Pool]]:
    server, pool = Server(), Pool(limit=4, connect_timeout=5)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.origin = Origin("127.0.0.1", listener.sockets[0].getsockname()[1], None, None)
    try:
        yield server, pool
    finally:
        pool.close()
        await server.all_ended()
        listener.close()
        await listener.wait_closed()


async def test_one_connection_carries_many_requests() -> None:
    async with served() as (server, pool):
        for _ in range(5):
            assert (await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")).body == b"{}"
        assert server.connections == 1


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_connections_are_secured_and_kept_on_either_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    issued = issue(tmp_path)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(issued.certificate("kube-apiserver"), issued.key("kube-apiserver"))
    ours = ssl.create_default_context(cafile=str(issued.authority))

    async def ask_twice() -> None:
        async with served(theirs) as (server, pool):
            origin = server.origin._replace(context=ours)
            for _ in range(2):
                assert (await pool.ask(origin, b"GET / HTTP/1.1\r\n\r\n")).body == b"{}"
            assert server.connections == 1
            with pytest.raises(NotConnected, match="certificate"):
                await pool.ask(origin._replace(server_name="somebody.else"), b"GET / HTTP/1.1\r\n\r\n")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(ask_twice())


async def test_requests_at_once_have_connections_of_their_own_up_to_the_limit() -> None:
    async with served() as (server, pool):
        await asyncio.gather(*(pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n") for _ in range(20)))
        assert 1 <= server.connections <= 4


async def test_another_origin_gets_another_connection() -> None:
    async with served() as (server, pool):
        await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")
        await pool.ask(server.origin._replace(server_name="renewed"), b"GET / HTTP/1.1\r\n\r\n")
        assert server.connections == 2


async def test_what_comes_unasked_ends_the_connection() -> None:
    async with served() as (server, pool):
        server.behave = lambda _, writer: writer.write(ANSWER + ANSWER)
        for _ in range(2):
            assert (await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")).body == b"{}"
        assert server.connections == 2


async def test_a_connection_that_breaks_fails_its_request_and_no_other() -> None:
    async with served() as (server, pool):
        server.behave = lambda _, writer: writer.transport.abort()
        with pytest.raises(BrokenAnswer):
            await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")
        server.behave = lambda _, writer: writer.write(ANSWER)
        assert (await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")).status == 200


async def test_an_answer_that_is_cut_short_fails() -> None:
    def cut_short(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER[:-1])
        writer.close()

    async with served() as (server, pool):
        server.behave = cut_short
        with pytest.raises(BrokenAnswer):
            await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")


async def test_a_cancelled_request_takes_its_connection_along() -> None:
    async with served() as (server, pool):
        asked = asyncio.Event()
        server.behave = lambda *_: asked.set()
        request = asyncio.create_task(pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n"))
        await asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        server.behave = lambda _, writer: writer.write(ANSWER)
        assert (await pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n")).status == 200
        assert server.connections == 2


async def test_closing_fails_what_is_under_way() -> None:
    async with served() as (server, pool):
        asked = asyncio.Event()
        server.behave = lambda *_: asked.set()
        request = asyncio.create_task(pool.ask(server.origin, b"GET / HTTP/1.1\r\n\r\n"))
        await asked.wait()
        pool.close()
        with pytest.raises(BrokenAnswer):
            await request


async def test_where_nobody_listens_nothing_was_sent() -> None:
    async with served() as (server, pool):
        origin = server.origin
    with pytest.raises(NotConnected):
        await pool.ask(origin, b"GET / HTTP/1.1\r\n\r\n")
