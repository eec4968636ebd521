"""Credentials in use: renewed once for all who need it, reread, and never blocking the loop."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from konverge.errors import CredentialsError, Unauthorized
from konverge.kube.auth import RENEWAL_PAUSE, REREAD_SECONDS, Credentials
from konverge.kube.kubeconfig import InClusterSource
from konverge.model.resource import ConfigMap
from tests.unit.kube.conftest import Connecting
from tests.unit.kube.serving import FakeClock, Plugin, ScriptedServer, only_for, refuses, streams

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    made = Plugin(tmp_path)
    made.token_file.write_text("first")
    return made


async def test_many_requests_that_meet_a_401_share_one_run_of_the_plugin(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    """Replay 14: the token is no longer good, and the plugin had said nothing of its end."""
    client = await connecting(plugin.user)
    assert plugin.runs == 1
    plugin.token_file.write_text("second")
    server.answers(only_for("second"))
    await asyncio.gather(*(client.get(ConfigMap, "a", "ns") for _ in range(20)))
    assert plugin.runs == 2
    assert client.credentials().token == "second"


async def test_the_loop_goes_on_while_a_slow_plugin_runs(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    """Replay 14, the other half."""
    client = await connecting(plugin.user)
    plugin.token_file.write_text("second")
    server.answers(only_for("second"))
    os.mkfifo(plugin.pipe)
    request = asyncio.create_task(client.get(ConfigMap, "a", "ns"))
    # The pipe opens when the plugin reads it, so it runs now, and this loop still gets to write to it.
    await asyncio.to_thread(plugin.pipe.write_text, "go on")
    assert (await request)["kind"] == "ConfigMap"


async def test_a_waiting_request_that_is_cancelled_does_not_stop_the_renewal_of_the_others(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    client = await connecting(plugin.user)
    plugin.token_file.write_text("second")
    server.answers(only_for("second"))
    os.mkfifo(plugin.pipe)
    impatient = asyncio.create_task(client.get(ConfigMap, "a", "ns"))
    writing = asyncio.create_task(asyncio.to_thread(plugin.pipe.open, "w"))
    pipe = await writing
    patient = asyncio.create_task(client.get(ConfigMap, "a", "ns"))
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    pipe.close()
    assert (await patient)["kind"] == "ConfigMap"
    assert plugin.runs == 2


async def test_a_create_is_repeated_after_a_401_because_it_was_not_executed(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    client = await connecting(plugin.user)
    plugin.token_file.write_text("second")
    server.answers(only_for("second"))
    await client.create(ConfigMap, {"metadata": {"name": "a"}}, "ns")
    assert [seen.method for seen in server.seen] == ["POST", "POST"]


async def test_a_watch_is_opened_again_after_a_401(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    client = await connecting(plugin.user)
    plugin.token_file.write_text("second")
    server.answers(refuses(401, "Unauthorized"), streams(b'{"type": "ADDED", "object": {}}\n'))
    events = [event.type async for event in client.watch(ConfigMap, resource_version="1", timeout_seconds=60)]
    assert events == ["ADDED"]
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer first", "Bearer second"]


async def test_a_server_that_refuses_new_credentials_too_does_not_make_the_plugin_run_in_a_loop(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin, clock: FakeClock
) -> None:
    client = await connecting(plugin.user)
    server.answers(only_for("nobody"))
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await client.get(ConfigMap, "a", "ns")
    assert plugin.runs == 2
    clock.advance(RENEWAL_PAUSE)
    with pytest.raises(Unauthorized):
        await client.get(ConfigMap, "a", "ns")
    assert plugin.runs == 3


async def test_a_renewal_that_fails_is_part_of_the_error(
    server: ScriptedServer, connecting: Connecting, plugin: Plugin
) -> None:
    client = await connecting(plugin.user)
    plugin.token_file.unlink()
    server.answers(only_for("second"))
    Plugin(plugin.token_file.parent, "echo 'log in again' >&2; exit 1")
    results = await asyncio.gather(*(client.get(ConfigMap, "a", "ns") for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, Unauthorized) for result in results)
    assert "log in again" in str(results[0])
    assert plugin.runs == 2


async def test_a_token_in_the_kubeconfig_is_read_again(
    server: ScriptedServer, connecting: Connecting, tmp_path: Path
) -> None:
    token = tmp_path / "token-file"
    token.write_text("first")
    client = await connecting({"tokenFile": str(token)})
    token.write_text("second")
    server.answers(only_for("second"))
    await client.get(ConfigMap, "a", "ns")


def account(directory: Path, ca: str) -> InClusterSource:
    for name, text in {"token": "first\n", "ca.crt": ca, "namespace": "operators"}.items():
        (directory / name).write_text(text)
    return InClusterSource(directory, ENVIRON)


@pytest.fixture
def ca() -> str:
    """A CA certificate, valid for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


async def test_a_rotated_service_account_token_is_taken_up(tmp_path: Path, clock: FakeClock, ca: str) -> None:
    credentials = Credentials(account(tmp_path, ca), clock=clock)
    await credentials.load()
    assert await credentials.authorization() == "Bearer first"
    assert credentials.details.namespace == "operators"
    (tmp_path / "token").write_text("second")
    assert await credentials.authorization() == "Bearer first"
    await credentials.renew(credentials.generation)
    assert await credentials.authorization() == "Bearer second"


async def test_a_token_file_that_is_unreadable_for_a_moment_changes_nothing(
    tmp_path: Path, clock: FakeClock, ca: str
) -> None:
    credentials = Credentials(account(tmp_path, ca), clock=clock)
    await credentials.load()
    (tmp_path / "token").unlink()
    clock.advance(REREAD_SECONDS)
    assert await credentials.authorization() == "Bearer first"


async def test_a_ca_that_cannot_be_parsed_is_reported_with_its_source(tmp_path: Path, clock: FakeClock) -> None:
    credentials = Credentials(account(tmp_path, "not a certificate"), clock=clock)
    with pytest.raises(CredentialsError, match=r"service account in .*: the CA or client certificate cannot be used"):
        await credentials.load()


async def test_a_token_never_shows_in_a_representation(connecting: Connecting) -> None:
    client = await connecting({"token": "very-secret"})
    assert "very-secret" not in repr(client.credentials())
    assert client.credentials().token == "very-secret"


async def test_a_user_name_and_password_become_their_header(connecting: Connecting) -> None:
    client = await connecting({"username": "u", "password": "p"})
    assert (client.credentials().scheme, client.credentials().token) == ("Basic", "dTpw")
