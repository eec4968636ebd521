"""Spans of reconciles and of the requests they make, with OpenTelemetry's SDK as the listener."""

import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from konverge.runtime.context import Context
from konverge.runtime.controller import Controller
from konverge.runtime.result import Result
from konverge.runtime.tracing import NoTracer, SpanTracer, tracer
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, World


class Traced:
    """A tracer whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = SpanTracer(trace, provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()


def test_a_reconcile_is_a_span_and_its_requests_are_children() -> None:
    traced = Traced()
    with traced.tracer.reconcile("gadget", "team/one", "f00d") as ended:
        traced.tracer.request("PATCH", "api:6443", "200", 0.25)
        ended("success", "")
    request, reconcile = traced.spans
    assert reconcile.name == "reconcile gadget"
    assert dict(reconcile.attributes or {}) == {
        "konverge.controller": "gadget",
        "konverge.object": "team/one",
        "konverge.reconcile_id": "f00d",
        "konverge.result": "success",
    }
    assert reconcile.status.is_ok or reconcile.status.is_unset
    assert (request.name, request.kind) == ("PATCH", trace.SpanKind.CLIENT)
    assert dict(request.attributes or {}) == {
        "http.request.method": "PATCH",
        "server.address": "api:6443",
        "http.response.status_code": 200,
    }
    assert request.parent is not None
    assert request.parent.span_id == reconcile.context.span_id
    assert request.start_time is not None
    assert request.end_time is not None
    assert request.end_time - request.start_time == 250_000_000


@pytest.mark.parametrize("code", ["409", "500", "<error>"])
def test_what_failed_is_marked(code: str) -> None:
    traced = Traced()
    with traced.tracer.reconcile("gadget", "one", "f00d") as ended:
        traced.tracer.request("PUT", "api", code, 0.1)
        ended("error", "no route")
    request, reconcile = traced.spans
    assert request.status.status_code is trace.StatusCode.ERROR
    assert (reconcile.status.status_code, reconcile.status.description) == (trace.StatusCode.ERROR, "no route")


def test_a_request_outside_of_a_reconcile_makes_no_span() -> None:
    traced = Traced()
    traced.tracer.request("GET", "api", "200", 0.1)
    assert traced.spans == ()


@simulate()
async def test_each_reconcile_of_a_controller_is_one_span_with_its_result(sim: Sim) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        if gadget.name == "bad":
            raise ValueError("no route")
        return Result.done()

    traced = Traced()
    world = World(sim, GadgetReconciler(step))
    world.controller = Controller(
        world.reconciler,
        api=world.api,
        caches=world.caches,
        recorder=world.recorder,
        clock=sim.clock,
        random=sim.random,
        metrics=world.metrics.controller("traced", workers=1),
        tracer=traced.tracer,
    )
    world.manager._controllers = [world.controller]
    await world.create("good")
    await world.create("bad")
    world.start()
    await sim.until(lambda: world.ready("good") and world.condition(name="bad").get("status") == "False")
    await sim.clock.sleep(0.001)
    results = {
        (span.attributes["konverge.object"], span.attributes["konverge.result"])
        for span in traced.spans
        if span.attributes
    }
    assert results == {("default/good", "success"), ("default/bad", "error")}


def test_without_a_listener_there_are_no_spans() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    with SpanTracer(trace).reconcile("gadget", "one", "f00d") as ended:
        assert not trace.get_current_span().get_span_context().is_valid
        ended("success", "")


def test_spans_are_made_where_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(tracer(), NoTracer)
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    assert isinstance(tracer(), SpanTracer)


def test_without_the_package_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    without = tracer()
    assert isinstance(without, NoTracer)
    without.request("GET", "api", "200", 0.1)
    with without.reconcile("gadget", "one", "f00d") as ended:
        ended("success", "")
