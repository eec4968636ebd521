"""OpenTelemetry spans, where its API is installed (`konverge[otel]`): reconciles and requests flow in, spans flow out.

A reconcile is a span; a request to the API server made during it is a child of it. Which provider gets them is
OpenTelemetry's own affair (`opentelemetry-instrument`, or a user's module that sets one). Without the package or a
provider, `tracer()` is an object that does nothing, so that nothing is paid.
"""

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, Final, Protocol

NAME: Final = "konverge"

Ended = Callable[[str, str], None]
"""Called with the result of a reconcile (a metric's label) and a message, empty where all is well."""


class Tracer(Protocol):
    """What is traced."""

    def reconcile(self, controller: str, key: str, reconcile_id: str) -> AbstractContextManager[Ended]:
        """A reconcile runs inside the context; call what it yields with how it ended."""
        ...

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """A request to the API server just ended, `seconds` after it began; `code` is its HTTP status or `<error>`."""
        ...


_NOTHING: Final[AbstractContextManager[Ended]] = nullcontext(lambda _result, _message: None)


class NoTracer:
    """Traces nothing."""

    def reconcile(self, controller: str, key: str, reconcile_id: str) -> AbstractContextManager[Ended]:  # noqa: ARG002
        """See Tracer."""
        return _NOTHING

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """See Tracer."""


class SpanTracer:
    """Makes spans through an OpenTelemetry tracer provider; `api` is its module `opentelemetry.trace`.

    Without `provider` it is the one that is set for the process, whenever that is; until then there are no spans.
    """

    def __init__(self, api: Any, provider: Any = None) -> None:
        self._api, self._given = api, provider is not None
        self._tracer = api.get_tracer(NAME, tracer_provider=provider)

    def reconcile(self, controller: str, key: str, reconcile_id: str) -> AbstractContextManager[Ended]:
        """See Tracer."""
        return self._span(controller, key, reconcile_id) if self._heard() else _NOTHING

    def _heard(self) -> bool:
        """Whether anybody listens: spans that nobody gets would still cost."""
        return self._given or not isinstance(self._api.get_tracer_provider(), self._api.ProxyTracerProvider)

    @contextmanager
    def _span(self, controller: str, key: str, reconcile_id: str) -> Generator[Ended]:
        attributes = {
            "konverge.controller": controller,
            "konverge.object": key,
            "konverge.reconcile_id": reconcile_id,
        }
        with self._tracer.start_as_current_span(f"reconcile {controller}", attributes=attributes) as span:

            def ended(result: str, message: str) -> None:
                span.set_attribute("konverge.result", result)
                if result == "error":
                    span.set_status(self._api.StatusCode.ERROR, message)

            yield ended

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """See Tracer. A request outside of any span, such as a watch of an informer, makes none."""
        if not self._api.get_current_span().get_span_context().is_valid:
            return
        now = time.time_ns()
        attributes: dict[str, Any] = {"http.request.method": method, "server.address": host}
        if code.isdecimal():
            attributes["http.response.status_code"] = int(code)
        span = self._tracer.start_span(
            method, kind=self._api.SpanKind.CLIENT, attributes=attributes, start_time=now - int(seconds * 1e9)
        )
        if not code.isdecimal() or int(code) >= 400:
            span.set_status(self._api.StatusCode.ERROR, code)
        span.end(now)


def tracer() -> Tracer:
    """Spans where a provider is set by now, else nothing: spans that nobody gets would only cost time."""
    try:
        api = import_module("opentelemetry.trace")
    except ImportError:
        return NoTracer()
    return NoTracer() if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider) else SpanTracer(api)
