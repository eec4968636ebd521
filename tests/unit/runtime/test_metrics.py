"""The metrics: their names, what feeds them, and that their labels are bounded."""

import asyncio
import itertools
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from konverge.errors import ApiError, ConnectionFailed
from konverge.runtime.context import Context
from konverge.runtime.metrics import MAX_PROFILES, Metrics
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, LampReconciler, World, mirror, nothing_left

CONTROLLER_RUNTIME = {
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_errors_total": {"controller"},
    "controller_runtime_terminal_reconcile_errors_total": {"controller"},
    "controller_runtime_reconcile_panics_total": {"controller"},
    "controller_runtime_reconcile_timeouts_total": {"controller"},
    "controller_runtime_reconcile_time_seconds": {"controller"},
    "controller_runtime_max_concurrent_reconciles": {"controller"},
    "controller_runtime_active_workers": {"controller"},
    "workqueue_depth": {"name", "controller", "priority"},
    "workqueue_adds_total": {"name", "controller"},
    "workqueue_queue_duration_seconds": {"name", "controller"},
    "workqueue_work_duration_seconds": {"name", "controller"},
    "workqueue_unfinished_work_seconds": {"name", "controller"},
    "workqueue_longest_running_processor_seconds": {"name", "controller"},
    "workqueue_retries_total": {"name", "controller"},
    "controller_runtime_webhook_latency_seconds": {"webhook"},
    "controller_runtime_webhook_requests_total": {"webhook", "code"},
    "controller_runtime_webhook_requests_in_flight": {"webhook"},
    "leader_election_master_status": {"name"},
    "rest_client_requests_total": {"code", "method", "host"},
}
SCHEDULER = {
    "scheduler_schedule_attempts_total": {"result", "profile"},
    "scheduler_scheduling_attempt_duration_seconds": {"result", "profile"},
    "scheduler_pending_pods": {"queue"},
    "scheduler_plugin_execution_duration_seconds": {"plugin", "extension_point", "status"},
    "scheduler_framework_extension_point_duration_seconds": {"extension_point", "status", "profile"},
    "scheduler_pod_scheduling_sli_duration_seconds": {"attempts"},
    "scheduler_pod_scheduling_attempts": set(),
    "scheduler_queue_incoming_pods_total": {"queue", "event"},
    "scheduler_queueing_hint_execution_duration_seconds": {"plugin", "event", "hint"},
    "scheduler_preemption_attempts_total": set(),
    "scheduler_preemption_victims": set(),
}
OURS = {
    "konverge_phase_transitions_total": {"kind", "from", "to"},
    "konverge_phase_seconds": {"kind", "phase"},
    "konverge_cache_objects": {"resource", "namespace"},
    "konverge_cache_healthy": {"resource", "namespace"},
    "konverge_cache_relists_total": {"resource", "namespace"},
    "konverge_events_dropped_total": set(),
}
PROCESS = ("process_", "python_")


def page(metrics: Metrics) -> dict[str, Any]:
    """The families of a metrics page by the name under which they are asked for."""
    text = metrics.exposition()[0].decode()
    families = text_string_to_metric_families(text)
    return {f"{each.name}_total" if each.type == "counter" else each.name: each for each in families}


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def everything() -> dict[str, Any]:
    """A metrics page after everything has happened once."""
    metrics, pages = Metrics(), list[dict[str, Any]]()
    controller = metrics.controller("gadget", workers=4)
    controller.transition("Lamp", "Off", "On", 3.0)
    metrics.scheduler().attempt("fast", "scheduled", 0.1)
    metrics.scheduler().pending(1, 2, 3)
    metrics.scheduler().plugin("NodeName", "Filter", "Success", 0.001)
    metrics.scheduler().extension_point("fast", "Filter", "Success", 0.001)
    metrics.scheduler().scheduled(1, 0.1)
    metrics.scheduler().queued("active", "PodAdd")
    metrics.scheduler().hint("NodePorts", "PodGone", "Queue", 0.001)
    metrics.scheduler().preemption(2)
    metrics.leads("lease", now=True)
    with metrics.webhooks().in_flight("validate/gadgets"):
        metrics.webhooks().answered("validate/gadgets", 200, 0.1)
    metrics.request("GET", "host", "200")

    @simulate()
    async def scenario(sim: Sim) -> None:
        world = World(sim, GadgetReconciler(), metrics=metrics)
        metrics.watch_caches(world.caches, world.recorder)
        await world.create()
        world.start()
        await sim.until(world.ready)
        pages.append(page(metrics))

    scenario(seed=0)
    return pages[0]


def test_the_names_and_labels_are_these_and_no_others() -> None:
    """Dashboards and alerts hang on them: a change here breaks somebody."""
    families = everything()
    labels = {
        name: {label for sample in family.samples for label in sample.labels} - {"le"}
        for name, family in families.items()
        if not name.startswith(PROCESS)
    }
    assert labels == {**CONTROLLER_RUNTIME, **SCHEDULER, **OURS}


