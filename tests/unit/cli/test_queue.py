"""`konverge queue`, and what all three commands say where no operator answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from konverge.cli.endpoint import DebugEndpoint, EndpointUnreachable, NotThere
from konverge.cli.queue import queue, rows_of, summary
from konverge.cli.text import duration, size
from konverge.errors import ConfigError
from konverge.testing.loopback import free_ports

QUEUE = {
    "controller": "gadget",
    "workers": 4,
    "depth": 1,
    "delayedTotal": 9,
    "processingTotal": 1,
    "processing": [{"key": "team/busy", "seconds": 75.0, "failures": 0}],
    "ready": [{"key": "team/next", "priority": -100, "failures": 1}],
    "delayed": [{"key": "team/later", "dueIn": 3.24, "failures": 12}],
}


@contextmanager
def answering(status: int, body: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that gives one answer to all; yields its address and the requests that it got."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_row_a_key_says_where_it_is_and_for_how_long() -> None:
    assert rows_of([QUEUE]) == [
        ("gadget", "team/busy", "processing for 1m15s", "", "0"),
        ("gadget", "team/next", "ready", "-100", "1"),
        ("gadget", "team/later", "delayed, due in 3.2s", "", "12"),
    ]
    assert summary(QUEUE) == "gadget: 1 of 4 workers busy, 1 ready, 9 delayed"


def test_the_command_asks_for_one_controller() -> None:
    with answering(200, '{"queues": []}') as (address, asked):
        result = CliRunner().invoke(queue, ["gadget", "--limit", "5", "--debug-address", address])
    assert result.exit_code == 0
    assert asked == [("/debug/queues?controller=gadget&limit=5", None)]


def test_where_nobody_answers_the_flag_to_start_with_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(EndpointUnreachable) as caught:
        DebugEndpoint(f"127.0.0.1:{port}").json("queues")
    assert f"no debug endpoint answers at 127.0.0.1:{port}" in str(caught.value)
    assert f"`konverge run --debug-address 127.0.0.1:{port}`" in str(caught.value)


def test_an_address_that_is_off_is_refused() -> None:
    with pytest.raises(ConfigError, match="the debug address is 0"):
        DebugEndpoint("0").json("queues")


def test_what_the_operator_does_not_know_is_told_in_its_words() -> None:
    with answering(404, "no controller reconciles 'x'; known: gadget\n") as (address, _):  # noqa: SIM117
        with pytest.raises(NotThere, match="known: gadget"):
            DebugEndpoint(address).json("explain/x/y")


def test_a_server_that_is_no_operator_is_told_apart() -> None:
    with answering(404, "404: Not Found") as (address, _):  # noqa: SIM117
        with pytest.raises(EndpointUnreachable, match="answered 404"):
            DebugEndpoint(address).json("queues")


def test_the_token_goes_with_each_request(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with answering(200, "{}") as (address, asked):
        DebugEndpoint(f"http://{address}/", tmp_path / "token").json("queues")
    assert asked == [("/debug/queues", "Bearer s3cret")]
    with pytest.raises(ConfigError, match=r"debug token file .*: No such file"):
        DebugEndpoint("127.0.0.1:1", tmp_path / "other").json("queues")


def test_a_refusal_is_told_with_its_reason() -> None:
    with answering(401, "a bearer token is needed") as (address, _):  # noqa: SIM117
        with pytest.raises(EndpointUnreachable, match="answered 401: a bearer token is needed"):
            DebugEndpoint(address).json("queues")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0ms"), (0.0123, "12ms"), (3.21, "3.2s"), (75, "1m15s"), (3600, "1h0m"), (7500, "2h5m"), (200_000, "2d7h"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (5_000_000, "4.8 MiB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text
