"""Credentials in use: the Authorization header, the TLS context, and their renewal.

A `Source` flows in; the headers and TLS context of every request flow out. Tokens end: a service account's is replaced
on disk, an exec plugin's runs out, often without saying when. So the header is read anew each minute, and a 401 leads
to one renewal that all requests which met it share: a hundred waiting requests start one plugin.
"""

import asyncio
import inspect
import ssl
from dataclasses import dataclass, field
from typing import Any

from konverge.errors import CredentialsError
from konverge.kube.kubeconfig import Loaded, Source
from konverge.kube.proxy import environment_proxy
from konverge.ports import Clock

REREAD_SECONDS = 60.0
"""How often the header is read anew: a rotated token stays valid for much longer than this."""

RENEWAL_PAUSE = 5.0
"""Seconds between renewals. A server that refuses new credentials too must not make a plugin run in a loop."""


@dataclass(frozen=True, slots=True)
class ConnectionDetails:
    """How to connect, for other clients in this process. Paths are of PEM files; empty means absent.

    `scheme` and `token` are the two words of the Authorization header. `namespace` is the context's, or the pod's.
    """

    server: str
    ca_path: str = ""
    scheme: str = ""
    token: str = field(default="", repr=False)
    cert_path: str = ""
    key_path: str = ""
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    namespace: str = "default"


class Credentials:
    """Loaded credentials that can be renewed. Call `load` before anything else."""

    def __init__(self, source: Source, *, clock: Clock) -> None:
        self.source = source
        self.generation = 0
        self.details = ConnectionDetails(server="")
        self.ssl_context: ssl.SSLContext | None = None
        self._clock = clock
        self._configuration: Any = None
        self._reread_at = 0.0
        self._renew_at = 0.0
        self._renewal: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the source and take over what it says. Raises: CredentialsError; what we had before stays in use."""
        loaded = await self.source.load()
        details = _details_of(loaded, await _authorization(loaded.configuration))
        context = None
        if details.server.startswith("https"):
            try:
                context = await asyncio.to_thread(_ssl_context, loaded.configuration)
            except (OSError, ValueError) as error:
                message = f"{self.source.description}: the CA or client certificate cannot be used: {error}"
                raise CredentialsError(message) from error
        self._configuration, self.details, self.ssl_context = loaded.configuration, details, context
        self._reread_at = self._clock.monotonic() + REREAD_SECONDS
        self.generation += 1

    async def authorization(self) -> str:
        """The value of the Authorization header, empty when only a certificate speaks for us."""
        if self._clock.monotonic() >= self._reread_at:
            self._reread_at = self._clock.monotonic() + REREAD_SECONDS
            await self._reread()
        details = self.details
        return f"{details.scheme} {details.token}" if details.token else ""

    async def _reread(self) -> None:
        """Let the configuration's own hook reread a token file. A file that is unreadable right now changes nothing."""
        try:
            header = await _authorization(self._configuration)
        except CredentialsError:
            return
        self.details = _details_of(Loaded(self._configuration, self.details.namespace), header)

    async def renew(self, seen: int) -> bool:
        """Replace the credentials of generation `seen`, which the server refused; callers at the same time share one load.

        Returns whether there are newer ones now. Raises: CredentialsError.
        """
        if self.generation != seen:
            return True
        if self._renewal is None:
            if self._clock.monotonic() < self._renew_at:
                return False
            self._renewal = asyncio.create_task(self._renew(), name="renew credentials")
            # Its failure is seen by who waits; when all of them were cancelled, nobody needs to hear of it.
            self._renewal.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Shielded: one request that is cancelled does not take the renewal from the others.
        await asyncio.shield(self._renewal)
        return True

    async def _renew(self) -> None:
        try:
            await self.load()
        finally:
            self._renewal = None
            self._renew_at = self._clock.monotonic() + RENEWAL_PAUSE

    async def close(self) -> None:
        """Stop a renewal under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)


async def _authorization(configuration: Any) -> str:
    """The header as the configuration gives it: through its public settings, so that a fault there shows as anonymity."""
    try:
        settings = configuration.auth_settings()
        if inspect.isawaitable(settings):  # a coroutine in some versions of the package only
            settings = await settings
    except Exception as error:
        message = f"the token cannot be read: {error}"
        raise CredentialsError(message) from error
    return str((settings.get("BearerToken") or {}).get("value") or "").strip()


def _details_of(loaded: Loaded, authorization: str) -> ConnectionDetails:
    configuration = loaded.configuration
    scheme, _, token = authorization.partition(" ")
    server = configuration.host.rstrip("/")
    return ConnectionDetails(
        server=server,
        ca_path=configuration.ssl_ca_cert or "",
        # The package writes "bearer" for service accounts; some proxies only know the capital letter.
        scheme=scheme.capitalize(),
        token=token.strip(),
        cert_path=configuration.cert_file or "",
        key_path=configuration.key_file or "",
        insecure=not configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or environment_proxy(server),
        namespace=loaded.namespace,
    )


def _ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
