"""What the server answered, made into Konverge's words: error bodies into `ApiError`, Retry-After into seconds, lists into pages.

In flows the status, headers and bytes of one HTTP answer; out flows parsed JSON or the error that stands for it. Not
every error body is a `Status`: proxies and load balancers in front of an API server answer with HTML or plain text.
"""

import http
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from konverge.errors import ApiError
from konverge.model.resource import ResourceType
from konverge.ports import Page, WatchEvent

_UNNAMED = frozenset({None, "PartialObjectMetadata"})
"""The kinds of what is an object of the resource that was asked for."""

_EXCERPT = 300
"""Characters of a foreign body that an error message shows."""


def excerpt(body: bytes) -> str:
    """The beginning of `body` on one line, for an error message."""
    text = " ".join(body[: 4 * _EXCERPT].decode("utf-8", "replace").split())
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."


def error_of(status: int, body: bytes, *, asked: str, retry_after: float | None = None) -> ApiError:
    """The error that an answer of `status` stands for.

    `asked` names the request (`GET /api/v1/pods`) where the body does not say what went wrong; `retry_after` is the
    header in seconds, and wins over the same hint in the body.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, Mapping) and answer.get("kind") == "Status":
        return error_of_status(answer, status, retry_after=retry_after)
    text = excerpt(body) or "no body"
    return ApiError.of(status, _reason(status), f"{asked}: {text}", retry_after=retry_after)


def error_of_status(answer: Mapping[str, Any], status: int, *, retry_after: float | None = None) -> ApiError:
    """The error that a `Status` object stands for; `status` serves where the object has no code."""
    code = int(answer.get("code") or status)
    details = answer.get("details") or {}
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    reason = answer.get("reason") or _reason(code)
    return ApiError.of(code, reason, answer.get("message") or reason, details=details, retry_after=retry_after)


def _reason(status: int) -> str:
    """CamelCase, as the server's own reasons are: `BadGateway`."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        return f"Status{status}"
    return "".join(word.capitalize() for word in phrase.replace("-", " ").split())


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait, from a Retry-After header: a number of seconds or an HTTP date.

    A date in the past is 0; a header that is absent or makes no sense is None.
    """
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:  # "-0000" means UTC without saying so
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def named(event: WatchEvent, resource: ResourceType) -> WatchEvent:
    """An event of a watch for metadata alone, whose object says what it is the metadata of."""
    _name(event.object, resource)
    return event


def _name(item: Any, resource: ResourceType) -> None:
    item["apiVersion"], item["kind"] = resource.api_version, resource.kind


def page_of(answer: Mapping[str, Any], resource: ResourceType) -> Page:
    """The page that a list answer holds. The server leaves kind and apiVersion off the items of built-in lists."""
    items = answer.get("items") or []
    for item in items:
        if item.get("kind") in _UNNAMED:
            _name(item, resource)
    metadata = answer.get("metadata") or {}
    return Page(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))
