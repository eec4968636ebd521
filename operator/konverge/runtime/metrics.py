"""Prometheus metrics under controller-runtime's and kube-scheduler's names, so that their dashboards and alerts work.

One `Metrics` a process holds them all on a registry of its own; parts are handed the small views they need. What is a
state rather than an event (caches, work under way) is read when the metrics are asked for (`runtime/gauges`). The values
of every label are bounded: by what is declared, by HTTP, or by a catch-all.
"""

from collections import Counter as Tally
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from konverge.cache.informer import Caches
from konverge.runtime.events import EventRecorder
from konverge.runtime.gauges import CacheGauges, QueueGauges
from konverge.workqueue.sharded import Queue

RECONCILE_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
QUEUE_BUCKETS: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
PHASE_BUCKETS: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400)
RESULTS: Final = ("success", "error", "requeue", "requeue_after")
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
OTHER: Final = "other"
WEBHOOK_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
PLUGIN_BUCKETS: Final = tuple(1e-5 * 1.5**step for step in range(20))
POINT_BUCKETS: Final = tuple(1e-4 * 2**step for step in range(12))
SLI_BUCKETS: Final = tuple(0.01 * 2**step for step in range(20))
MANY_ATTEMPTS: Final = 15
"""From so many attempts on, pods share the label `15+`."""
MAX_PROFILES: Final = 100
"""How many scheduler profiles have a label of their own."""


