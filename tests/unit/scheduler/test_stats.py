"""The books of a profile, pod by pod."""

from datetime import UTC, datetime
from typing import Any

from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.stats import Ledger
from tests.unit.scheduler.clusters import NAME, pod


def by_name(waiting: PodInfo) -> str:
    """Every schedulerName has an owner of its name."""
    return waiting.scheduler_name


def bound_at(name: str, minute: int | None) -> PodInfo:
    """A pod that was bound in that minute; None: the server has not recorded when."""
    stamp = f"2026-01-01T00:{minute:02}:00Z" if minute is not None else None
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
    status: Any = {"conditions": [condition]} if stamp else None
    return PodInfo(pod(name, on="n1", status=status))


def test_last_scheduled_is_the_latest_that_the_server_recorded_and_never_goes_back() -> None:
    told: list[str] = []
    ledger = Ledger(told.append, by_name)
    ledger.see(bound_at("a", None))
    assert ledger.stats(NAME).last_scheduled is None
    ledger.see(bound_at("a", 5))
    ledger.see(bound_at("b", 3))
    assert ledger.stats(NAME).last_scheduled == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    ledger.gone("a")
    assert ledger.stats(NAME).last_scheduled == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    assert told == [NAME] * 4


def test_what_changes_no_number_is_not_told() -> None:
    told: list[str] = []
    ledger = Ledger(told.append, by_name)
    waiting = PodInfo(pod("a"))
    ledger.see(waiting)
    ledger.stuck(waiting, {"Insufficient cpu": 3})
    before = len(told)
    ledger.see(PodInfo(pod("a", status={"phase": "Pending"})))
    ledger.stuck(waiting, {"Insufficient cpu": 2})
    ledger.gone("unknown")
    ledger.freed(PodInfo(pod("other")))
    assert len(told) == before
    ledger.freed(waiting)
    assert (len(told), ledger.stats(NAME).unschedulable) == (before + 1, 0)


def test_a_pod_that_is_gone_or_bound_is_not_stuck_by_late_news() -> None:
    ledger = Ledger(lambda _: None, by_name)
    ledger.stuck(PodInfo(pod("gone")), {"Insufficient cpu": 1})
    ledger.see(bound_at("bound", None))
    ledger.stuck(PodInfo(pod("bound")), {"Insufficient cpu": 1})
    assert ledger.stats(NAME).unschedulable == 0


def test_the_ten_most_frequent_reasons_are_named() -> None:
    ledger = Ledger(lambda _: None, by_name)
    for index in range(12):
        waiting = PodInfo(pod(f"p{index}"))
        ledger.see(waiting)
        ledger.stuck(waiting, {f"reason {number:02}": 1 for number in range(index, 12)})
    reasons = ledger.stats(NAME).top_reasons
    assert reasons[:2] == [("reason 11", 12), ("reason 10", 11)]
    assert len(reasons) == 10
