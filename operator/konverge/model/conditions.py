"""Conditions: what a status says of its object, and the one place where an outcome becomes Ready, Reconciling, Stalled.

The contract is that of kstatus, `kubectl wait` and Argo CD's health scripts: Ready carries the verdict; Reconciling and
Stalled are present only while they hold; `lastTransitionTime` moves only when a condition's status does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Literal

ConditionStatus = Literal["True", "False", "Unknown"]
ConditionDict = Mapping[str, Any]

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
MANAGED: Final = frozenset({READY, RECONCILING, STALLED})
"""The condition types that the framework writes itself."""

MAX_REASON: Final = 1024
MAX_MESSAGE: Final = 32768
"""The API convention's bound on a condition's message, in characters."""


class State(Enum):
    """Where an object stands after a reconcile, for the status contract."""

    DONE = "done"
    """As desired: Ready=True."""
    WORKING = "working"
    """Converging, nothing wrong: Ready=Unknown, Reconciling=True."""
    FAILING = "failing"
    """Something is wrong and will be tried again: Ready=False, Reconciling=True."""
    FAILED = "failed"
    """Wrong until a person changes something: Ready=False, Stalled=True."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one reconcile as the status shows it. `reason` is CamelCase."""

    state: State
    reason: str
    message: str = ""


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds: `2026-01-31T12:00:00Z`, the form of `metav1.Time`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reason_of(text: str) -> str:
    """`text` as a reason that the server takes (metav1.Condition: a letter, then letters, digits, `_,:`, 1024 at most).

    A reason with a blank in it must not cost the whole status write.
    """
    kept = re.sub(r"[^A-Za-z0-9_,:]", "", text).lstrip("0123456789_,:")[:MAX_REASON].rstrip(",:")
    return kept or "Unknown"


def find(conditions: Iterable[ConditionDict], condition_type: str) -> ConditionDict | None:
    """The condition of that type, if present."""
    return next((c for c in conditions if c.get("type") == condition_type), None)


def is_true(conditions: Iterable[ConditionDict], condition_type: str) -> bool:
    """Whether the condition of that type is present with status True."""
    condition = find(conditions, condition_type)
    return condition is not None and condition.get("status") == "True"


def set_condition(
    conditions: Sequence[ConditionDict],
    condition_type: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> list[ConditionDict]:
    """Return `conditions` with one of that type set, in the place where it stood.

    Several entries of that type, which another writer may have left, become one. The transition time is kept unless
    the status changes.
    """
    previous = find(conditions, condition_type)
    moved = previous is None or previous.get("status") != status or not previous.get("lastTransitionTime")
    entry: ConditionDict = {
        "type": condition_type,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(now) if moved or previous is None else previous["lastTransitionTime"],
        "reason": reason_of(reason),
        "message": message[:MAX_MESSAGE],
    }
    result: list[ConditionDict] = []
    placed = False
    for condition in conditions:
        if condition.get("type") != condition_type:
            result.append(condition)
        elif not placed:
            result.append(entry)
            placed = True
    if not placed:
        result.append(entry)
    return result


def without(conditions: Iterable[ConditionDict], condition_type: str) -> list[ConditionDict]:
    """`conditions` less those of that type."""
    return [c for c in conditions if c.get("type") != condition_type]


def summarize(
    conditions: Sequence[ConditionDict], verdict: Verdict, *, generation: int, now: datetime
) -> list[ConditionDict]:
    """Return `conditions` with Ready, Reconciling and Stalled as `verdict` demands."""
    status: ConditionStatus = {
        State.DONE: "True",
        State.WORKING: "Unknown",
        State.FAILING: "False",
        State.FAILED: "False",
    }[verdict.state]  # type: ignore[assignment]
    result = set_condition(conditions, READY, status, verdict.reason, verdict.message, generation=generation, now=now)
    for condition_type, holds in (
        (RECONCILING, verdict.state in {State.WORKING, State.FAILING}),
        (STALLED, verdict.state is State.FAILED),
    ):
        result = (
            set_condition(
                result, condition_type, "True", verdict.reason, verdict.message, generation=generation, now=now
            )
            if holds
            else without(result, condition_type)
        )
    return result
