"""What a reconcile wants to say in its status, collected until the one write at its end: phase and conditions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from konverge.errors import ModelError
from konverge.model.conditions import (
    MANAGED,
    ConditionDict,
    ConditionStatus,
    State,
    Verdict,
    set_condition,
    timestamp,
    without,
)
from konverge.model.custom import CustomResource
from konverge.model.states import Phase

STALLED_SUFFIX: Final = "TimedOut"


class ConditionsDraft:
    """Conditions of the reconciler's own, kept as steps so that they can be taken again on a status that moved on."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._steps: dict[str, tuple[ConditionStatus, str, str] | None] = {}

    def set(self, condition_type: str, status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set one condition. Raises: ModelError for Ready, Reconciling and Stalled, which follow from the outcome."""
        self._steps[_own(condition_type)] = (status, reason, message)

    def remove(self, condition_type: str) -> None:
        """Take one condition away. Raises: as `set`."""
        self._steps[_own(condition_type)] = None

    def on(self, conditions: Sequence[ConditionDict], now: datetime) -> list[ConditionDict]:
        """`conditions` with the steps taken."""
        result = list(conditions)
        for condition_type, step in self._steps.items():
            if step is None:
                result = without(result, condition_type)
            else:
                status, reason, message = step
                result = set_condition(
                    result, condition_type, status, reason, message, generation=self._generation, now=now
                )
        return result


class PhaseDraft:
    """Where the object's state machine stands and where the reconciler takes it."""

    def __init__(self, owner: CustomResource[Any, Any]) -> None:
        self._kind = owner.resource.kind
        self._machine = owner.phases
        self._since: str | None = owner.status.phase_since
        self.before: str | None = owner.status.phase
        self.current: str | None = owner.status.phase
        self._reason = self._message = ""

    def checked(self) -> "PhaseDraft":
        """This draft. Raises: ModelError where the resource declares no phases."""
        if self._machine is None:
            raise ModelError(f"{self._kind} declares no phases: add phases=[Phase(...), ...] to its class line")
        return self

    def to(self, name: str, *, reason: str = "", message: str = "") -> None:
        """Go to, or stay in, phase `name`; `reason` (CamelCase) and `message` are shown in Ready.

        Raises: UndeclaredTransition.
        """
        if self._machine is None:
            self.checked()
            return
        self._machine.check(self._kind, self.current, name)
        self.current, self._reason, self._message = name, reason or name, message

    @property
    def message(self) -> str:
        """What the reconciler said to the phase that it chose; empty where it said or chose nothing."""
        return self._message

    def entered(self, now: datetime) -> str | None:
        """When the phase was entered: now if it changed, as a timestamp."""
        if self.current is None:
            return None
        return self._since if self.current == self.before and self._since else timestamp(now)

    def lasted(self, now: datetime) -> float | None:
        """How many seconds the phase lasted in which the object was before; None where its begin is not known."""
        if self.before is None or not self._since:
            return None
        return max(0.0, (now - datetime.fromisoformat(self._since)).total_seconds())

    def verdict(self) -> Verdict | None:
        """What the phase says of the object; None where there is no phase."""
        phase = self._phase()
        if phase is None:
            return None
        return Verdict(phase.state, self._reason or phase.name, self._message)

    def remaining(self, now: datetime) -> float | None:
        """Seconds until the phase times out, negative when it has; None where it may last for ever."""
        phase, entered = self._phase(), self.entered(now)
        if phase is None or phase.timeout is None or phase.state is State.DONE or entered is None:
            return None
        return phase.timeout - (now - datetime.fromisoformat(entered)).total_seconds()

    def timed_out(self) -> Verdict:
        """The verdict on a phase that outlived its timeout."""
        phase = self._phase()
        limit = phase.timeout if phase else None
        told = f"; last: {self._message}" if self._message else ""
        return Verdict(
            State.FAILED, f"{self.current}{STALLED_SUFFIX}", f"in phase {self.current} for over {limit:g} s{told}"
        )

    def _phase(self) -> Phase | None:
        if self._machine is None or self.current is None:
            return None
        return self._machine.phases.get(self.current)


def _own(condition_type: str) -> str:
    if condition_type in MANAGED:
        raise ModelError(
            f"the condition {condition_type} follows from what the reconcile returns or raises; "
            "return Result.waiting(...), raise Terminal(...), or set a condition of your own"
        )
    return condition_type