def test_the_process_is_measured_too() -> None:
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= set(page(Metrics()))


def outcome(step: Any, *, seconds: float = 30) -> World:
    """A world whose only gadget was reconciled with `step` for so long."""
    worlds: list[World] = []

    @simulate()
    async def scenario(sim: Sim) -> None:
        world = World(sim, GadgetReconciler(step))
        worlds.append(world)
        await world.create()
        world.start()
        await sim.clock.sleep(seconds)
        await world.shut_down()

    scenario(seed=0)
    return worlds[0]


def exits(_: Any, __: Context) -> Any:
    raise SystemExit(3)


async def awaits_what_was_cancelled(gadget: Any, ctx: Context) -> Result:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
    return Result.done()


async def exits_later(gadget: Any, ctx: Context) -> Result:
    exits(gadget, ctx)
    return Result.done()


@pytest.mark.parametrize("step", [exits, exits_later, awaits_what_was_cancelled])
def test_what_is_no_ordinary_exception_is_counted_and_stays_with_its_object(step: Any) -> None:
    """`sys.exit()` in a library would end the process, a stray cancellation its worker."""
    calls = itertools.count(1)

    async def unruly(gadget: Any, ctx: Context) -> Result:
        if next(calls) <= 20:
            await step(gadget, ctx)
        return await mirror(gadget, ctx)

    world = outcome(unruly, seconds=20_000)
    assert value(world.metrics, "controller_runtime_reconcile_panics_total", controller="gadget") == 20
    assert value(world.metrics, "controller_runtime_reconcile_errors_total", controller="gadget") == 20
    assert world.ready()


def test_an_ordinary_exception_is_an_error_and_no_panic() -> None:
    async def broken(gadget: Any, ctx: Context) -> Result:
        raise ConnectionFailed("no")

    metrics = outcome(broken).metrics
    assert value(metrics, "controller_runtime_reconcile_panics_total", controller="gadget") == 0
    errors = value(metrics, "controller_runtime_reconcile_errors_total", controller="gadget")
    assert errors == value(metrics, "controller_runtime_reconcile_total", controller="gadget", result="error")
    assert errors is not None
    assert errors > 0


