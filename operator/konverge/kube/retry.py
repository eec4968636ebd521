"""Which failed requests are sent again, when, and how often. The one place that knows tenacity.

In flows one attempt (a coroutine function) and whether repeating it is harmless; out flows its answer or the last
error. Three kinds of failure are worth another attempt:

- 429: the server refused before it executed anything, so every request may be repeated, after Retry-After.
- `NeverSent`: no connection was made, so every request may be repeated.
- 5xx and broken connections: the request may have been executed. Only repeatable ones are sent again; for the others
  the error surfaces, and the caller's next reconcile reads what came of it.

409 is never repeated here: only the caller can reread and decide anew. Attempts are few, because every caller has a
slower loop of its own (the reflector's backoff, the work queue's limiter) in which a fault can be seen.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from konverge.errors import ApiError, ConnectionFailed, ServerError, TooManyRequests
from konverge.ports import Clock, Random

T = TypeVar("T")

_UNKNOWN_FIELD = "field not declared in schema"
"""Server-side apply answers a field that does not exist with 500, though it will be as wrong the next time."""


class NeverSent(ConnectionFailed):
    """No connection was made: the server cannot have seen the request."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The bounds: attempts (the first included), and seconds.

    `throttled_attempts` holds for 429, `attempts` for all else; the wait is `base` doubling to `cap`, jittered down by
    up to half, and never shorter than what the server asked for; no wait goes beyond `budget` after the first attempt.
    """

    attempts: int = 5
    throttled_attempts: int = 10
    base: float = 0.1
    cap: float = 5.0
    budget: float = 60.0


class Retrier:
    """Runs attempts under a policy, on the given clock and chance."""

    def __init__(self, *, clock: Clock, random: Random, policy: RetryPolicy | None = None) -> None:
        self._clock = clock
        self._random = random
        self._policy = policy or RetryPolicy()

    async def run(self, attempt: Callable[[], Awaitable[T]], *, repeatable: bool) -> T:
        """The answer of the first attempt that succeeds.

        Raises: what the last attempt raised.
        """
        started = self._clock.monotonic()
        try:
            return await attempt()
        except (ApiError, ConnectionFailed) as error:
            if not _worth_another(error, repeatable=repeatable):
                raise
            failures = [error]

        async def next_attempt() -> T:
            # Most requests succeed at once, and setting tenacity up costs more than encoding one. So it comes in only
            # now, and is told of the first failure as if it had seen it.
            if failures:
                raise failures.pop()
            return await attempt()

        def stop(state: RetryCallState) -> bool:
            throttled = isinstance(_error(state), TooManyRequests)
            most = self._policy.throttled_attempts if throttled else self._policy.attempts
            end = self._clock.monotonic() + state.upcoming_sleep
            return state.attempt_number >= most or end - started > self._policy.budget

        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            retry=retry_if_exception(lambda error: _worth_another(error, repeatable=repeatable)),
            wait=self._wait,
            stop=stop,
            reraise=True,
        )
        return await retrying(next_attempt)

    def _wait(self, state: RetryCallState) -> float:
        error = _error(state)
        backoff: float = min(self._policy.cap, self._policy.base * 2 ** (state.attempt_number - 1))
        backoff *= self._random.uniform(0.5, 1.0)
        # The jitter comes on top of what was asked for, so that refused clients do not come back all at once.
        asked = error.retry_after if isinstance(error, ApiError) else None
        return backoff if asked is None else asked + backoff


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _worth_another(error: BaseException, *, repeatable: bool) -> bool:
    if isinstance(error, TooManyRequests | NeverSent):
        return True
    if isinstance(error, ServerError) and _UNKNOWN_FIELD in error.message:
        return False
    return repeatable and isinstance(error, ServerError | ConnectionFailed)
