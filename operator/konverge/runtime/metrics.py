"""Prometheus metrics under controller-runtime's names, so that its dashboards and alerts work.

One `Metrics` a process holds them all on a registry of its own; parts are handed the small views they need.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

RECONCILE_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
QUEUE_BUCKETS: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
RESULTS: Final = ("success", "error", "requeue", "requeue_after")


class Metrics:
    """Every metric of the process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.reconcile_total = Counter(
            "controller_runtime_reconcile", "Reconciles by result.", ["controller", "result"], registry=registry
        )
        self.reconcile_errors = _counter(registry, "controller_runtime_reconcile_errors", "Reconciles that failed.")
        self.terminal_errors = _counter(
            registry, "controller_runtime_terminal_reconcile_errors", "Reconciles that failed and are not retried."
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

    def controller(self, name: str, workers: int) -> "ControllerMetrics":
        """The view of one controller and its queue."""
        self.max_concurrent.labels(name).set(workers)
        return ControllerMetrics(self, name)

    def request(self, method: str, host: str, code: str) -> None:
        """One request to the API server ended; `code` is the HTTP status, or `<error>` where there was none."""
        self.requests.labels(code, method, host).inc()

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
        self._timeouts = metrics.timeouts.labels(name)
        self._adds = metrics.adds.labels(name, name)
        self._retries = metrics.retries.labels(name, name)
        self._queued = metrics.queue_duration.labels(name, name)
        self._worked = metrics.work_duration.labels(name, name)
        self._depths: dict[int, Gauge] = {}

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

    def timed_out(self) -> None:
        """A reconcile was cut off."""
        self._timeouts.inc()

    def on_add(self) -> None:
        """See QueueObserver."""
        self._adds.inc()

    def on_depth(self, priority: int, depth: int) -> None:
        """See QueueObserver. The label knows the two priorities that the framework uses, so that it stays bounded."""
        bucket = 0 if priority >= 0 else -100
        gauge = self._depths.get(bucket)
        if gauge is None:
            gauge = self._depths[bucket] = self._metrics.depth.labels(self._name, self._name, str(bucket))
        gauge.set(depth)

    def on_queue_duration(self, seconds: float) -> None:
        """See QueueObserver."""
        self._queued.observe(seconds)

    def on_work_duration(self, seconds: float) -> None:
        """See QueueObserver."""
        self._worked.observe(seconds)

    def on_retry(self) -> None:
        """See QueueObserver."""
        self._retries.inc()


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(name, text, ["controller"], registry=registry)


def _queue_counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(name, text, ["name", "controller"], registry=registry)


def _queue_histogram(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(name, text, ["name", "controller"], buckets=QUEUE_BUCKETS, registry=registry)
