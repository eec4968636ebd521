"""The status contract in one place: what each state shows, when a transition time moves, and that others' stay."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.model.conditions import (
    State,
    Verdict,
    find,
    is_true,
    reason_of,
    set_condition,
    summarize,
    timestamp,
    without,
)

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (State.DONE, {"Ready": "True"}),
        (State.WORKING, {"Ready": "Unknown", "Reconciling": "True"}),
        (State.FAILING, {"Ready": "False", "Reconciling": "True"}),
        (State.FAILED, {"Ready": "False", "Stalled": "True"}),
    ],
)
@pytest.mark.parametrize("before", list(State))
def test_each_state_shows_its_conditions_whatever_was_before(
    state: State, shown: dict[str, str], before: State
) -> None:
    """Replay 23 with it: what starts is working, and not Stalled."""
    earlier = summarize([], Verdict(before, "Before"), generation=1, now=NOW)
    conditions = summarize(earlier, Verdict(state, "Why", "how"), generation=2, now=LATER)
    assert {c["type"]: c["status"] for c in conditions} == shown
    assert {(c["reason"], c["message"], c["observedGeneration"]) for c in conditions} == {("Why", "how", 2)}


def test_a_transition_time_moves_with_the_status_only() -> None:
    first = set_condition([], "Ready", "Unknown", "Starting", "", generation=1, now=NOW)
    told_more = set_condition(first, "Ready", "Unknown", "Waiting", "1 of 2", generation=2, now=LATER)
    assert told_more[0]["lastTransitionTime"] == timestamp(NOW)
    done = set_condition(told_more, "Ready", "True", "Done", "", generation=2, now=LATER)
    assert done[0]["lastTransitionTime"] == timestamp(LATER)


def test_conditions_of_others_keep_their_place_and_content() -> None:
    theirs = {"type": "Theirs", "status": "True"}
    conditions = summarize([theirs], Verdict(State.DONE, "Ok"), generation=1, now=NOW)
    assert conditions[0] is theirs


def test_several_of_one_type_become_one() -> None:
    """Replay 22."""
    thrice = [
        {"type": "Ready", "status": "True"},
        {"type": "X", "status": "True"},
        {"type": "Ready", "status": "False"},
    ]
    conditions = set_condition(thrice, "Ready", "True", "Ok", "", generation=1, now=NOW)
    assert [c["type"] for c in conditions] == ["Ready", "X"]


def test_finding_and_taking_away() -> None:
    conditions = set_condition([], "Ready", "True", "Ok", "", generation=1, now=NOW)
    assert find(conditions, "Ready") is conditions[0]
    assert find(conditions, "Stalled") is None
    assert is_true(conditions, "Ready")
    assert not is_true(conditions, "Stalled")
    assert without(conditions, "Ready") == []


def test_timestamps_are_utc_with_whole_seconds() -> None:
    berlin = datetime.fromisoformat("2026-05-04T14:00:00.75+02:00")
    assert timestamp(berlin) == "2026-05-04T12:00:00Z"


@given(st.text(max_size=2000))
def test_any_text_becomes_a_reason_that_the_server_takes(text: str) -> None:
    reason = reason_of(text)
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason)
    assert len(reason) <= 1024


@pytest.mark.parametrize("reason", ["QuotaExceeded", "A", "Http_500"])
def test_a_good_reason_stays(reason: str) -> None:
    assert reason_of(reason) == reason
