"""`konverge top`: from two looks at an operator to a table."""

import io
from typing import Any

import pytest
from rich.console import Console

from konverge.cli.top import Counts, Look, counts_of, quantile, rendered
from konverge.runtime.metrics import Metrics

INF = float("inf")


def queue(**parts: Any) -> dict[str, Any]:
    return {
        "controller": "gadget",
        "workers": 4,
        "depth": 3,
        "delayedTotal": 2,
        "processingTotal": 1,
        "processing": [{"key": "a", "seconds": 7.5, "failures": 0}],
        **parts,
    }


def cache(**parts: Any) -> dict[str, Any]:
    return {
        "resource": "gadgets.test.konverge.dev",
        "namespace": "",
        "metadataOnly": False,
        "leftOut": [],
        "objects": 12,
        "bytes": 5000,
        "synced": True,
        "watching": True,
        "lists": 1,
        "lastError": None,
        **parts,
    }


def shown(before: Look, now: Look) -> list[list[str]]:
    out = io.StringIO()
    Console(file=out, width=200).print(rendered(before, now))
    return [line.split() for line in out.getvalue().splitlines()]


def test_counters_are_read_from_a_metrics_page() -> None:
    metrics = Metrics()
    controller = metrics.controller("gadget", workers=1)
    for result, seconds in (("success", 0.004), ("success", 0.02), ("error", 70.0)):
        controller.reconciled(result, seconds)
    counts = counts_of(metrics.exposition()[0].decode())["gadget"]
    assert (counts.total, counts.errors) == (3, 1)
    assert (counts.buckets[0.005], counts.buckets[0.025], counts.buckets[60.0], counts.buckets[INF]) == (1, 2, 2, 3)


@pytest.mark.parametrize(
    ("buckets", "share", "value"),
    [
        ({}, 0.5, None),
        ({1.0: 0, INF: 0}, 0.5, None),
        ({1.0: 10, 2.0: 20, INF: 20}, 0.5, 1.0),
        ({1.0: 10, 2.0: 20, INF: 20}, 0.75, 1.5),
        ({1.0: 0, 2.0: 20, INF: 20}, 0.5, 1.5),
        ({1.0: 1, INF: 10}, 0.99, 1.0),
    ],
)
def test_a_quantile_lies_within_its_bucket_as_prometheus_has_it(
    buckets: dict[float, float], share: float, value: float | None
) -> None:
    assert quantile(buckets, share) == value


def test_rates_are_those_between_the_looks() -> None:
    before = Look(10.0, {"gadget": Counts(100, 50, {0.1: 100, INF: 100})}, [], [])
    now = Look(12.0, {"gadget": Counts(120, 55, {0.1: 110, INF: 120})}, [queue()], [cache()])
    rows = shown(before, now)
    assert rows[1] == ["gadget", "3", "2", "1/4", "7.5s", "10.0", "25.0%", "100ms", "100ms"]


def test_where_nothing_happened_the_quantiles_are_those_since_the_start() -> None:
    counts = {"gadget": Counts(10, 0, {0.1: 0, 0.2: 10, INF: 10})}
    rows = shown(Look(10.0, counts, [], []), Look(12.0, counts, [queue(processing=[])], []))
    assert rows[1] == ["gadget", "3", "2", "1/4", "-", "0.0", "0.0%", "150ms", "199ms"]


def test_an_operator_that_was_restarted_in_between_counts_anew() -> None:
    before = Look(10.0, {"gadget": Counts(100, 50, {INF: 100})}, [], [])
    now = Look(12.0, {"gadget": Counts(4, 0, {0.1: 4, INF: 4})}, [queue()], [])
    assert shown(before, now)[1][5:7] == ["2.0", "0.0%"]


def test_a_controller_that_never_reconciled_has_no_quantiles() -> None:
    look = Look(10.0, {}, [queue()], [])
    assert shown(look, look)[1][5:] == ["-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ({}, "watching"),
        ({"watching": False, "lastError": "refused"}, "reconnecting"),
        ({"watching": False, "synced": False, "lastError": "[forbidden]"}, "not synced"),
    ],
)
def test_a_cache_says_how_it_is_followed_and_what_is_wrong(parts: dict[str, Any], state: str) -> None:
    look = Look(10.0, {}, [], [cache(**parts)])
    row = shown(look, look)[-1]
    assert row[:4] == ["gadgets.test.konverge.dev", "(all)", "12", "5"]
    assert state in " ".join(row)
    assert str(parts.get("lastError") or "") in " ".join(row)