@simulate()
async def test_work_under_way_is_read_at_each_scrape(sim: Sim) -> None:
    async def slow(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(25)
        return await mirror(gadget, ctx)

    world = World(sim, GadgetReconciler(slow)).start()
    labels = {"name": "gadget", "controller": "gadget"}
    await world.create("one")
    await sim.clock.sleep(10)
    await world.create("two")
    await sim.clock.sleep(10)
    longest = value(world.metrics, "workqueue_longest_running_processor_seconds", **labels)
    unfinished = value(world.metrics, "workqueue_unfinished_work_seconds", **labels)
    assert longest == pytest.approx(20, abs=1)
    assert unfinished == pytest.approx(30, abs=2)
    await sim.clock.sleep(30)
    assert value(world.metrics, "workqueue_longest_running_processor_seconds", **labels) == 0


@simulate()
async def test_phases_are_counted_when_they_are_in_the_status_with_the_time_in_the_one_before(sim: Sim) -> None:
    async def step(lamp: Any, ctx: Context) -> Result:
        if ctx.phase.current is None:
            ctx.phase.to("Off")
            return Result.after(40)
        if ctx.phase.current == "Off":
            ctx.phase.to("Warming")
            return Result.after(5)
        ctx.phase.to("On")
        return await nothing_left(lamp, ctx)

    world = World(sim, LampReconciler(step)).start()
    await world.create()
    await sim.until(lambda: ((world.get() or {}).get("status") or {}).get("phase") == "On")
    await sim.clock.sleep(1)
    transitions = {
        (sample.labels["from"], sample.labels["to"]): sample.value
        for sample in page(world.metrics)["konverge_phase_transitions_total"].samples
    }
    assert transitions == {("", "Off"): 1, ("Off", "Warming"): 1, ("Warming", "On"): 1}
    assert value(world.metrics, "konverge_phase_seconds_sum", kind="Lamp", phase="Off") == pytest.approx(40, abs=2)


@simulate()
async def test_a_phase_that_nobody_declares_makes_no_label(sim: Sim) -> None:
    async def step(lamp: Any, ctx: Context) -> Result:
        if ctx.phase.current == "Off":
            return Result.done()
        ctx.phase.to("Off")
        return Result.done()

    world = World(sim, LampReconciler(step))
    await world.create()
    await world.api.client("person").patch(
        world.resource, "one", {"status": {"phase": "Haunted"}}, "default", subresource="status"
    )
    world.start()
    await sim.clock.sleep(10)
    samples = page(world.metrics).get("konverge_phase_transitions_total")
    assert samples is None or all(sample.labels["from"] in {"", "unknown", "Off"} for sample in samples.samples)


def test_priorities_share_two_labels_and_their_depths_add_up() -> None:
    metrics = Metrics()
    controller = metrics.controller("gadget", workers=1)
    for priority, depth in ((0, 1), (7, 2), (-100, 4), (-3, 8), (0, 0)):
        controller.on_depth(priority, depth)
    samples = page(metrics)["workqueue_depth"].samples
    assert {sample.labels["priority"]: sample.value for sample in samples} == {"0": 2, "-100": 12}


@pytest.mark.parametrize(
    ("method", "code", "labels"),
    [
        ("PATCH", "409", ("PATCH", "409")),
        ("GET", "<error>", ("GET", "<error>")),
        ("BREW", "418", ("other", "418")),
        ("GET", "anything", ("GET", "<error>")),
    ],
)
def test_requests_are_labelled_by_what_http_has(method: str, code: str, labels: tuple[str, str]) -> None:
    metrics = Metrics()
    metrics.request(method, "api:6443", code)
    assert value(metrics, "rest_client_requests_total", method=labels[0], code=labels[1], host="api:6443") == 1


def test_profiles_beyond_a_number_share_a_label() -> None:
    metrics = Metrics()
    observer = metrics.scheduler()
    for number in range(MAX_PROFILES + 50):
        observer.attempt(f"profile-{number}", "unschedulable", 0.01)
    profiles = {sample.labels["profile"] for sample in page(metrics)["scheduler_schedule_attempts_total"].samples}
    assert len(profiles) == MAX_PROFILES + 1
    assert value(metrics, "scheduler_schedule_attempts_total", profile="other", result="unschedulable") == 50


def test_a_pod_that_took_many_attempts_shares_a_label_with_others() -> None:
    metrics = Metrics()
    for attempts in (1, 14, 15, 400):
        metrics.scheduler().scheduled(attempts, 1.0)
    counts = {
        label: value(metrics, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts=label)
        for label in ("1", "14", "15+")
    }
    assert counts == {"1": 1, "14": 1, "15+": 2}


def test_a_preemption_without_victims_is_an_attempt_only() -> None:
    metrics = Metrics()
    for victims in (0, 3):
        metrics.scheduler().preemption(victims)
    assert value(metrics, "scheduler_preemption_attempts_total") == 2
    assert value(metrics, "scheduler_preemption_victims_sum") == 3
    assert value(metrics, "scheduler_preemption_victims_count") == 1


def test_pending_pods_are_counted_by_queue() -> None:
    metrics = Metrics()
    metrics.scheduler().pending(active=1, backoff=2, unschedulable=3)
    assert [
        value(metrics, "scheduler_pending_pods", queue=queue) for queue in ("active", "backoff", "unschedulable")
    ] == [1, 2, 3]


@simulate()
async def test_a_resource_that_is_cached_in_parts_is_one_series_and_each_part_has_a_check(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    world.metrics.watch_caches(world.caches, world.recorder)
    world.caches.cache(world.resource, label_selector="tier=gold")
    world.caches.cache(world.resource, metadata_only=True)
    world.caches.cache(world.resource, left_out=("spec.parts",))
    await world.create("one", labels={"tier": "gold"})
    await world.create("two")
    world.start()
    await sim.until(lambda: world.ready("one") and world.ready("two"))
    await sim.clock.sleep(1)
    samples = page(world.metrics)["konverge_cache_objects"].samples
    found = {sample.labels["resource"]: sample.value for sample in samples}
    assert len(samples) == len(found)
    assert found[str(world.resource)] == 2 + 1 + 2 + 2
    assert set(world.manager.health()) == {
        "caches-synced",
        "informer-configmaps",
        f"informer-{world.resource}",
        f"informer-{world.resource}-tier=gold",
        f"informer-{world.resource}-metadata",
        f"informer-{world.resource}-lean",
    }


@simulate()
async def test_relists_are_counted_and_dropped_events_too(sim: Sim) -> None:
    world = World(sim, GadgetReconciler())
    world.metrics.watch_caches(world.caches, world.recorder)
    obj = await world.create()
    world.start()
    await sim.until(world.ready)
    labels = {"resource": str(world.resource), "namespace": ""}
    assert value(world.metrics, "konverge_cache_relists_total", **labels) == 0
    world.api.end_watches(world.resource, ApiError.of(410, "Expired", "too old"))
    await sim.until(lambda: (value(world.metrics, "konverge_cache_relists_total", **labels) or 0) >= 1)
    for number in range(40):
        world.recorder.event(obj, "Normal", f"Reason{number}", "one of very many")
    assert value(world.metrics, "konverge_events_dropped_total") == 40 - 25
