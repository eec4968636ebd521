"""Who may read /metrics: the API server is asked, its verdict is kept for a while, and it is never flooded."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from konverge.cli import cli
from konverge.errors import ConfigError, Forbidden
from konverge.host.endpoints import Site, listening, metrics_routes
from konverge.host.metrics_auth import (
    ALLOWED_SECONDS,
    MAX_REVIEWS,
    REFUSED_SECONDS,
    Mode,
    ReviewedAccess,
    metrics_guard,
)
from konverge.runtime.clock import SystemClock
from tests.unit.host.running import free_port

EXAMPLE = Path(__file__).parents[3] / "examples" / "web.py"


class SetClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at


class Reviewer:
    """An API server that knows one user by the token `known`, may allow it to get the page, and notes what it is asked."""

    def __init__(self, *, allows: bool = True) -> None:
        self.allows = allows
        self.asked: list[Mapping[str, Any]] = []
        self.error: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.full = asyncio.Event()
        self.busy = self.most = 0

    async def __call__(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(body)
        self.busy += 1
        self.most = max(self.most, self.busy)
        if self.busy == MAX_REVIEWS:
            self.full.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
        finally:
            self.busy -= 1
        if self.error is not None:
            raise self.error
        if path.endswith("/tokenreviews"):
            if body["spec"]["token"] != "known":
                return {"status": {"authenticated": False}}
            user = {"username": "scraper", "uid": "7", "groups": ["scrapers"], "extra": {"example.dev/a": ["b"]}}
            return {"status": {"authenticated": True, "user": user}}
        assert path.endswith("/subjectaccessreviews")
        return {"status": {"allowed": self.allows}}


class Page:
    """A served /metrics and those around it."""

    def __init__(self, port: int, reviewer: Reviewer, clock: SetClock) -> None:
        self.port, self.reviewer, self.clock = port, reviewer, clock

    async def get(self, authorization: str | None = None) -> tuple[int, str]:
        headers = {} if authorization is None else {"Authorization": authorization}
        url = f"http://127.0.0.1:{self.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
            if response.status == 401:
                assert response.headers["WWW-Authenticate"] == "Bearer"
            return response.status, await response.text()


@asynccontextmanager
async def served(reviewer: Reviewer) -> AsyncIterator[Page]:
    port, clock = free_port(), SetClock()
    routes = metrics_routes(lambda: (b"up 1\n", "text/plain"), ReviewedAccess(reviewer, clock))
    async with listening([Site("metrics", f"127.0.0.1:{port}", routes)]):
        yield Page(port, reviewer, clock)


async def test_who_is_known_and_allowed_gets_the_page() -> None:
    async with served(Reviewer()) as page:
        assert await page.get("Bearer known") == (200, "up 1\n")
        [token, access] = page.reviewer.asked
        assert token == {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "known"},
        }
        assert access == {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "scraper",
                "uid": "7",
                "groups": ["scrapers"],
                "extra": {"example.dev/a": ["b"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        }


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic known", "known"])
async def test_who_bears_no_token_is_refused_without_asking(authorization: str | None) -> None:
    async with served(Reviewer()) as page:
        status, text = await page.get(authorization)
        assert (status, page.reviewer.asked) == (401, [])
        assert "a bearer token of this cluster is needed" in text


async def test_a_token_that_the_server_does_not_know_is_refused() -> None:
    async with served(Reviewer()) as page:
        status, text = await page.get("Bearer expired")
        assert (status, len(page.reviewer.asked)) == (401, 1)
        assert "does not know this token" in text


async def test_who_may_not_is_told_what_to_bind() -> None:
    async with served(Reviewer(allows=False)) as page:
        status, text = await page.get("Bearer known")
        assert status == 403
        assert 'scraper may not get /metrics; bind a ClusterRole to it with nonResourceURLs: ["/metrics"]' in text


async def test_a_verdict_is_kept_for_a_while_and_a_refusal_for_less() -> None:
    async with served(Reviewer()) as page:
        await page.get("Bearer known")
        page.clock.at += ALLOWED_SECONDS - 1
        page.reviewer.allows = False
        assert (await page.get("Bearer known"))[0] == 200
        page.clock.at += 1
        assert (await page.get("Bearer known"))[0] == 403
        page.reviewer.allows = True
        page.clock.at += REFUSED_SECONDS - 1
        assert (await page.get("Bearer known"))[0] == 403
        page.clock.at += 1
        assert (await page.get("Bearer known"))[0] == 200


async def test_nobody_comes_in_while_the_server_cannot_be_asked_and_that_is_not_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(Reviewer()) as page:
        page.reviewer.error = Forbidden(403, "Forbidden", "tokenreviews.authentication.k8s.io is forbidden")
        status, text = await page.get("Bearer known")
        assert status == 503
        assert "tokenreviews" not in text
        assert "the operator needs `create` on tokenreviews.authentication.k8s.io" in caplog.text
        assert "known" not in caplog.text.split("cannot tell")[1]
        page.reviewer.error = None
        assert (await page.get("Bearer known"))[0] == 200


async def test_a_flood_of_rubbish_reaches_the_server_a_few_at_a_time() -> None:
    async with served(Reviewer()) as page:
        page.reviewer.hold = asyncio.Event()
        flood = [asyncio.create_task(page.get(f"Bearer rubbish-{number}")) for number in range(20)]
        await page.reviewer.full.wait()
        page.reviewer.hold.set()
        assert {status for status, _ in await asyncio.gather(*flood)} == {401}
        assert page.reviewer.most == MAX_REVIEWS


@pytest.mark.parametrize(
    ("address", "mode", "tls", "guarded"),
    [
        ("127.0.0.1:8080", "auto", False, False),
        ("localhost:8080", "auto", False, False),
        ("[::1]:8080", "auto", False, False),
        ("127.0.0.1:8080", "always", False, True),
        (":8443", "auto", True, True),
        ("10.0.0.1:8443", "auto", True, True),
        (":8443", "always", True, True),
        (":8443", "never", True, False),
        (":8080", "never", False, False),
        ("0", "auto", False, False),
        ("0", "always", False, False),
    ],
)
async def test_tokens_are_asked_for_beyond_this_machine(address: str, mode: Mode, *, tls: bool, guarded: bool) -> None:
    guard = metrics_guard(address, mode, tls=tls, review=Reviewer(), clock=SetClock())
    assert (guard is not None) == guarded


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_tokens_never_cross_the_network_unencrypted(mode: Mode) -> None:
    with pytest.raises(ConfigError, match=r"':8080' can be reached from other machines.*--metrics-cert-dir"):
        metrics_guard(":8080", mode, tls=False, review=Reviewer(), clock=SetClock())


def test_an_operator_that_would_have_tokens_sent_in_the_clear_does_not_start() -> None:
    arguments = ["run", str(EXAMPLE), "--metrics-address", ":8080"]
    with pytest.raises(ConfigError, match="readable on the way"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
