"""The write gate: one switch that stops every write of this process once its lease is lost.

A replica that lost its lease may still have reconciles in flight, and requests waiting for a retry. The gate is looked
at right before each request is sent, so none of them reaches the server beside the writes of the new leader. Leases
pass: losing, releasing and taking a lease are writes to one.
"""

from konverge.errors import WriteBlocked
from konverge.model.resource import Lease, ResourceType


class WriteGate:
    """Open at first. One gate may serve several clients."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def close(self, reason: str) -> None:
        """Refuse all writes but those to Leases from now on; `reason` becomes part of the error."""
        self._reason = reason

    def open(self) -> None:
        """Let writes pass again."""
        self._reason = None

    def check(self, resource: ResourceType, verb: str) -> None:
        """Raises: WriteBlocked when the gate is closed and `resource` is not the Lease."""
        if self._reason is not None and resource != Lease:
            message = f"{verb} {resource} was not sent: {self._reason}"
            raise WriteBlocked(message)
