"""Which failures are worth another attempt, and how long to wait for it."""

import asyncio

import pytest

from konverge.errors import ApiError, ConnectionFailed, KonvergeError, WriteBlocked
from konverge.kube.retry import NeverSent, Retrier, RetryPolicy
from tests.unit.kube.serving import FakeClock, NoJitter


class Flaky:
    """Fails with each of these in turn, then succeeds."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.attempts = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def status(code: int, retry_after: float | None = None) -> ApiError:
    return ApiError.of(code, "Reason", "message", retry_after=retry_after)


def retrier(clock: FakeClock, policy: RetryPolicy | None = None) -> Retrier:
    return Retrier(clock=clock, random=NoJitter(), policy=policy)


async def test_a_success_is_not_delayed(clock: FakeClock) -> None:
    assert await retrier(clock).run(Flaky(), repeatable=True) == "done"
    assert clock.slept == []


@pytest.mark.parametrize("failure", [status(429), NeverSent("refused")])
@pytest.mark.parametrize("repeatable", [True, False])
async def test_what_was_surely_not_executed_is_sent_again(
    clock: FakeClock, failure: KonvergeError, *, repeatable: bool
) -> None:
    flaky = Flaky(failure)
    assert await retrier(clock).run(flaky, repeatable=repeatable) == "done"
    assert flaky.attempts == 2


@pytest.mark.parametrize("failure", [status(500), status(503), status(504), ConnectionFailed("reset")])
async def test_what_may_have_been_executed_is_sent_again_only_if_repeatable(
    clock: FakeClock, failure: KonvergeError
) -> None:
    assert await retrier(clock).run(Flaky(failure), repeatable=True) == "done"
    once = Flaky(failure)
    with pytest.raises(type(failure)):
        await retrier(clock).run(once, repeatable=False)
    assert once.attempts == 1


async def test_an_apply_with_a_field_that_does_not_exist_is_not_sent_again(clock: FakeClock) -> None:
    flaky = Flaky(ApiError.of(500, "", "failed to create typed patch object: .spec.x: field not declared in schema"))
    with pytest.raises(ApiError):
        await retrier(clock).run(flaky, repeatable=True)
    assert flaky.attempts == 1


@pytest.mark.parametrize(
    "failure", [*map(status, (400, 401, 403, 404, 409, 410, 422)), WriteBlocked("lease lost"), KeyError("bug")]
)
async def test_nothing_else_is_sent_again(clock: FakeClock, failure: Exception) -> None:
    flaky = Flaky(failure)
    with pytest.raises(type(failure)):
        await retrier(clock).run(flaky, repeatable=True)
    assert (flaky.attempts, clock.slept) == (1, [])


async def test_waits_double_up_to_the_cap_and_end_after_the_last_attempt(clock: FakeClock) -> None:
    policy = RetryPolicy(attempts=6, base=1.0, cap=5.0)
    flaky = Flaky(*(ConnectionFailed(f"failure {n}") for n in range(1, 9)))
    with pytest.raises(ConnectionFailed, match="failure 6"):
        await retrier(clock, policy).run(flaky, repeatable=True)
    assert clock.slept == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_five_throttled_answers_are_waited_out_and_never_shorter_than_asked(clock: FakeClock) -> None:
    flaky = Flaky(*(status(429, retry_after=3.0) for _ in range(5)))
    assert await retrier(clock).run(flaky, repeatable=False) == "done"
    assert len(clock.slept) == 5
    assert all(seconds >= 3.0 for seconds in clock.slept)


async def test_a_wait_that_goes_beyond_the_budget_is_left_to_the_caller(clock: FakeClock) -> None:
    with pytest.raises(ApiError) as caught:
        await retrier(clock, RetryPolicy(budget=60.0)).run(Flaky(status(429, retry_after=61.0)), repeatable=True)
    assert caught.value.retry_after == 61.0
    assert clock.slept == []


async def test_slow_attempts_use_up_the_budget_too(clock: FakeClock) -> None:
    async def times_out() -> None:
        clock.advance(35.0)
        raise ConnectionFailed("timed out")

    with pytest.raises(ConnectionFailed):
        await retrier(clock, RetryPolicy(budget=60.0)).run(times_out, repeatable=True)
    assert len(clock.slept) == 1


async def test_jitter_shortens_the_backoff_by_at_most_half(clock: FakeClock) -> None:
    class LowEnd(NoJitter):
        def uniform(self, a: float, b: float) -> float:
            return a

    await Retrier(clock=clock, random=LowEnd(), policy=RetryPolicy(base=1.0)).run(Flaky(status(503)), repeatable=True)
    assert clock.slept == [0.5]


async def test_a_cancelled_caller_stops_waiting(clock: FakeClock) -> None:
    class Asleep(FakeClock):
        def __init__(self) -> None:
            super().__init__()
            self.asleep = asyncio.Event()

        async def sleep(self, seconds: float) -> None:
            self.asleep.set()
            await asyncio.Event().wait()

    asleep = Asleep()
    flaky = Flaky(status(503))
    task = asyncio.create_task(retrier(asleep).run(flaky, repeatable=True))
    await asleep.asleep.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flaky.attempts == 1
