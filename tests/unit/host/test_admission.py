"""Webhooks on kopf's server: over TLS, ours in front, the rest kopf's, and each of ours measured."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from konverge.errors import ConfigError
from konverge.host.admission import Webhooks
from konverge.host.certificates import ReloadingCertificate
from konverge.model.resource import Object
from konverge.model.review import BadReview
from konverge.runtime.metrics import Metrics
from tests.certificates import pair, write
from tests.unit.host.running import free_port


def fine(review: Object) -> Mapping[str, Any]:
    return {"seen": sorted(review)}


def bad(review: Object) -> Mapping[str, Any]:
    raise BadReview("there is no request in the review")


def broken(review: Object) -> Mapping[str, Any]:
    raise RuntimeError("out of order")


async def kopfs(review: Any, *, webhook: str, headers: Mapping[str, str], sslpeer: Any) -> Any:
    return {"kopf": webhook, "agent": headers["User-Agent"]}


class Served:
    """The webhooks `fine`, `bad` and `broken`, and kopf's."""

    def __init__(self, directory: Path) -> None:
        write(directory, *pair("webhooks"))
        self.port, self.metrics = free_port(), Metrics()
        answers = {"fine": fine, "bad": bad, "broken": broken}
        context = ReloadingCertificate(directory).context
        self.webhooks = Webhooks(f"127.0.0.1:{self.port}", context, answers, self.metrics.webhooks())

    async def ask(self, path: str, review: object) -> tuple[int, str]:
        """Status and body of the answer."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=trusting, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, headers={"User-Agent": "test"}) as session,
            session.post(
                f"https://127.0.0.1:{self.port}/{path}", data=io.BytesIO(json.dumps(review).encode())
            ) as response,
        ):
            return response.status, await response.text()

    def counted(self, path: str, code: str) -> float | None:
        labels = {"webhook": f"/{path}", "code": code}
        return self.metrics.registry.get_sample_value("controller_runtime_webhook_requests_total", labels)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """It listens meanwhile, as a task, as it does under kopf."""
    serving, up = Served(tmp_path), asyncio.Event()

    async def listen() -> None:
        async for _ in serving.webhooks(kopfs):
            up.set()

    task = asyncio.create_task(listen())
    await up.wait()
    yield serving
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert serving.webhooks.trouble is not None


async def test_a_hook_answers_at_its_path(served: Served) -> None:
    assert await served.ask("fine", {"a": 1}) == (200, '{"seen": ["a"]}')
    assert served.counted("fine", "200") == 1


async def test_a_large_object_fits_with_the_stored_one(served: Served) -> None:
    review = {"object": "x" * 3_000_000, "oldObject": "x" * 3_000_000}
    assert (await served.ask("fine", review))[0] == 200


async def test_what_is_no_review_is_a_bad_request(served: Served) -> None:
    assert await served.ask("bad", {}) == (400, "there is no request in the review")
    assert (await served.ask("fine", [1]))[0] == 400
    assert served.counted("bad", "400") == 1


async def test_a_hook_that_raises_is_no_refusal_but_no_answer(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """Only then does the API server go by the failure policy."""
    assert await served.ask("broken", {}) == (500, "RuntimeError: out of order")
    assert "the hook broken failed; its failure policy holds" in caplog.text
    assert served.counted("broken", "500") == 1
    in_flight = "controller_runtime_webhook_requests_in_flight"
    assert served.metrics.registry.get_sample_value(in_flight, {"webhook": "/broken"}) == 0


async def test_all_other_paths_are_kopfs_and_not_measured(served: Served) -> None:
    assert await served.ask("theirs", {}) == (200, '{"kopf": "theirs", "agent": "test"}')
    assert served.counted("theirs", "200") is None


async def test_it_is_ready_while_it_listens(served: Served) -> None:
    assert served.webhooks.trouble is None


async def test_before_it_listens_it_says_so(tmp_path: Path) -> None:
    serving = Served(tmp_path)
    assert serving.webhooks.trouble == f"webhooks are not served at 127.0.0.1:{serving.port} yet"


@pytest.mark.parametrize("address", ["0", "9443", ":0", ":x"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="webhook address"):
        Webhooks(address, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), {}, Metrics().webhooks())
