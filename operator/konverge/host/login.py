"""The login of kopf: connection settings in, kopf's connection info out.

kopf speaks to the API server with a client of its own. It gets the credentials that the rest of the process uses, and
asks for them again when the server answered 401, so that a rotated token or a renewed certificate is taken up.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

import kopf

from konverge.errors import ConfigError

logger = logging.getLogger(__name__)

# Seconds until a login that failed for a passing reason is tried again.
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach an API server, and as whom.

    `server` is a URL; paths name PEM files; `ca_data` is PEM or base64 of PEM; `scheme` is that of the Authorization
    header (default: Bearer) that goes with `token`. Secret values are left out of the repr.
    """

    server: str
    ca_path: str | None = None
    ca_data: str | bytes | None = None
    insecure: bool = False
    token: str | None = field(default=None, repr=False)
    scheme: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    proxy_url: str | None = field(default=None, repr=False)
    default_namespace: str | None = None


Login = Callable[[], Awaitable[ConnectionSettings]]


def first_given(connection: ConnectionSettings, login: Login) -> Login:
    """A login that gives `connection` the first time, and asks `login` from then on."""
    given = iter((connection,))

    async def give() -> ConnectionSettings:
        return next(given, None) or await login()

    return give


def add_login(registry: kopf.OperatorRegistry, login: Login) -> None:
    """Make `login` the way in which the handlers of `registry` log in, at the start and after each 401.

    A ConfigError of `login` is final: kopf is left without credentials and stops. Any other error is tried again.
    """

    async def konverge_login(**_: object) -> kopf.ConnectionInfo | None:
        try:
            return kopf.ConnectionInfo(**asdict(await login()))
        except ConfigError as error:
            # Not a PermanentError: that ends kopf's authenticator, and all that waits for it would wait for ever.
            logger.error("cannot log in: %s", error)  # noqa: TRY400 - the message says what to do, a traceback does not
            return None
        except Exception as error:
            raise kopf.TemporaryError(f"cannot log in yet: {error}", delay=_RETRY_SECONDS) from error

    kopf.on.login(registry=registry, id="konverge-login")(konverge_login)
