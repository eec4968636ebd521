"""The certificate of what we serve, taken up anew when its files change.

A directory with `tls.crt` and `tls.key` (as a Secret of type kubernetes.io/tls is mounted) flows in, a TLS context
flows out. New handshakes get the newest pair that could be loaded; a pair that is missing, half-written or does not
match leaves the old one in use.
"""

import logging
import ssl
from pathlib import Path
from typing import Final

from konverge.errors import ConfigError
from konverge.host.watching import POLL, FileWatch

logger = logging.getLogger(__name__)

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


class ReloadingCertificate:
    """A server's TLS context whose pair is that of `directory`. `watch.run` keeps it current.

    Raises: ConfigError when there is no usable pair at the start.
    """

    def __init__(self, directory: Path, *, poll: float = POLL) -> None:
        self._directory = directory
        self.watch = FileWatch([directory / CERTIFICATE, directory / KEY], self.reload, poll=poll)
        try:
            self._current = self._load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{self._what(error)}; it must hold {CERTIFICATE} and {KEY}, both in PEM") from error
        self.context = self._load()
        # Called for every handshake, also where the client names no server.
        self.context.sni_callback = self._choose

    def reload(self) -> None:
        """Use the pair that the files hold now, if they hold one."""
        try:
            self._current = self._load()
        except (OSError, ssl.SSLError) as error:
            logger.error("%s; going on with the old one", self._what(error))  # noqa: TRY400 - the message is enough
        else:
            logger.info("using the new certificate in %s", self._directory)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        """A fresh context, since a pair that fails to load leaves a context without one. OpenSSL checks the match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # An encrypted key must fail, not ask for its password on the terminal.
        context.load_cert_chain(self._directory / CERTIFICATE, self._directory / KEY, password=_no_password)
        return context

    def _what(self, error: OSError) -> str:
        reason = getattr(error, "reason", None) or error.strerror or error
        return f"the certificate in {self._directory} cannot be used: {reason}"


def _no_password() -> str:
    raise ssl.SSLError(0, "the key is encrypted; store it without a password")
