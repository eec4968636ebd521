"""What a reconcile returns: done, come back later, or still converging. Failures are raised, not returned."""

from dataclasses import dataclass
from typing import Self

from konverge.model.conditions import State, Verdict


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a reconcile that did not fail.

    `verdict` is what the status shows; None leaves it to the phase, or to Ready=True where the resource has none.
    `requeue_after` is in seconds; None waits for the next change.
    """

    verdict: Verdict | None = None
    requeue_after: float | None = None

    @classmethod
    def done(cls) -> Self:
        """As desired. The next change of the object, a child or a watched object brings it back."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> Self:
        """As desired, and look again in so many seconds whatever happens."""
        return cls(requeue_after=_positive(seconds))

    @classmethod
    def waiting(cls, reason: str, message: str, *, after: float | None = None) -> Self:
        """Not there yet, nothing wrong: Ready=Unknown, Reconciling=True with `reason` (CamelCase) and `message`.

        A change of a watched object brings it back; `after` adds a look in so many seconds.
        """
        delay = None if after is None else _positive(after)
        return cls(Verdict(State.WORKING, reason, message), delay)


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError(f"a requeue delay is positive seconds, not {seconds}")
    return float(seconds)
