"""A served certificate that is replaced while it is in use. Replay 15."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from konverge.errors import ConfigError
from konverge.host.certificates import ReloadingCertificate
from konverge.host.endpoints import Site, listening, metrics_routes
from tests.certificates import pair, write
from tests.unit.host.running import free_port


class Served:
    """/metrics over TLS on a free port, with the certificate in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        self.certificate = ReloadingCertificate(directory, poll=0.01)
        self.site = Site(
            "metrics",
            f"127.0.0.1:{self.port}",
            metrics_routes(lambda: (b"up 1\n", "text/plain")),
            self.certificate.context,
        )

    async def name(self, server_hostname: str = "") -> str:
        """The common name of the certificate that a new connection gets."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=trusting, server_hostname=server_hostname or None
        )
        try:
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.close()
            await writer.wait_closed()
        (attribute,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(attribute.value)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    write(tmp_path, *pair("old"))
    serving = Served(tmp_path)
    async with listening([serving.site]):
        yield serving


@pytest.mark.parametrize("server_hostname", ["", "operator.example"])
async def test_new_connections_get_the_new_pair(served: Served, server_hostname: str) -> None:
    assert await served.name(server_hostname) == "old"
    write(served.directory, *pair("new"))
    served.certificate.watch.look()
    assert await served.name(server_hostname) == "new"


async def test_the_old_pair_serves_while_the_files_are_gone_and_until_a_new_one_is_there(served: Served) -> None:
    (served.directory / "tls.crt").unlink()
    (served.directory / "tls.key").unlink()
    served.certificate.watch.look()
    assert await served.name() == "old"
    write(served.directory, *pair("new"))
    served.certificate.watch.look()
    assert await served.name() == "new"


async def test_a_pair_that_does_not_match_is_not_used_until_it_does(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = pair("new")
    (served.directory / "tls.crt").write_bytes(certificate)  # half of the rotation
    for _ in range(3):
        served.certificate.watch.look()
    assert await served.name() == "old"
    assert caplog.text.count("going on with the old one") == 1
    (served.directory / "tls.key").write_bytes(key)
    served.certificate.watch.look()
    assert await served.name() == "new"


async def test_what_is_no_certificate_is_not_used(served: Served) -> None:
    write(served.directory, b"-----BEGIN CERTIFICATE-----\nnothing\n", b"")
    served.certificate.watch.look()
    assert await served.name() == "old"


async def test_the_watch_takes_a_change_up_by_itself(served: Served) -> None:
    watching = asyncio.create_task(served.certificate.watch.run())
    write(served.directory, *pair("new"))
    while await served.name() != "new":
        assert not watching.done()
    watching.cancel()


async def test_a_mount_that_swaps_a_symbolic_link_is_seen(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, *pair(name))
    mount = tmp_path / "mount"
    mount.symlink_to("one")
    serving = Served(mount)
    async with listening([serving.site]):
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").rename(mount)
        serving.certificate.watch.look()
        assert await serving.name() == "two"


def test_without_a_usable_pair_there_is_no_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory; it must hold tls.crt and tls.key"):
        ReloadingCertificate(tmp_path)
    certificate, _ = pair("one")
    _, key = pair("two")
    write(tmp_path, certificate, key)
    with pytest.raises(ConfigError, match=r"cannot be used: (KEY_VALUES_MISMATCH|key values mismatch)"):
        ReloadingCertificate(tmp_path)
    write(tmp_path, *pair("locked", b"secret"))
    with pytest.raises(ConfigError, match="the key is encrypted"):
        ReloadingCertificate(tmp_path)
