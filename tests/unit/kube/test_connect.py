"""Connecting makes sure that the server knows who we are."""

from importlib.metadata import version
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from konverge.errors import ConnectionFailed, CredentialsError
from tests.unit.kube.conftest import Connecting
from tests.unit.kube.serving import ScriptedServer, hangs_up, refuses, replies

HINT = f"{version('kubernetes')} is installed, and 36.0.0 sent no Authorization header"


async def by_header(request: web.Request) -> web.StreamResponse:
    name = "alice" if request.headers.get("Authorization") else "system:anonymous"
    return await replies({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": name}}}, 201)(request)


async def test_a_user_that_the_server_knows_is_connected(server: ScriptedServer, connecting: Connecting) -> None:
    server.answers(by_header)
    client = await connecting(check=True)
    assert await client.whoami() == "alice"
    assert server.seen[0].path == "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def test_credentials_that_get_lost_in_the_package_name_its_version(
    server: ScriptedServer, connecting: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay 17."""

    async def loses_the_token(self: Any) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(Configuration, "auth_settings", loses_the_token)
    server.answers(by_header)
    with pytest.raises(CredentialsError, match="takes us for system:anonymous") as caught:
        await connecting(check=True)
    assert HINT in str(caught.value)


async def test_a_server_that_forbids_anonymous_users_to_ask_tells_as_much(
    server: ScriptedServer, connecting: Connecting
) -> None:
    server.answers(refuses(403, "Forbidden", 'User "system:anonymous" cannot create resource "selfsubjectreviews"'))
    with pytest.raises(CredentialsError, match="takes us for system:anonymous"):
        await connecting(check=True)


async def test_a_known_user_who_may_not_ask_is_still_known(server: ScriptedServer, connecting: Connecting) -> None:
    server.answers(refuses(403, "Forbidden", 'User "bob" cannot create resource "selfsubjectreviews"'))
    client = await connecting(check=True)
    assert client.credentials().token == "secret"


async def test_refused_credentials_name_their_source(server: ScriptedServer, connecting: Connecting) -> None:
    server.answers(refuses(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(
        CredentialsError, match=r"refuses the credentials of kubeconfig .*: Unauthorized\. Log in again"
    ) as caught:
        await connecting(check=True)
    assert HINT in str(caught.value)


async def test_a_server_too_old_to_be_asked_is_trusted_when_there_is_something_to_send(
    server: ScriptedServer, connecting: Connecting
) -> None:
    server.answers(refuses(404, "NotFound"))
    await connecting(check=True)
    with pytest.raises(CredentialsError, match="takes us for system:anonymous"):
        await connecting({"token": ""}, check=True)


async def test_a_server_that_is_down_is_no_question_of_credentials(
    server: ScriptedServer, connecting: Connecting
) -> None:
    server.answers(hangs_up)
    with pytest.raises(ConnectionFailed, match=server.url):
        await connecting(check=True)
