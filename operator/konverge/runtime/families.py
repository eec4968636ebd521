"""Which metrics there are: the registry flows in, their names, kinds and labels flow out.

For what is written about metrics (the dashboard, alerts, tests), so that it can be held to those that exist. Nothing has
to run for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from konverge.runtime.gauges import CacheGauges, QueueGauges
from konverge.runtime.metrics import Metrics


class Family(NamedTuple):
    """One metric as it is queried: a counter with its `_total`, a histogram without `_bucket`, `_sum` and `_count`."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()


PROCESS: Final = (
    Family("process_cpu_seconds_total", "counter", "CPU time."),
    Family("process_resident_memory_bytes", "gauge", "Memory in use."),
    Family("process_open_fds", "gauge", "Open files and connections."),
)
"""What the client library adds on Linux and is worth a look; it has more, which differ by platform."""


def families() -> list[Family]:
    """Every metric of an operator, in the order of their names."""
    own = vars(Metrics()).values()
    described = [family for value in own if isinstance(value, MetricWrapperBase) for family in _wrapped(value)]
    collected: Iterable[Metric] = (*QueueGauges().collect(), *CacheGauges.families())
    described += [_family(metric, _labels(metric)) for metric in collected]
    return sorted({*described, *PROCESS})


def _wrapped(metric: MetricWrapperBase) -> Iterator[Family]:
    for family in metric.describe():
        yield _family(family, _labels(metric))


def _family(metric: Metric, labels: Sequence[str]) -> Family:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return Family(name, metric.type, metric.documentation, tuple(labels))


def _labels(metric: Collector | Metric) -> Sequence[str]:
    """The names of the labels, for which the library has no public way as long as there is no value."""
    labels: Sequence[str] = metric._labelnames  # type: ignore[union-attr] # noqa: SLF001
    return labels
