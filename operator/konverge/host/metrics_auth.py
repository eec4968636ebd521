"""Who may read /metrics from another machine: a bearer token flows in, the API server's judgement flows out.

As controller-runtime does it: a TokenReview says whose token it is, a SubjectAccessReview whether that one may `get` the
path. So Prometheus needs no secret of its own, only its ServiceAccount and a ClusterRole with
`nonResourceURLs: ["/metrics"]`. Verdicts are kept for a while, by the token's hash, and few are asked for at once: whoever
sends rubbish must not make us flood the API server.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from aiohttp import web

from konverge.errors import ConfigError, KonvergeError
from konverge.host.endpoints import is_loopback, parse_address
from konverge.ports import Clock

logger = logging.getLogger(__name__)

Mode = Literal["auto", "always", "never"]
"""When a token is asked for: beyond loopback, always, never."""

Review = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""POSTs a review to a path of the API server, and gives back its answer. Raises: ApiError; ConnectionFailed."""

ALLOWED_SECONDS: Final = 60.0
"""How long a token may go on after it was revoked; controller-runtime keeps verdicts as long."""
REFUSED_SECONDS: Final = 10.0
MAX_VERDICTS: Final = 1024
MAX_REVIEWS: Final = 4
REVIEW_TIMEOUT: Final = 5.0
"""Half of what Prometheus waits for a scrape by default."""

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESSES: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_NEEDED: Final = (
    "the operator needs `create` on tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io"
)


class Verdict(NamedTuple):
    """An answer for those who are not let in; status 200 for those who are."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class _Kept:
    verdict: Verdict
    until: float


class ReviewedAccess:
    """Asks the API server who may come in."""

    def __init__(self, review: Review, clock: Clock) -> None:
        self._review, self._clock = review, clock
        self._kept: dict[bytes, _Kept] = {}
        self._slots = asyncio.Semaphore(MAX_REVIEWS)

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Why the request is not answered; None where it is."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            verdict = await self._judge(token.strip(), request.path)
        else:
            verdict = Verdict(401, "a bearer token of this cluster is needed, such as a ServiceAccount's")
        if verdict.status == 200:
            return None
        answer = web.Response(status=verdict.status, text=f"{verdict.text}\n")
        if verdict.status == 401:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    async def _judge(self, token: str, path: str) -> Verdict:
        key = hashlib.sha256(token.encode()).digest()
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() < kept.until:
            return kept.verdict
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT), self._slots:
                verdict = await self._ask(token, path)
        except (KonvergeError, TimeoutError) as error:
            logger.warning("cannot tell who may read %s: %s; %s", path, str(error) or "no answer in time", _NEEDED)
            return Verdict(503, "the API server could not be asked who you are; the operator's log says why")
        self._keep(key, verdict)
        return verdict

    async def _ask(self, token: str, path: str) -> Verdict:
        identity = (await self._review(_TOKENS, _body("authentication.k8s.io", "TokenReview", token=token)))["status"]
        if not identity.get("authenticated"):
            return Verdict(401, "the API server does not know this token; it may have expired")
        user = identity.get("user", {})
        asked = {"user": user.get("username", ""), "uid": user.get("uid", ""), "groups": user.get("groups", [])}
        access = _body(
            "authorization.k8s.io",
            "SubjectAccessReview",
            **asked,
            extra=user.get("extra", {}),
            nonResourceAttributes={"path": path, "verb": "get"},
        )
        if (await self._review(_ACCESSES, access))["status"].get("allowed"):
            return Verdict(200, "")
        return Verdict(
            403,
            f"{asked['user']} may not get {path}; bind a ClusterRole to it with "
            f'nonResourceURLs: ["{path}"] and verbs: ["get"], such as konverge-metrics-reader',
        )

    def _keep(self, key: bytes, verdict: Verdict) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= MAX_VERDICTS:
            del self._kept[next(iter(self._kept))]  # the oldest
        seconds = ALLOWED_SECONDS if verdict.status == 200 else REFUSED_SECONDS
        self._kept[key] = _Kept(verdict, self._clock.monotonic() + seconds)


def metrics_guard(address: str, mode: Mode, *, tls: bool, review: Review, clock: Clock) -> ReviewedAccess | None:
    """What guards /metrics at `address`; None where anybody may read it.

    Raises: ConfigError where tokens would cross the network unencrypted.
    """
    where = parse_address("metrics", address)
    if where is None or mode == "never":
        return None
    beyond = not is_loopback(where.host)
    if beyond and not tls:
        raise ConfigError(
            f"metrics address {address!r} can be reached from other machines, and the tokens of those who ask would be "
            "readable on the way: serve TLS with --metrics-cert-dir, listen on 127.0.0.1, or let anybody read the metrics "
            "with --metrics-auth never"
        )
    return ReviewedAccess(review, clock) if beyond or mode == "always" else None


def _body(group: str, kind: str, **spec: Any) -> Mapping[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