class Metrics:
    """Every metric of the process."""

    def __init__(self) -> None:
        # The Go libraries have no such series either, and they double the number.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.reconcile_total = _counter(registry, "controller_runtime_reconcile", "Reconciles by result.", "result")
        self.reconcile_errors = _counter(registry, "controller_runtime_reconcile_errors", "Reconciles that failed.")
        self.terminal_errors = _counter(
            registry, "controller_runtime_terminal_reconcile_errors", "Reconciles that failed and are not retried."
        )
        self.panics = _counter(
            registry, "controller_runtime_reconcile_panics", "Reconciles that raised what is no ordinary exception."
        )
        self.timeouts = _counter(registry, "controller_runtime_reconcile_timeouts", "Reconciles that took too long.")
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile took.",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self.max_concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers.", ["controller"], registry=registry
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers", "Workers that reconcile now.", ["controller"], registry=registry
        )
        self.depth = Gauge(
            "workqueue_depth", "Keys that are ready.", ["name", "controller", "priority"], registry=registry
        )
        self.adds = _queue_counter(registry, "workqueue_adds", "Keys added.")
        self.retries = _queue_counter(registry, "workqueue_retries", "Keys added with a delay.")
        self.queue_duration = _queue_histogram(
            registry, "workqueue_queue_duration_seconds", "How long a key waited in the queue."
        )
        self.work_duration = _queue_histogram(
            registry, "workqueue_work_duration_seconds", "How long a key was worked on."
        )
        self.master = Gauge("leader_election_master_status", "1 while this replica leads.", ["name"], registry=registry)
        self.requests = Counter(
            "rest_client_requests", "Requests to the API server.", ["code", "method", "host"], registry=registry
        )
        self.transitions = Counter(
            "konverge_phase_transitions", "Changes of phase.", ["kind", "from", "to"], registry=registry
        )
        self.phase_seconds = Histogram(
            "konverge_phase_seconds",
            "How long an object stayed in a phase that it left.",
            ["kind", "phase"],
            buckets=PHASE_BUCKETS,
            registry=registry,
        )
        self.attempts = Counter(
            "scheduler_schedule_attempts", "Attempts to place a pod.", ["result", "profile"], registry=registry
        )
        self.attempt_time = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt to place a pod took, with its bind.",
            ["result", "profile"],
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        self.pending_pods = Gauge("scheduler_pending_pods", "Pods that wait, by queue.", ["queue"], registry=registry)
        self.plugin_time = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long a call of a plugin took, of one attempt in ten; those that failed are all here.",
            ["plugin", "extension_point", "status"],
            buckets=PLUGIN_BUCKETS,
            registry=registry,
        )
        self.point_time = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took, of one attempt in ten.",
            ["extension_point", "status", "profile"],
            buckets=POINT_BUCKETS,
            registry=registry,
        )
        self.scheduling_sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod was first queued to when it was bound.",
            ["attempts"],
            buckets=SLI_BUCKETS,
            registry=registry,
        )
        self.scheduling_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took to place a pod.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self.incoming_pods = Counter(
            "scheduler_queue_incoming_pods",
            "Pods that came into a queue, by what brought them.",
            ["queue", "event"],
            registry=registry,
        )
        self.hint_time = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin took to say whether an event may help pods that it turned away.",
            ["plugin", "event", "hint"],
            buckets=PLUGIN_BUCKETS,
            registry=registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Attempts to make room by preemption.", registry=registry
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Pods evicted to make room for one.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.webhook_latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "How long an answer to a webhook took.",
            ["webhook"],
            buckets=WEBHOOK_BUCKETS,
            registry=registry,
        )
        self.webhook_requests = Counter(
            "controller_runtime_webhook_requests",
            "Webhook requests by HTTP status.",
            ["webhook", "code"],
            registry=registry,
        )
        self.webhook_in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Webhook requests being answered.",
            ["webhook"],
            registry=registry,
        )
        self._queues = QueueGauges()
        registry.register(self._queues)

    def controller(self, name: str, workers: int) -> "ControllerMetrics":
        """The view of one controller and its queue."""
        self.max_concurrent.labels(name).set(workers)
        return ControllerMetrics(self, name)

    def scheduler(self) -> "SchedulerMetrics":
        """The scheduler's observer."""
        return SchedulerMetrics(self)

    def webhooks(self) -> "WebhookMetrics":
        """The view of what serves webhooks."""
        return WebhookMetrics(self)

    def watch_queue(self, name: str, queue: Queue[Any]) -> None:
        """Read from `queue`, at each scrape, for how long its work has been under way."""
        self._queues.watch(name, queue)

    def watch_caches(self, caches: Caches, recorder: EventRecorder) -> None:
        """Read from these, at each scrape, what is cached and how many events were dropped. To be called once."""
        self.registry.register(CacheGauges(caches, recorder))

    def request(self, method: str, host: str, code: str) -> None:
        """One request to the API server ended; `code` is the HTTP status, or `<error>` where there was none."""
        known = len(code) == 3 and code.isdecimal()
        self.requests.labels(code if known else "<error>", method if method in METHODS else OTHER, host).inc()

    def leads(self, name: str, *, now: bool) -> None:
        """Whether this replica holds the lease `name`."""
        self.master.labels(name).set(1 if now else 0)

    def exposition(self) -> tuple[bytes, str]:
        """The text format and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class ControllerMetrics:
    """What one controller and its work queue report. It is the queue's observer."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics, self._name = metrics, name
        self._results = {result: metrics.reconcile_total.labels(name, result) for result in RESULTS}
        self._time = metrics.reconcile_time.labels(name)
        self._active = metrics.active_workers.labels(name)
        self._errors = metrics.reconcile_errors.labels(name)
        self._terminal = metrics.terminal_errors.labels(name)
        self._panics = metrics.panics.labels(name)
        self._timeouts = metrics.timeouts.labels(name)
        self._adds = metrics.adds.labels(name, name)
        self._retries = metrics.retries.labels(name, name)
        self._queued = metrics.queue_duration.labels(name, name)
        self._worked = metrics.work_duration.labels(name, name)
        self._depths: Tally[int] = Tally()
        self._totals = {0: 0, -100: 0}
        self._gauges = {bucket: metrics.depth.labels(name, name, str(bucket)) for bucket in (0, -100)}

    def watch(self, queue: Queue[Any]) -> None:
        """The queue of this controller, for what is read at each scrape."""
        self._metrics.watch_queue(self._name, queue)

    @contextmanager
    def active(self) -> Generator[None]:
        """Count a worker as busy."""
        self._active.inc()
        try:
            yield
        finally:
            self._active.dec()

    def reconciled(self, result: str, seconds: float) -> None:
        """A reconcile ended."""
        self._results[result].inc()
        self._time.observe(seconds)

    def failed(self) -> None:
        """A reconcile failed and will be tried again."""
        self._errors.inc()

    def terminal(self) -> None:
        """A reconcile failed for good."""
        self._errors.inc()
        self._terminal.inc()

    def panicked(self) -> None:
        """A reconcile raised what is no ordinary exception, such as SystemExit."""
        self._panics.inc()

    def timed_out(self) -> None:
        """A reconcile was cut off."""
        self._timeouts.inc()

    def transition(self, kind: str, before: str, after: str, seconds: float | None) -> None:
        """An object of `kind` changed its phase, `seconds` after it had entered the one before (None: not known).

        `before` and `after` are declared phases, `unknown`, or empty for none.
        """
        self._metrics.transitions.labels(kind, before, after).inc()
        if seconds is not None:
            self._metrics.phase_seconds.labels(kind, before).observe(seconds)

    def on_add(self) -> None:
        """See QueueObserver."""
        self._adds.inc()

    def on_depth(self, priority: int, depth: int) -> None:
        """See QueueObserver. The label knows the two priorities that the framework uses, so that it stays bounded."""
        bucket = 0 if priority >= 0 else -100
        self._totals[bucket] += depth - self._depths[priority]
        if depth:
            self._depths[priority] = depth
        else:
            del self._depths[priority]  # priorities are the caller's: do not collect them
        self._gauges[bucket].set(self._totals[bucket])

    def on_queue_duration(self, seconds: float) -> None:
        """See QueueObserver."""
        self._queued.observe(seconds)

    def on_work_duration(self, seconds: float) -> None:
        """See QueueObserver."""
        self._worked.observe(seconds)

    def on_retry(self) -> None:
        """See QueueObserver."""
        self._retries.inc()


