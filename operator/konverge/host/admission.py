"""Webhooks on kopf's admission server: the API server's requests flow in, the answers of our hooks flow out.

kopf listens, and has the handlers of a user's kopf modules answer; ours are answered in front of its engine. That one
knows only the resources that it found when it started, and takes whatever a handler raises for a refusal, where the
failure policy has to hold. kopf manages no webhook configurations (it would have them wait 30 s): `konverge webhooks`
writes them. Every replica serves: it is about requests, not about what is in the cluster.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import kopf
from aiohttp import web

from konverge.errors import ConfigError
from konverge.host.endpoints import parse_address
from konverge.model.resource import Object
from konverge.model.review import BadReview
from konverge.runtime.metrics import WebhookMetrics

logger = logging.getLogger(__name__)

MAX_REVIEW: Final = 16 * 1024 * 1024
"""The bytes of a review that are read. The API server takes 3 MiB of an object, and sends the stored one along."""

Answer = Callable[[Object], Mapping[str, Any]]
"""A review in, a review out; at once, for it runs in the event loop. Raises: BadReview for what it cannot read."""


class Webhooks:
    """What listens at `address` with `tls` and gives the `answers`, by path without the leading slash.

    It is what kopf takes as its admission server; other paths are kopf's. Raises: ConfigError for a bad address.
    """

    def __init__(
        self, address: str, tls: ssl.SSLContext, answers: Mapping[str, Answer], metrics: WebhookMetrics
    ) -> None:
        at = parse_address("webhook", address)
        if at is None or not at.port:
            raise ConfigError(f"webhook address {address!r} has no port to listen on; give one, such as :9443")
        self._server = _Server(addr=at.host, port=at.port, context=tls)
        self._address, self._answers, self._metrics = address, answers, metrics
        self._serving = False

    @property
    def trouble(self) -> str | None:
        """Why no webhook is answered, None while they are."""
        return None if self._serving else f"webhooks are not served at {self._address} yet"

    async def __call__(self, others: Callable[..., Any]) -> AsyncIterator[Any]:
        """Listen until cancelled; yields once it does. `others` is kopf's engine."""

        async def answer(request: Any, *, webhook: str | None = None, headers: Any = None, sslpeer: Any = None) -> Any:
            if webhook is not None and webhook in self._answers:
                return self._measured(webhook, request)
            return await others(request, webhook=webhook, headers=headers, sslpeer=sslpeer)

        async with self._server as server:
            try:
                async for config in server(answer):
                    self._serving = True
                    logger.info("serving webhooks on %s: %s", self._address, ", ".join(self._answers) or "kopf's only")
                    yield config
            finally:
                self._serving = False

    def _measured(self, webhook: str, review: Any) -> Mapping[str, Any]:
        clock = asyncio.get_running_loop().time
        started, code = clock(), 500
        try:
            with self._metrics.in_flight(webhook):
                answer = self._answer(webhook, review)
            code = 200
        except web.HTTPException as error:
            code = error.status
            raise
        finally:
            self._metrics.answered(webhook, code, clock() - started)
        return answer

    def _answer(self, webhook: str, review: Any) -> Mapping[str, Any]:
        if not isinstance(review, dict):
            raise web.HTTPBadRequest(text="an admission review is a JSON object")
        try:
            return self._answers[webhook](review)
        except BadReview as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        except Exception as error:
            logger.exception("the hook %s failed; its failure policy holds", webhook)
            raise web.HTTPInternalServerError(text=f"{type(error).__name__}: {error}") from error


class _Server(kopf.WebhookServer):
    """kopf's server, of which two things have no public way.

    The TLS context is complete: kopf would load a pair into it, or make one itself. And a review may be larger than
    aiohttp's limit of 1 MiB: it holds an object twice.
    """

    @staticmethod
    async def _serve(fn: Any, request: web.Request) -> web.Response:
        return await kopf.WebhookServer._serve(fn, request.clone(client_max_size=MAX_REVIEW))  # noqa: SLF001 - see above

    def _build_ssl(self) -> tuple[bytes | None, ssl.SSLContext | None]:
        return None, self.context
