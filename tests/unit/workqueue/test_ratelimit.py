"""What a failed key waits before its next try."""

from collections.abc import Iterator

import pytest

from konverge.testing.sim import Sim, simulate
from konverge.workqueue.ratelimit import ExponentialPerKey, Slowest, TokenBucket, default_limiter


def waits(limiter: ExponentialPerKey[str] | Slowest[str], key: str) -> Iterator[float]:
    while True:
        yield limiter.when(key)


def test_each_failure_of_a_key_doubles_its_wait() -> None:
    delays = waits(ExponentialPerKey(), "a")
    assert [next(delays) for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]


def test_the_wait_ends_at_the_cap_however_many_failures_there_are() -> None:
    limiter = ExponentialPerKey[str](base=1, cap=10)
    delays = [limiter.when("a") for _ in range(2000)]
    assert delays[:5] == [1, 2, 4, 8, 10]
    assert set(delays[4:]) == {10}


def test_keys_fail_on_their_own() -> None:
    limiter = ExponentialPerKey[str]()
    limiter.when("a")
    limiter.when("a")
    assert (limiter.when("b"), limiter.failures("a"), limiter.failures("b")) == (0.005, 2, 1)


def test_a_forgotten_key_starts_afresh() -> None:
    limiter = ExponentialPerKey[str]()
    limiter.when("a")
    limiter.forget("a")
    limiter.forget("never seen")
    assert limiter.failures("a") == 0
    assert limiter.when("a") == 0.005


@pytest.mark.parametrize(("base", "cap"), [(0, 1), (-1, 1), (2, 1)])
def test_delays_that_make_no_sense_are_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most the cap"):
        ExponentialPerKey(base, cap)


@simulate()
async def test_a_bucket_lets_a_burst_pass_and_then_spreads_the_rest(sim: Sim) -> None:
    bucket = TokenBucket[str](qps=10, burst=3, clock=sim.clock)
    assert [bucket.when("any") for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])


@simulate()
async def test_a_bucket_refills_with_time_up_to_its_burst(sim: Sim) -> None:
    bucket = TokenBucket[str](qps=10, burst=2, clock=sim.clock)
    for _ in range(3):
        bucket.when("any")
    await sim.clock.sleep(3600)
    bucket.forget("any")
    assert [bucket.when("any") for _ in range(3)] == pytest.approx([0, 0, 0.1])
    assert bucket.failures("any") == 0


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (1, 0)])
@simulate()
async def test_a_bucket_without_flow_is_refused(sim: Sim, qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        TokenBucket(qps, burst, clock=sim.clock)


@simulate()
async def test_the_slowest_of_several_limiters_counts(sim: Sim) -> None:
    limiter = Slowest[str](ExponentialPerKey(base=0.15, cap=10), TokenBucket(qps=10, burst=1, clock=sim.clock))
    assert [limiter.when("a"), limiter.when("b"), limiter.when("c")] == pytest.approx([0.15, 0.15, 0.2])
    limiter.forget("a")
    assert (limiter.failures("a"), limiter.failures("b")) == (0, 1)


@simulate()
async def test_by_default_a_storm_of_failures_is_spread_over_all_keys(sim: Sim) -> None:
    limiter = default_limiter(sim.clock)
    delays = [limiter.when(f"key-{n}") for n in range(120)]
    assert delays[:100] == [0.005] * 100
    assert delays[100:] == pytest.approx([n / 10 for n in range(1, 21)])
