"""The conversion webhook over TLS."""

import asyncio
import io
import json
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from konverge.errors import ConfigError
from konverge.host.certificates import ReloadingCertificate
from konverge.host.conversion import conversion_site
from konverge.host.endpoints import listening
from konverge.model.conversion import registry_of
from konverge.testing.loopback import free_ports
from tests.certificates import pair, write
from tests.unit.model.versions import Site, site

URL = "https://127.0.0.1:{}/convert"


def review(*objects: Any) -> dict[str, Any]:
    request = {"uid": "r1", "desiredAPIVersion": "conversion.example.dev/v1", "objects": objects}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    write(tmp_path, *pair("conversion"))
    [free] = free_ports(1)
    tls = ReloadingCertificate(tmp_path).context
    async with listening([conversion_site(f"127.0.0.1:{free}", tls, registry_of([Site]))]):
        yield free


async def post(port: int, body: bytes) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(URL.format(port), data=io.BytesIO(body), ssl=False) as response,
    ):
        return response.status, await response.text()


async def test_a_review_is_answered(port: int) -> None:
    status, text = await post(port, json.dumps(review(site({"image": "a", "count": 1}, "v1alpha1"))).encode())
    assert status == 200
    assert json.loads(text)["response"]["convertedObjects"] == [site({"image": "a", "replicas": 1})]


async def test_a_page_of_a_list_may_be_larger_than_a_megabyte(port: int) -> None:
    large = site({"image": "a", "count": 1, "colour": "x" * 3_000_000}, "v1alpha1")
    status, text = await post(port, json.dumps(review(large)).encode())
    assert (status, json.loads(text)["response"]["result"]) == (200, {"status": "Success"})


async def test_a_failed_conversion_is_logged(port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    status, text = await post(port, json.dumps(review(site({"count": 1}, "v1alpha1"))).encode())
    assert (status, json.loads(text)["response"]["result"]["status"]) == (200, "Failure")
    assert "conversion: Site team/shop: v1alpha1 to v1: the conversion raised" in caplog.text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}"])
async def test_what_is_no_review_is_a_bad_request(port: int, body: bytes) -> None:
    status, text = await post(port, body)
    assert status == 400
    assert text.strip()


async def test_the_loop_goes_on_while_a_conversion_runs(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, seen = asyncio.get_running_loop(), asyncio.Event()

    def slow(*_: Any) -> dict[str, Any]:
        asyncio.run_coroutine_threadsafe(seen.wait(), loop).result(timeout=10)  # what the loop alone can let it have
        return {"response": {"result": {"status": "Success"}}}

    monkeypatch.setattr("konverge.host.conversion.convert_review", slow)
    loop.call_later(0, seen.set)
    assert (await post(port, json.dumps(review()).encode()))[0] == 200


def test_without_several_versions_there_is_nothing_to_serve() -> None:
    with pytest.raises(ConfigError, match="no resource of these modules has more than one version"):
        conversion_site("127.0.0.1:1", ssl.create_default_context(), {})
