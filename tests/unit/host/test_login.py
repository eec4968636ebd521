"""What kopf's login gets from our credentials; the re-login after a 401 is tested with the whole process."""

import logging
from dataclasses import replace
from typing import Any

import kopf
import pytest

from konverge.errors import ConnectionFailed, CredentialsError
from konverge.host.login import ConnectionSettings, add_login

SETTINGS = ConnectionSettings(
    server="https://cluster.example:6443",
    ca_data="-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    token="secret",
    scheme="Bearer",
    certificate_path="/pki/client.crt",
    private_key_path="/pki/client.key",
    proxy_url="http://me:secret@proxy.example:3128",
    default_namespace="team",
)


async def logged_in(login: Any) -> Any:
    registry = kopf.OperatorRegistry()
    add_login(registry, login)
    (handler,) = registry._activities.get_all_handlers()
    return await handler.fn()  # type: ignore[call-arg, misc]


async def test_every_setting_reaches_kopf() -> None:
    async def login() -> ConnectionSettings:
        return SETTINGS

    info = await logged_in(login)
    assert isinstance(info, kopf.ConnectionInfo)
    assert {name: getattr(info, name) for name in SETTINGS.__slots__} == {
        name: getattr(SETTINGS, name) for name in SETTINGS.__slots__
    }
    assert info.as_http_headers() == {"Authorization": "Bearer secret"}


async def test_credentials_that_a_person_has_to_mend_are_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    async def login() -> ConnectionSettings:
        raise CredentialsError("no kubeconfig; set KUBECONFIG")

    with caplog.at_level(logging.ERROR):
        assert await logged_in(login) is None
    assert "cannot log in: no kubeconfig; set KUBECONFIG" in caplog.text


async def test_a_passing_trouble_is_tried_again_soon() -> None:
    async def login() -> ConnectionSettings:
        raise ConnectionFailed("refused")

    with pytest.raises(kopf.TemporaryError, match="cannot log in yet: refused") as caught:
        await logged_in(login)
    assert caught.value.delay is not None
    assert 0 < caught.value.delay < 60


def test_secrets_do_not_show() -> None:
    assert "secret" not in repr(replace(SETTINGS, username="me", password="secret"))
