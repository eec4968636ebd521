"""Metrics that are states, read when somebody asks: queues and caches flow in, metric families flow out.

Nothing is counted on the hot path for them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from konverge.cache.informer import Caches, Informer
from konverge.runtime.events import EventRecorder
from konverge.workqueue.sharded import Queue


class QueueGauges(Collector):
    """For how long the work of each queue has been under way."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue[Any]] = {}

    def watch(self, name: str, queue: Queue[Any]) -> None:
        """Read `queue` at each scrape."""
        self._queues[name] = queue

    def collect(self) -> Iterator[Metric]:
        """See Collector."""
        labels = ["name", "controller"]
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds of work under way, over all keys.", labels=labels
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Seconds of the oldest work under way.", labels=labels
        )
        for name, queue in self._queues.items():
            ages = queue.processing.values()
            unfinished.add_metric([name, name], sum(ages))
            longest.add_metric([name, name], max(ages, default=0.0))
        yield from (unfinished, longest)


class CacheGauges(Collector):
    """What is cached of each resource, how it is followed, and what the event recorder had to drop."""

    def __init__(self, caches: Caches, recorder: EventRecorder) -> None:
        self._caches, self._recorder = caches, recorder

    def collect(self) -> Iterator[Metric]:
        """See Collector."""
        objects, healthy, lists, dropped = self.families()
        # A resource may be followed in several parts; together they are one series.
        parts: defaultdict[tuple[str, str], list[Informer]] = defaultdict(list)
        for informer in self._caches.informers:
            parts[str(informer.resource), informer.scope.namespace or ""].append(informer)
        for values, informers in parts.items():
            objects.add_metric(values, sum(len(each.store) for each in informers))
            healthy.add_metric(values, all(each.health.healthy for each in informers))
            lists.add_metric(values, sum(max(0, each.health.lists - 1) for each in informers))
        dropped.add_metric([], self._recorder.dropped)
        yield from (objects, healthy, lists, dropped)

    @staticmethod
    def families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily, CounterMetricFamily]:
        """What there is to collect, without values."""
        labels = ["resource", "namespace"]
        return (
            GaugeMetricFamily("konverge_cache_objects", "Objects in the cache.", labels=labels),
            GaugeMetricFamily("konverge_cache_healthy", "1 while the informer follows the server.", labels=labels),
            CounterMetricFamily("konverge_cache_relists", "Complete lists after the first one.", labels=labels),
            CounterMetricFamily("konverge_events_dropped", "Events that were not written."),
        )
