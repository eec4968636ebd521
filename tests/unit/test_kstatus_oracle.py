"""The oracle itself: each of kstatus's rules, and which comes first."""

from typing import Any

import pytest

from tests.oracles.kstatus import Health, compute


def obj(status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 2, **metadata}, **({} if status is None else {"status": status})}


def said(*conditions: tuple[str, str], generation: int | None = 2) -> dict[str, Any]:
    listed = [{"type": name, "status": status} for name, status in conditions]
    return {"conditions": listed, **({} if generation is None else {"observedGeneration": generation})}


@pytest.mark.parametrize(
    ("status", "health"),
    [
        (None, Health.CURRENT),
        ({}, Health.CURRENT),
        ({"observedGeneration": 2}, Health.CURRENT),
        ({"observedGeneration": -1}, Health.IN_PROGRESS),
        ({"observedGeneration": 1}, Health.IN_PROGRESS),
        ({"observedGeneration": 3}, Health.IN_PROGRESS),
        (said(("Ready", "True")), Health.CURRENT),
        (said(("Ready", "True"), generation=None), Health.CURRENT),
        (said(("Ready", "True"), generation=1), Health.IN_PROGRESS),
        (said(("Ready", "False")), Health.IN_PROGRESS),
        (said(("Ready", "Unknown")), Health.IN_PROGRESS),
        (said(("Ready", "True"), ("Reconciling", "True")), Health.IN_PROGRESS),
        (said(("Ready", "True"), ("Reconciling", "False")), Health.CURRENT),
        (said(("Ready", "False"), ("Stalled", "True")), Health.FAILED),
        (said(("Stalled", "True"), ("Reconciling", "True")), Health.FAILED),
        (said(("Reconciling", "True"), ("Stalled", "True")), Health.IN_PROGRESS),
        (said(("Ready", "False"), ("Stalled", "True"), generation=1), Health.IN_PROGRESS),
        (said(("Ready", "False"), ("Ready", "True")), Health.IN_PROGRESS),
        (said(("Odd", "True")), Health.CURRENT),
    ],
)
def test_a_status_means(status: Any, health: Health) -> None:
    assert compute(obj(status)) is health


def test_what_is_being_deleted_is_terminating_whatever_its_status_says() -> None:
    assert compute(obj(said(("Ready", "True")), deletionTimestamp="2026-01-01T00:00:00Z")) is Health.TERMINATING


@pytest.mark.parametrize("status", [{"observedGeneration": "2"}, {"conditions": {"Ready": "True"}}])
def test_what_is_not_of_the_expected_type_is_an_error(status: Any) -> None:
    with pytest.raises(TypeError, match="not a"):
        compute(obj(status))
