"""The certificates of one cluster: in, a directory; out, a fresh authority there and everything that it signed.

The authority signs the API server's serving certificate and one client certificate for each component, whose subject
is the identity that Kubernetes' own RBAC rules know. Service-account tokens have a key pair of their own.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=365)
_SKEW = timedelta(minutes=5)  # a clock that was set back since must not refuse them

CLIENTS = {
    "admin": ("konverge-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
}
"""Client certificates: file stem -> common name (the user), organisation (the group)."""

SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVING_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
"""Loopback, and the first address of the service range: the `kubernetes` Service."""


@dataclass(frozen=True)
class Certificates:
    """Paths of the files; `NAME.crt` and `NAME.key` are PEM, keys are readable by the owner only."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    @property
    def service_account_public(self) -> Path:
        return self.directory / "service-account.pub"


def issue(directory: Path) -> Certificates:
    """Write a fresh authority and its certificates into `directory`, which exists and is private."""
    files = Certificates(directory)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _subject("konverge-local-ca", None)
    authority = _sign(
        authority_name, authority_key.public_key(), authority_name, authority_key, _authority_extensions()
    )
    _write(files.authority, authority.public_bytes(serialization.Encoding.PEM))

    def leaf(name: str, subject: x509.Name, extensions: Sequence[x509.ExtensionType]) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(subject, key.public_key(), authority_name, authority_key, extensions)
        _write(files.certificate(name), certificate.public_bytes(serialization.Encoding.PEM))
        _write(files.key(name), _private(key))

    leaf("kube-apiserver", _subject("kube-apiserver", None), _serving_extensions())
    for name, (user, group) in CLIENTS.items():
        leaf(name, _subject(user, group), _client_extensions())

    tokens = ec.generate_private_key(ec.SECP256R1())
    _write(files.key("service-account"), _private(tokens))
    _write(
        files.service_account_public,
        tokens.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    return files


def _subject(user: str, group: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _sign(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extensions: Sequence[x509.ExtensionType],
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_extensions() -> list[x509.ExtensionType]:
    return [x509.BasicConstraints(ca=True, path_length=0), _usage(authority=True)]


def _client_extensions() -> list[x509.ExtensionType]:
    return [
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(authority=False),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),
    ]


def _serving_extensions() -> list[x509.ExtensionType]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVING_NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVING_ADDRESSES]
    return [
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(authority=False),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName(names),
    ]


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
