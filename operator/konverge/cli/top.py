"""`konverge top`: a running operator at a glance: its controllers, and its caches.

Two looks at its metrics flow in, rates and quantiles between them flow out: live on a terminal, else once.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group, RenderableType
from rich.live import Live

from konverge.cli.endpoint import DebugEndpoint, endpoint_options
from konverge.cli.text import console, duration, size, table

CONTROLLERS: Final = (
    "CONTROLLER", "READY", "DELAYED", "ACTIVE", "OLDEST", "RECONCILES/S", "ERRORS", "P50", "P99",
)  # fmt: skip
CACHES: Final = ("RESOURCE", "NAMESPACE", "OBJECTS", "SIZE", "STATE", "LISTS", "LAST ERROR")


@dataclass(slots=True)
class Counts:
    """The counters of one controller: reconciles, those that failed, and the cumulative buckets of their time."""

    total: float = 0.0
    errors: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)

    def since(self, before: "Counts") -> "Counts":
        """What came after `before`; all of it where the operator was restarted in between."""
        if self.total < before.total:
            return self
        buckets = {bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Counts(self.total - before.total, self.errors - before.errors, buckets)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the operator: at which monotonic second, and what it had counted, by controller."""

    at: float
    counts: Mapping[str, Counts]
    queues: list[dict[str, Any]]
    caches: list[dict[str, Any]]


@click.command()
@click.option("--interval", type=click.FloatRange(0.1, 60), default=2.0, show_default=True, help="Seconds of a look.")
@click.option("--once", is_flag=True, help="Print one table, also on a terminal.")
@endpoint_options
def top(interval: float, *, once: bool, **endpoint: Any) -> None:
    """Show controllers with their queues, rates and times, and caches. Live on a terminal; Ctrl-C ends it."""
    operator, out = DebugEndpoint(**endpoint), console()
    before = look(operator)
    if once or not out.is_terminal:
        time.sleep(interval)
        out.print(rendered(before, look(operator)))
        return
    with Live(rendered(before, before), console=out, screen=True) as live:
        try:
            while True:
                time.sleep(interval)
                now = look(operator)
                live.update(rendered(before, now))
                before = now
        except KeyboardInterrupt:
            pass


def look(operator: DebugEndpoint) -> Look:
    """Ask the operator. Raises: EndpointUnreachable."""
    counts = counts_of(operator.text("metrics"))
    queues = operator.json("queues?limit=1")["queues"]
    return Look(time.monotonic(), counts, queues, operator.json("caches")["caches"])


def counts_of(exposition: str) -> Mapping[str, Counts]:
    """The counters of each controller in a metrics page."""
    counts: defaultdict[str, Counts] = defaultdict(Counts)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == "controller_runtime_reconcile_total":
                each = counts[sample.labels["controller"]]
                each.total += sample.value
                each.errors += sample.value if sample.labels["result"] == "error" else 0
            elif sample.name == "controller_runtime_reconcile_time_seconds_bucket":
                counts[sample.labels["controller"]].buckets[float(sample.labels["le"])] = sample.value
    return counts


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """The value below which `share` of all observations lie, as Prometheus' histogram_quantile gives it.

    None without observations; the last finite bound where it lies above that.
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank, low, below = share * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (rank - below) / max(buckets[bound] - below, 1e-9)
        low, below = bound, buckets[bound]
    return low


def rendered(before: Look, now: Look) -> RenderableType:
    """Both tables."""
    seconds = now.at - before.at
    return Group(
        table(CONTROLLERS, [_controller(each, before, now, seconds) for each in now.queues]),
        "",
        table(CACHES, [_cache(each) for each in now.caches]),
    )


def _controller(queue: Mapping[str, Any], before: Look, now: Look, seconds: float) -> tuple[str, ...]:
    name = queue["controller"]
    whole = now.counts.get(name, Counts())
    recent = whole.since(before.counts.get(name, Counts()))
    timed = recent if recent.total else whole  # nothing came meanwhile: then how it was since the start
    oldest = queue["processing"][0]["seconds"] if queue["processing"] else None
    return (
        name,
        str(queue["depth"]),
        str(queue["delayedTotal"]),
        f"{queue['processingTotal']}/{queue['workers']}",
        duration(oldest),
        f"{recent.total / seconds:.1f}" if seconds else "-",
        f"{timed.errors / timed.total:.1%}" if timed.total else "-",
        duration(quantile(timed.buckets, 0.5)),
        duration(quantile(timed.buckets, 0.99)),
    )


def _cache(cache: Mapping[str, Any]) -> tuple[str, ...]:
    state = "watching" if cache["watching"] else "reconnecting" if cache["synced"] else "not synced"
    return (
        cache["resource"] + (" (metadata)" if cache["metadataOnly"] else " (lean)" if cache["leftOut"] else ""),
        cache["namespace"] or "(all)",
        str(cache["objects"]),
        size(cache["bytes"]),
        state,
        str(cache["lists"]),
        cache["lastError"] or "",
    )
