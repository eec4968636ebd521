"""The life of the manager inside the host: a factory in; started, stopped within a budget, and judged.

The manager stops before kopf does: the first reason to stop sets `stopping`, the manager ends in its own order, and
only its end sets `ended`, which is kopf's stop flag. The first failure decides the exit code.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from konverge.errors import KonvergeError
from konverge.host.endpoints import Checks

logger = logging.getLogger(__name__)


class Runnable(Protocol):
    """What the host runs: the manager."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then stop everything in order and return. Raises what made it fail."""
        ...


RunnableFactory = Callable[[], Awaitable[Runnable]]


class Lifecycle:
    """One run of one manager; `start` is to be called inside the event loop.

    `ready` is what the manager waits for before it is built; `budget` is the seconds that it has for its stop.
    """

    def __init__(self, factory: RunnableFactory, *, budget: float) -> None:
        self.ready, self.stopping, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failure: str | None = None
        self._factory, self._budget = factory, budget
        self._running = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def started(self) -> bool:
        """Whether the manager's task was created."""
        return self._task is not None

    def start(self) -> None:
        """Create the manager's task, unless a stop was requested already."""
        if self.stopping.is_set():
            return
        self._task = asyncio.create_task(self._run(), name="manager")
        self._task.add_done_callback(self._judge)

    def request_stop(self, why: str) -> None:
        """Begin the ordered stop; later reasons change nothing."""
        if self.stopping.is_set():
            return
        logger.info("stopping: %s", why)
        self.stopping.set()
        if self._task is None:
            self.ended.set()
        elif not self._running:
            self._task.cancel()  # nothing was started, so nothing has an order to stop in
        else:
            self._timer = asyncio.get_running_loop().call_later(self._budget, self._give_up, self._task)

    def fail(self, why: str, error: BaseException | None = None) -> None:
        """Note a failure, with a traceback where the error is not one of ours, and begin the ordered stop."""
        surprising = error is not None and not isinstance(error, KonvergeError)
        logger.error("%s", why, exc_info=error if surprising else None)
        self.failure = self.failure or why
        self.request_stop(why)

    async def wait(self) -> None:
        """Until the manager has ended. Cancelling the waiter leaves the manager alone."""
        await self.ended.wait()

    def liveness(self) -> Checks:
        """Alive until it failed; an ordered stop is no reason to be killed."""
        return {"manager": self.failure}

    def readiness(self) -> Checks:
        """Ready while it runs and was not asked to stop."""
        if self.failure or self.stopping.is_set():
            return {"manager": self.failure or "stopping"}
        return {"manager": None if self._running else "not started yet"}

    async def _run(self) -> None:
        await self.ready.wait()
        runnable = await self._factory()
        self._running = True
        await runnable.run(self.stopping)

    def _give_up(self, task: asyncio.Task[None]) -> None:
        self.fail(f"the manager did not stop within {self._budget:g} s and is cancelled")
        task.cancel()

    def _judge(self, task: asyncio.Task[None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.fail(f"the manager failed: {type(error).__name__}: {error}", error)
        elif not self.stopping.is_set():
            self.fail(f"the manager {'was cancelled' if task.cancelled() else 'ended'} without being asked to stop")
        elif task.cancelled() and self._running and not self.failure:
            self.fail("the manager was cancelled before its stop was complete")
        elif not self.failure:
            logger.info("the manager has stopped")
        self.ended.set()
