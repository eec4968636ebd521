"""Limits on retries that change while a controller runs."""

from typing import Any

import pytest

from konverge.errors import ConfigError
from konverge.runtime.limits import AdjustableLimiter, RetryLimits
from konverge.testing.sim import Sim, simulate
from konverge.workqueue.ratelimit import default_limiter


@simulate()
async def test_the_defaults_are_client_gos(sim: Sim) -> None:
    ours, theirs = AdjustableLimiter[str](RetryLimits(), sim.clock), default_limiter(sim.clock)
    for _ in range(200):
        assert ours.when("a") == theirs.when("a")
    assert ours.failures("a") == 200


@simulate()
async def test_other_delays_hold_from_the_next_failure_on_and_failures_stay(sim: Sim) -> None:
    limiter = AdjustableLimiter[str](RetryLimits(), sim.clock)
    for _ in range(3):
        limiter.when("a")
    limiter.adjust(RetryLimits(min_delay=1, max_delay=20))
    assert [limiter.when("a") for _ in range(3)] == [8, 16, 20]
    assert limiter.when("b") == 1
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.when("a") == 1


@simulate()
async def test_another_rate_holds_from_now_on(sim: Sim) -> None:
    limits = RetryLimits(min_delay=0.001, max_delay=0.001, rate=1, burst=1)
    limiter = AdjustableLimiter[int](limits, sim.clock)
    assert [limiter.when(key) for key in range(3)] == [0.001, 1, 2]
    limiter.adjust(RetryLimits(min_delay=0.001, max_delay=0.001, rate=100, burst=100))
    await sim.clock.sleep(1)
    assert [limiter.when(key) for key in range(50)] == [0.001] * 50


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"min_delay": 0}, "retry-min-delay must be above 0 and at most retry-max-delay, not 0 and 1000"),
        ({"min_delay": 5, "max_delay": 2}, "not 5 and 2"),
        ({"rate": 0}, "retry-rate and retry-burst must be above 0, not 0 and 100"),
        ({"burst": 0}, "not 10 and 0"),
    ],
)
def test_numbers_that_cannot_work_are_refused(numbers: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetryLimits(**numbers)
