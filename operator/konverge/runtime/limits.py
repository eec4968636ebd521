"""The limits on retries of one controller, which may change while it runs.

Numbers flow in from flags or from a file that changed; the work queue asks what flows out. The failures that a key has
collected stay when the numbers change.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from konverge.errors import ConfigError
from konverge.ports import Clock
from konverge.workqueue.ratelimit import ExponentialPerKey, Slowest, TokenBucket

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """A failed key waits `min_delay` seconds, doubling to `max_delay`; all failed keys together are let back at `rate`
    a second, with `burst` at once. The defaults are client-go's.

    Raises: ConfigError when they cannot work.
    """

    min_delay: float = 0.005
    max_delay: float = 1000.0
    rate: float = 10.0
    burst: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.min_delay <= self.max_delay:
            raise ConfigError(
                f"retry-min-delay must be above 0 and at most retry-max-delay, not {self.min_delay:g} and {self.max_delay:g}"
            )
        if self.rate <= 0 or self.burst < 1:
            raise ConfigError(f"retry-rate and retry-burst must be above 0, not {self.rate:g} and {self.burst}")


class AdjustableLimiter(Generic[K]):
    """A rate limiter for a work queue whose numbers can be changed with `adjust`."""

    def __init__(self, limits: RetryLimits, clock: Clock) -> None:
        self._per_key = ExponentialPerKey[K](limits.min_delay, limits.max_delay)
        self._overall = TokenBucket[K](limits.rate, limits.burst, clock=clock)
        self._slowest = Slowest[K](self._per_key, self._overall)

    def adjust(self, limits: RetryLimits) -> None:
        """Use other numbers from the next failure on."""
        self._per_key.adjust(limits.min_delay, limits.max_delay)
        self._overall.adjust(limits.rate, limits.burst)

    def when(self, key: K, /) -> float:
        """See RateLimiter."""
        return self._slowest.when(key)

    def forget(self, key: K, /) -> None:
        """See RateLimiter."""
        self._slowest.forget(key)

    def failures(self, key: K, /) -> int:
        """See RateLimiter."""
        return self._slowest.failures(key)
