"""From flags to a client that the server knows: find credentials, load them, and make sure that they arrive.

The check is worth a request. A client whose credentials get lost on the way is `system:anonymous` to the server, and
would only see every list forbidden. Release 36.0.0 of the `kubernetes` package did that: it stored the token under one
name and looked for it under another.
"""

from importlib.metadata import version

from konverge.errors import CredentialsError, Forbidden, NotFound, Unauthorized
from konverge.kube.auth import Credentials
from konverge.kube.client import Client
from konverge.kube.gate import WriteGate
from konverge.kube.kubeconfig import find_source
from konverge.kube.retry import Retrier, RetryPolicy
from konverge.kube.transport import RequestObserver, Transport
from konverge.ports import Clock, Random

ANONYMOUS = "system:anonymous"


async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    clock: Clock,
    random: Random,
    gate: WriteGate | None = None,
    observer: RequestObserver | None = None,
    retry: RetryPolicy | None = None,
    request_timeout: float = 30.0,
    check: bool = True,
) -> Client:
    """A client for the cluster that the flags, the environment or the pod point to (see `find_source`).

    With `check`, the server is asked who we are; it must be reachable then. Without, nothing is sent.
    `request_timeout` is in seconds, for every request but a watch.

    Raises: CredentialsError; ConnectionFailed and ApiError when the check gets no usable answer.
    """
    credentials = Credentials(find_source(kubeconfig, context), clock=clock)
    await credentials.load()
    transport = Transport(credentials, clock=clock, observer=observer, request_timeout=request_timeout)
    client = Client(transport, Retrier(clock=clock, random=random, policy=retry), gate=gate)
    if check:
        try:
            await require_identity(client, credentials.source.description)
        except BaseException:
            await client.close()
            raise
    return client


async def require_identity(client: Client, source: str) -> None:
    """Make sure that the server knows us. `source` is named in errors.

    Raises: CredentialsError when we are anonymous or refused; any other ApiError; ConnectionFailed.
    """
    server = client.credentials().server
    try:
        user = await client.whoami()
    except Unauthorized as error:
        message = f"{server} refuses the credentials of {source}: {error.message}. Log in again, or {_version_hint()}"
        raise CredentialsError(message) from error
    except Forbidden as error:
        # Everyone who is authenticated may ask; who may not is anonymous, or under a policy that says so.
        if ANONYMOUS not in error.message:
            return
        user = ANONYMOUS
    except NotFound:
        # Servers before 1.28 cannot be asked. What we can tell is whether there is anything to send.
        details = client.credentials()
        user = "unknown" if details.token or details.cert_path else ANONYMOUS
    if user == ANONYMOUS:
        message = (
            f"{server} takes us for {ANONYMOUS}: the credentials of {source} are missing or did not arrive. "
            f"Check that its user has a token, a certificate or an exec plugin, and {_version_hint()}"
        )
        raise CredentialsError(message)


def _version_hint() -> str:
    return (
        f"check the `kubernetes` package: {version('kubernetes')} is installed, and 36.0.0 sent no Authorization header "
        "(36.0.1 or later does)"
    )
