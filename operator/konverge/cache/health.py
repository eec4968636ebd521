"""The state of one reflector, for probes and for people: the reflector notes what happens, readers judge."""

from dataclasses import dataclass, field
from typing import Final

from konverge.model.resource import ResourceType
from konverge.ports import Clock, Scope

GRACE: Final = 10.0
"""Seconds without a working stream that are still healthy: a reconnect is no outage."""

SETTLE: Final = 35.0
"""Seconds for which a stream that follows a failure must stay open to count as working, if it delivers nothing. Longer
than the client waits for an answer (30 s), so that a server that is silent from the start never counts."""


@dataclass
class ReflectorHealth:
    """What is known of one reflector. Times are monotonic seconds."""

    resource: ResourceType
    scope: Scope
    clock: Clock = field(repr=False, compare=False)
    synced: bool = False
    """Whether the resource was listed completely at least once."""
    error: BaseException | None = None
    """What went wrong last; None once a stream has delivered since."""
    failures: int = 0
    """Failures in a row."""
    lists: int = 0
    """How often the resource was listed completely; the first time is the start, each later one a relist."""
    _opened: float | None = None
    _lost: float | None = None

    @property
    def watching(self) -> bool:
        """Whether a stream is open that works as far as can be told."""
        return self._opened is not None and (self.error is None or self._past(self._opened) >= SETTLE)

    @property
    def healthy(self) -> bool:
        """Listed once, and watching now or only briefly not."""
        return self.synced and (self.watching or (self._lost is not None and self._past(self._lost) < GRACE))

    @property
    def since(self) -> float | None:
        """Since when it is watching, or not watching any more; None when it never was."""
        return self._opened if self.watching else self._lost

    @property
    def last_error(self) -> str | None:
        """What went wrong last, as text; None while all is well."""
        if self.error is None or self.watching:
            return None
        return str(self.error) or type(self.error).__name__

    def listed(self) -> None:
        """A list was complete. Only the first one proves health: later ones follow a watch that failed."""
        self.lists += 1
        if not self.synced:
            self.synced, self._lost = True, self.clock.monotonic()
            self.delivered()

    def opened(self) -> None:
        """A stream is being opened."""
        self._opened = self.clock.monotonic()

    def delivered(self) -> None:
        """The server answered as it should."""
        self.error, self.failures = None, 0

    def closed(self) -> None:
        """The stream ended, or could not be opened."""
        if self.watching:
            self._lost = self.clock.monotonic()
        self._opened = None

    def failed(self, error: BaseException) -> None:
        """A list or a watch failed."""
        self.error = error
        self.failures += 1

    def _past(self, moment: float) -> float:
        return self.clock.monotonic() - moment
