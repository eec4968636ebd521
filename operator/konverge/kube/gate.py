"""The write gate: what stops every write of this process once its lease is lost.

A replica that lost its lease may still have reconciles in flight, and requests waiting for a retry. The gate is looked
at right before each request is sent, so none of them reaches the server beside the writes of the new leader. A process
that was stopped and goes on (a paused machine) has not noticed yet that its term is over: so the fence asks the clock at
each write. Leases pass: losing, releasing and taking a lease are writes to one.
"""

from collections.abc import Callable

from konverge.errors import WriteBlocked
from konverge.model.resource import Lease, ResourceType


class WriteGate:
    """Open at first. One gate may serve several clients."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._holds_lease: Callable[[], bool] | None = None

    def fence(self, holds_lease: Callable[[], bool]) -> None:
        """Let writes pass only while `holds_lease()` is true; it is asked before each, and must be quick."""
        self._holds_lease = holds_lease

    def close(self, reason: str) -> None:
        """Refuse all writes but those to Leases from now on; `reason` becomes part of the error."""
        self._reason = reason

    def open(self) -> None:
        """Let writes pass again."""
        self._reason = None

    def check(self, resource: ResourceType, verb: str) -> None:
        """Raises: WriteBlocked when the gate is closed or the lease not held, and `resource` is not the Lease."""
        if resource == Lease:
            return
        reason = self._reason
        if reason is None and self._holds_lease is not None and not self._holds_lease():
            reason = "this replica does not hold the lease now"
        if reason is not None:
            message = f"{verb} {resource} was not sent: {reason}"
            raise WriteBlocked(message)
