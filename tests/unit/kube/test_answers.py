"""Answers of the server become pages and errors."""

from datetime import UTC, datetime

import orjson
import pytest

from konverge.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, ServerError, TooManyRequests
from konverge.kube.answers import error_of, page_of, parse_retry_after
from konverge.model.resource import Pod

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0", 0.0),
        ("Tue, 01 Jan 2030 12:00:07 GMT", 7.0),
        ("Tue, 01 Jan 2030 12:00:07 -0000", 7.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, NOW) == seconds


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (504, "Timeout", ServerError),
        (418, "Teapot", ApiError),
    ],
)
def test_a_status_object_becomes_the_error_of_its_code(code: int, reason: str, kind: type[ApiError]) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "why", "details": {"name": "x"}}
    error = error_of(code, orjson.dumps(status), asked="GET /x")
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.details) == (code, reason, "why", {"name": "x"})


def test_the_header_wins_over_the_hint_in_the_body() -> None:
    body = orjson.dumps({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 9}})
    assert error_of(429, body, asked="").retry_after == 9.0
    assert error_of(429, body, asked="", retry_after=2.0).retry_after == 2.0


@pytest.mark.parametrize(
    "body", [b"<html>\n<h1>upstream down</h1></html>", b'"upstream down"', b'{"error": "upstream down"}']
)
def test_a_foreign_body_is_quoted_with_the_request(body: bytes) -> None:
    error = error_of(502, body, asked="GET /api/v1/pods")
    assert isinstance(error, ServerError)
    assert error.reason == "BadGateway"
    assert error.message.startswith("GET /api/v1/pods: ")
    assert "upstream down" in error.message


def test_a_long_foreign_body_is_cut_and_an_empty_one_named() -> None:
    assert len(error_of(500, b"x" * 100_000, asked="GET /x").message) < 400
    assert error_of(500, b"", asked="GET /x").message == "GET /x: no body"
    assert error_of(599, b"", asked="GET /x").reason == "Status599"


def test_items_of_a_list_get_the_kind_that_the_server_leaves_off() -> None:
    page = page_of(
        {
            "kind": "PodList",
            "metadata": {"resourceVersion": "7", "continue": "t"},
            "items": [{"metadata": {"name": "a"}}],
        },
        Pod,
    )
    assert page.items == [{"metadata": {"name": "a"}, "apiVersion": "v1", "kind": "Pod"}]
    assert (page.resource_version, page.continue_token) == ("7", "t")


def test_a_list_without_items_is_empty() -> None:
    assert page_of({"metadata": {"resourceVersion": "7"}, "items": None}, Pod).items == []
