"""How long a failed key waits before its next try.

A failed key flows in, seconds to wait flow out. The queue asks in `add_rate_limited` only: events and fixed delays are not
limited. The defaults are client-go's: a key's own failures double its wait, and one bucket over all keys keeps a storm of
failures from becoming a storm of requests.
"""

import math
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from konverge.ports import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """What the queue asks of a limiter. Calls are synchronous and cheap: they sit on the hot path."""

    def when(self, key: K_contra, /) -> float:
        """Count one more failure of `key` and return the seconds to wait before its next try."""
        ...

    def forget(self, key: K_contra, /) -> None:
        """Drop what is remembered of `key`: it succeeded, or is gone."""
        ...

    def failures(self, key: K_contra, /) -> int:
        """How many failures of `key` are remembered."""
        ...


class ExponentialPerKey(Generic[K]):
    """`base` seconds for the first failure of a key, doubling up to `cap`.

    What it remembers is bounded by the keys that fail and were not forgotten since.

    Raises: ValueError when not 0 < base <= cap.
    """

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        self.adjust(base, cap)
        self._failures: dict[K, int] = {}

    def adjust(self, base: float, cap: float) -> None:
        """Use other delays from the next failure on; the failures that keys have stay. Raises: ValueError."""
        if not 0 < base <= cap:
            raise ValueError(f"the first delay must be above 0 and at most the cap; got base={base}, cap={cap}")
        self._base, self._cap = base, cap
        # From this exponent on the answer is the cap: keeps 2**n from overflowing after a thousand failures.
        self._doublings = math.ceil(math.log2(cap / base))

    def when(self, key: K, /) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return self._cap if failures >= self._doublings else self._base * 2.0**failures

    def forget(self, key: K, /) -> None:
        self._failures.pop(key, None)

    def failures(self, key: K, /) -> int:
        return self._failures.get(key, 0)


class TokenBucket(Generic[K]):
    """One bucket for all keys: `burst` tries at once, then `qps` a second; who comes later reserves a later slot.

    Raises: ValueError when qps or burst is not above 0.
    """

    def __init__(self, qps: float = 10.0, burst: int = 100, *, clock: Clock) -> None:
        self._clock = clock
        self.adjust(qps, burst)
        self._tokens = float(burst)
        self._updated = 0.0

    def adjust(self, qps: float, burst: int) -> None:
        """Use other numbers from now on; what is reserved stays reserved. Raises: ValueError."""
        if qps <= 0 or burst <= 0:
            raise ValueError(f"a token bucket needs qps and burst above 0; got qps={qps}, burst={burst}")
        self._qps, self._burst = qps, burst

    def when(self, _key: K, /) -> float:
        now = self._clock.monotonic()
        # A full bucket stays full, whatever the time of the first use.
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps) - 1
        self._updated = now
        # Below zero the tokens are debt: reserved, and paid off at qps a second.
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps

    def forget(self, _key: K, /) -> None:
        """Spent tokens do not come back with a success."""

    def failures(self, _key: K, /) -> int:
        return 0


class Slowest(Generic[K]):
    """The longest wait that any of `limiters` asks for; each of them counts every failure."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K, /) -> float:
        return max((limiter.when(key) for limiter in self._limiters), default=0.0)

    def forget(self, key: K, /) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: K, /) -> int:
        return max((limiter.failures(key) for limiter in self._limiters), default=0)


def default_limiter(clock: Clock) -> RateLimiter[Hashable]:
    """client-go's: 5 ms doubling to 1000 s a key, and 10 a second with a burst of 100 over all keys."""
    return Slowest[Hashable](ExponentialPerKey(), TokenBucket(clock=clock))
