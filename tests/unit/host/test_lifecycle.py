"""How a manager is started, stopped and judged, apart from kopf and from signals."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from konverge.errors import LeaseLost
from konverge.host.lifecycle import Lifecycle, Runnable


class Manager:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.started, self.stopped = asyncio.Event(), False

    async def run(self, stop: asyncio.Event) -> None:
        self.started.set()
        if self.error is not None:
            raise self.error
        await stop.wait()
        self.stopped = True

    async def build(self) -> Runnable:
        return self


@contextlib.asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[Lifecycle]:
    lifecycle = Lifecycle(manager.build, budget=30)
    lifecycle.start()
    lifecycle.ready.set()
    await manager.started.wait()
    yield lifecycle
    lifecycle.request_stop("the test is over")
    await lifecycle.wait()


async def test_the_manager_is_built_only_when_kopf_is_ready() -> None:
    manager = Manager()
    lifecycle = Lifecycle(manager.build, budget=30)
    lifecycle.start()
    await asyncio.sleep(0)
    assert not manager.started.is_set()
    assert lifecycle.readiness() == {"manager": "not started yet"}
    lifecycle.ready.set()
    await manager.started.wait()
    assert lifecycle.readiness() == {"manager": None}
    lifecycle.request_stop("done")
    await lifecycle.wait()


async def test_a_stopping_manager_is_alive_but_not_ready() -> None:
    async with running(Manager()) as lifecycle:
        lifecycle.request_stop("SIGTERM received")
        assert lifecycle.readiness() == {"manager": "stopping"}
        assert lifecycle.liveness() == {"manager": None}


async def test_kopf_is_told_to_end_only_after_the_manager_has_ended() -> None:
    manager = Manager()
    async with running(manager) as lifecycle:
        lifecycle.request_stop("SIGTERM received")
        assert not lifecycle.ended.is_set()
        await lifecycle.wait()
        assert manager.stopped
        assert lifecycle.failure is None


async def test_a_failed_manager_is_neither_alive_nor_ready() -> None:
    async with running(Manager(LeaseLost("another replica leads"))) as lifecycle:
        await lifecycle.wait()
        checks = {"manager": "the manager failed: LeaseLost: another replica leads"}
        assert lifecycle.liveness() == lifecycle.readiness() == checks


async def test_the_log_has_a_traceback_for_a_bug_but_none_for_an_error_of_the_error_tree(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in (LeaseLost("another replica leads"), ZeroDivisionError("division by zero")):
        async with running(Manager(error)) as lifecycle:
            await lifecycle.wait()
    ours, bug = (record for record in caplog.records if record.message.startswith("the manager failed"))
    assert not ours.exc_info
    assert bug.exc_info


async def test_a_factory_that_fails_is_a_failure_of_the_manager() -> None:
    async def factory() -> Runnable:
        raise LeaseLost("no lease")

    lifecycle = Lifecycle(factory, budget=30)
    lifecycle.start()
    lifecycle.ready.set()
    await lifecycle.wait()
    assert lifecycle.failure == "the manager failed: LeaseLost: no lease"


async def test_a_waiter_that_is_cancelled_leaves_the_manager_running() -> None:
    async with running(Manager()) as lifecycle:
        waiter = asyncio.create_task(lifecycle.wait())
        await asyncio.sleep(0)
        waiter.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiter
        assert lifecycle.readiness() == {"manager": None}


async def test_the_first_failure_is_the_one_reported() -> None:
    async with running(Manager()) as lifecycle:
        lifecycle.fail("kopf failed")
        lifecycle.fail("and then all else")
        assert lifecycle.failure == "kopf failed"


async def test_a_manager_over_its_budget_is_cancelled_and_that_is_a_failure() -> None:
    class Stubborn(Manager):
        async def run(self, stop: asyncio.Event) -> None:
            self.started.set()
            await asyncio.Event().wait()

    manager = Stubborn()
    lifecycle = Lifecycle(manager.build, budget=0)
    lifecycle.start()
    lifecycle.ready.set()
    await manager.started.wait()
    lifecycle.request_stop("SIGTERM received")
    await lifecycle.wait()
    assert lifecycle.failure == "the manager did not stop within 0 s and is cancelled"


async def test_a_manager_that_something_else_cancelled_is_a_failure() -> None:
    async with running(Manager(asyncio.CancelledError())) as lifecycle:
        await lifecycle.wait()
        assert lifecycle.failure == "the manager was cancelled without being asked to stop"


async def test_a_manager_that_is_cancelled_amid_its_stop_is_a_failure() -> None:
    class Interrupted(Manager):
        async def run(self, stop: asyncio.Event) -> None:
            self.started.set()
            await stop.wait()
            raise asyncio.CancelledError

    async with running(Interrupted()) as lifecycle:
        lifecycle.request_stop("SIGTERM received")
        await lifecycle.wait()
        assert lifecycle.failure == "the manager was cancelled before its stop was complete"


async def test_a_stop_before_the_start_means_that_nothing_starts() -> None:
    manager = Manager()
    lifecycle = Lifecycle(manager.build, budget=30)
    lifecycle.request_stop("SIGTERM received")
    lifecycle.start()
    lifecycle.ready.set()
    await lifecycle.wait()
    assert not manager.started.is_set()
    assert lifecycle.failure is None
