"""The password of a Database and what applications are told: the stored credentials flow in, Secrets flow out.

The Secret `NAME-credentials` is the truth. The pods mount it, and the running primary takes on what it says; so a new
password needs no restart, and one that a person writes there holds too. For which request the password was made stands
on the Secret itself, written with the password in one: a crash between two writes makes no second one.
"""

import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from konverge.controllers.database.models import ROTATE_PASSWORD, Database
from konverge.controllers.database.names import PORT
from konverge.model import meta
from konverge.model.resource import Object

USER: Final = "postgres"
DATABASE: Final = "postgres"
PASSWORD_BYTES: Final = 24
BINDING_TYPE: Final = "postgresql"
PROVIDER: Final = "konverge"

Body = dict[str, Any]


def generate() -> str:
    """A new password, of characters that need no quoting anywhere."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def requested(database: Database) -> str:
    """The value of the annotation that asks for a new password, empty without one."""
    return meta.annotations_of(database.raw).get(ROTATE_PASSWORD, "")


def rotated_for(secret: Object) -> str:
    """For which request the stored password was made, empty for none."""
    return meta.annotations_of(secret).get(ROTATE_PASSWORD, "")


def is_due(database: Database, secret: Object) -> bool:
    """Whether a new password was asked for since the stored one was made."""
    return requested(database) not in {"", rotated_for(secret)}


def password_of(secret: Object) -> str | None:
    """The stored password; None where there is none that the server could take: missing, empty, or no text.

    A line feed at its end is left out, as the scripts do: it comes from a person's editor.
    """
    encoded = (secret.get("data") or {}).get("password") or ""
    try:
        text = b64decode(encoded, validate=True).decode().rstrip("\n")
    except ValueError:
        return None
    return text if text and text.isprintable() else None


def stored(labels: Mapping[str, str], password: str, request: str) -> Body:
    """The Secret that holds the credentials of the superuser."""
    annotations = {ROTATE_PASSWORD: request} if request else {}
    return {
        "metadata": {"labels": dict(labels), **({"annotations": annotations} if annotations else {})},
        "type": "kubernetes.io/basic-auth",
        "data": {"username": _encoded(USER), "password": _encoded(password)},
    }


def endpoint_host(database: Database) -> str:
    """The host name of the client Service."""
    return f"{database.name}.{database.namespace}.svc"


def binding(database: Database, labels: Mapping[str, str], password: str) -> Body:
    """The Secret for applications, as the Service Binding specification names its entries."""
    host = endpoint_host(database)
    entries = {
        "type": BINDING_TYPE,
        "provider": PROVIDER,
        "host": host,
        "port": str(PORT),
        "database": DATABASE,
        "username": USER,
        "password": password,
        "uri": f"postgresql://{USER}:{quote(password, safe='')}@{host}:{PORT}/{DATABASE}",
    }
    return {
        "metadata": {"labels": dict(labels)},
        "type": f"servicebinding.io/{BINDING_TYPE}",
        "data": {name: _encoded(value) for name, value in entries.items()},
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
