"""Kubeconfig files: in, a server, its authority and a client certificate; out, a private file that kubectl reads."""

import base64
import os
from pathlib import Path

import yaml

from konverge.errors import ConfigError
from konverge.testing.certificates import Certificates

_MARK = "# Written by `konverge cluster`; it is overwritten without a question.\n"


def render(context: str, server: str, certificates: Certificates, client: str) -> str:
    """The text of a kubeconfig with one context, whose certificates it holds itself."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {
                "name": context,
                "cluster": {"server": server, "certificate-authority-data": inline(certificates.authority)},
            }
        ],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": inline(certificates.certificate(client)),
                    "client-key-data": inline(certificates.key(client)),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    return _MARK + yaml.safe_dump(document, sort_keys=False)


def write(path: Path, text: str) -> None:
    """Put `text` at `path`, readable by the owner only, in one step. Raises ConfigError for a file that is not ours."""
    try:
        ours = path.read_text().startswith(_MARK)
    except FileNotFoundError:
        ours = True
    except (OSError, UnicodeDecodeError):
        ours = False
    if not ours:
        message = (
            f"{path} exists and was not written by `konverge cluster`, so it stays as it is: name a new file, and join "
            "the two with KUBECONFIG=ONE:OTHER where you want both"
        )
        raise ConfigError(message)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        message = f"cannot write the kubeconfig {path}: {error.strerror}"
        raise ConfigError(message) from error
