"""How long to wait after a failure: doubling, capped, spread by chance, and forgotten after a quiet time."""

from konverge.ports import Clock, Random


class Backoff:
    """client-go's backoff of a reflector: 0.8 s doubling to 30 s, each up to doubled by chance, afresh after 2 min.

    The chance keeps the watches of many replicas from coming back at the same moment.
    """

    def __init__(
        self, *, clock: Clock, random: Random, base: float = 0.8, cap: float = 30.0, reset_after: float = 120.0
    ) -> None:
        self._clock, self._random = clock, random
        self._base, self._cap, self._reset_after = base, cap, reset_after
        self._next = base
        self._until = 0.0

    def next(self, at_least: float = 0.0) -> float:
        """The seconds to wait now, not less than `at_least`, which is what the server asked for."""
        now = self._clock.monotonic()
        if now - self._until > self._reset_after:
            self._next = self._base
        delay = max(at_least, self._next * (1 + self._random.random()))
        self._next = min(self._cap, self._next * 2)
        self._until = now + delay
        return delay