class SchedulerMetrics:
    """What the scheduler reports. Profiles beyond the first hundred share one label value."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._profiles: set[str] = set()

    def attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt to place a pod of that profile ended, `seconds` after it began."""
        profile = self._label(profile)
        self._metrics.attempts.labels(result, profile).inc()
        self._metrics.attempt_time.labels(result, profile).observe(seconds)

    def pending(self, active: int, backoff: int, unschedulable: int) -> None:
        """How many pods wait, by place in the queue."""
        for queue, count in (("active", active), ("backoff", backoff), ("unschedulable", unschedulable)):
            self._metrics.pending_pods.labels(queue).set(count)

    def scheduled(self, attempts: int, seconds: float) -> None:
        """A pod was bound at that attempt, `seconds` after it was first queued."""
        label = str(attempts) if attempts < MANY_ATTEMPTS else f"{MANY_ATTEMPTS}+"
        self._metrics.scheduling_sli.labels(label).observe(seconds)
        self._metrics.scheduling_attempts.observe(attempts)

    def queued(self, queue: str, event: str) -> None:
        """A pod came into that queue because of that event."""
        self._metrics.incoming_pods.labels(queue, event).inc()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A call of a plugin ended."""
        self._metrics.plugin_time.labels(plugin, point, status).observe(seconds)

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """All plugins of an extension point were called."""
        self._metrics.point_time.labels(point, status, self._label(profile)).observe(seconds)

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """A plugin said whether an event may help pods that it turned away."""
        self._metrics.hint_time.labels(plugin, event, answer).observe(seconds)

    def preemption(self, victims: int) -> None:
        """It was tried to make room for a pod by evicting that many; 0 when that would not help."""
        self._metrics.preemption_attempts.inc()
        if victims:
            self._metrics.preemption_victims.observe(victims)

    def _label(self, profile: str) -> str:
        if profile not in self._profiles:
            if len(self._profiles) >= MAX_PROFILES:
                return OTHER
            self._profiles.add(profile)
        return profile


class WebhookMetrics:
    """What the webhooks report, by their paths; those are declared, so they are bounded."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @contextmanager
    def in_flight(self, webhook: str) -> Generator[None]:
        """Count a request as being answered."""
        gauge = self._metrics.webhook_in_flight.labels(f"/{webhook}")
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def answered(self, webhook: str, code: int, seconds: float) -> None:
        """A request was answered with that HTTP status; a refusal is a 200 too."""
        self._metrics.webhook_requests.labels(f"/{webhook}", str(code)).inc()
        self._metrics.webhook_latency.labels(f"/{webhook}").observe(seconds)


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, ["controller", *labels], registry=registry)


def _queue_counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(name, text, ["name", "controller"], registry=registry)


def _queue_histogram(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(name, text, ["name", "controller"], buckets=QUEUE_BUCKETS, registry=registry)
