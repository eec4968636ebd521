"""The certificates of a cluster: they verify, they name the right identities, and only their owner reads the keys."""

from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from konverge.errors import ConfigError
from konverge.testing.certificates import CLIENTS, Certificates, issue
from konverge.testing.kubeconfig import render, write


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return issue(tmp_path)


@pytest.fixture
def verifier(issued: Certificates) -> PolicyBuilder:
    return PolicyBuilder().store(Store([load(issued.authority)]))


@pytest.mark.parametrize("name", ["localhost", "kubernetes.default.svc"])
def test_the_serving_certificate_verifies_for_its_names(
    issued: Certificates, verifier: PolicyBuilder, name: str
) -> None:
    serving = load(issued.certificate("kube-apiserver"))
    chain = verifier.build_server_verifier(x509.DNSName(name)).verify(serving, [])
    assert chain[-1] == load(issued.authority)
    with pytest.raises(VerificationError):
        verifier.build_client_verifier().verify(serving, [])


def test_the_serving_certificate_is_not_for_other_names(issued: Certificates, verifier: PolicyBuilder) -> None:
    with pytest.raises(VerificationError):
        verifier.build_server_verifier(x509.DNSName("example.com")).verify(
            load(issued.certificate("kube-apiserver")), []
        )


@pytest.mark.parametrize(("client", "identity"), CLIENTS.items())
def test_a_client_certificate_carries_the_identity_that_rbac_knows(
    issued: Certificates, verifier: PolicyBuilder, client: str, identity: tuple[str, str | None]
) -> None:
    certificate = load(issued.certificate(client))
    organisations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == identity[0]
    assert [each.value for each in organisations] == ([identity[1]] if identity[1] else [])
    with pytest.raises(VerificationError):
        verifier.build_server_verifier(x509.DNSName("localhost")).verify(certificate, [])


def test_another_authority_vouches_for_none_of_them(issued: Certificates, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = PolicyBuilder().store(Store([load(issue(tmp_path / "other").authority)]))
    with pytest.raises(VerificationError):
        other.build_server_verifier(x509.DNSName("localhost")).verify(load(issued.certificate("kube-apiserver")), [])


def test_every_key_fits_and_is_private(issued: Certificates) -> None:
    for name in ("kube-apiserver", *CLIENTS):
        key = serialization.load_pem_private_key(issued.key(name).read_bytes(), None)
        assert key.public_key() == load(issued.certificate(name)).public_key()
    tokens = serialization.load_pem_private_key(issued.key("service-account").read_bytes(), None)
    assert tokens.public_key() == serialization.load_pem_public_key(issued.service_account_public.read_bytes())
    assert {path.stat().st_mode & 0o777 for path in issued.directory.iterdir()} == {0o600}


def test_a_kubeconfig_is_private_and_needs_no_other_file(issued: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write(path, render("demo", "https://127.0.0.1:6443", issued, "admin"))
    assert path.stat().st_mode & 0o777 == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "demo"
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert str(tmp_path) not in path.read_text()
    write(path, render("again", "https://127.0.0.1:1", issued, "admin"))
    assert yaml.safe_load(path.read_text())["current-context"] == "again"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("content", [b"apiVersion: v1\nkind: Config\n", b"\xff\xfe", b""])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="it stays as it is"):
        write(path, "text")
    assert path.read_bytes() == content


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write the kubeconfig .*missing/config: No such file"):
        write(tmp_path / "missing" / "config", "text")
