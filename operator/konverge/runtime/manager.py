"""The whole of a running operator: caches first, then the election, then the controllers; and back in reverse order.

Start: events and caches, until every cache has listed (a standby replica keeps them warm); the lease; controllers and
what else only a leader runs. Stop: no new work, what runs may finish within the budget, the lease is given back after
the last worker, then the caches end. A lost lease blocks writes and cancels everything at once.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from konverge.cache.informer import Caches
from konverge.errors import LeaseLost
from konverge.runtime.controller import Controller
from konverge.runtime.events import EventRecorder

logger = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
SHUTDOWN_BUDGET: Final = 30.0
FLUSH_BUDGET: Final = 2.0


class Elector(Protocol):
    """A leader election. `hold` ends only by raising LeaseLost."""

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        ...

    async def hold(self) -> None:
        """Keep the lease for ever. Raises: LeaseLost."""
        ...

    async def release(self) -> None:
        """Give the lease back, if it is still ours."""
        ...


class Runnable(Protocol):
    """What runs beside the controllers, such as the scheduler. Ends by being cancelled."""

    async def run(self) -> None:
        """Work for ever."""
        ...


class Manager:
    """Starts and stops the parts of an operator in order.

    `leader_only` runs beside the controllers, `everywhere` on replicas that stand by as well, from before the caches have
    listed. `block_writes` is called with a reason when the lease is lost, before anything else. Times are in seconds.
    """

    def __init__(
        self,
        *,
        caches: Caches,
        controllers: Sequence[Controller],
        recorder: EventRecorder,
        block_writes: Callable[[str], None],
        leader_only: Sequence[Runnable] = (),
        everywhere: Sequence[Runnable] = (),
        elector: Elector | None = None,
        on_leading: Callable[[bool], None] | None = None,
        sync_timeout: float = SYNC_TIMEOUT,
        shutdown_budget: float = SHUTDOWN_BUDGET,
    ) -> None:
        self.caches, self._controllers, self._recorder = caches, controllers, recorder
        self._block_writes, self._leader_only, self._elector = block_writes, leader_only, elector
        self._everywhere, self._on_leading = everywhere, on_leading
        self._sync_timeout, self._shutdown_budget = sync_timeout, shutdown_budget
        self.leading = False
        self.synced = False

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set and everything has ended in order.

        Raises: CacheNotSynced when a cache does not list in time; LeaseLost; whatever a part failed with.
        """
        for controller in self._controllers:
            controller.connect()
        background = [
            asyncio.create_task(self._recorder.run(), name="events"),
            asyncio.create_task(self.caches.run(), name="caches"),
            *(asyncio.create_task(each.run(), name=type(each).__name__) for each in self._everywhere),
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            if await self._or_stop(self._ready_to_lead(), stopping, background):
                await self._lead(stopping, background)
        finally:
            await cancel_all([*background, stopping])
        logger.info("stopped")

    def health(self) -> Mapping[str, str | None]:
        """What is wrong, by the name of the part; None where all is well."""
        report: dict[str, str | None] = {"caches-synced": None if self.synced else "the caches have not listed yet"}
        for informer in self.caches.health():
            scope = informer.scope
            part = (
                "metadata" if scope.metadata_only else "lean" if scope.left_out else "",
                scope.label_selector,
                scope.field_selector,
            )
            name = "-".join(filter(None, ["informer", str(informer.resource), scope.namespace, *part]))
            report[name] = None if informer.healthy else informer.last_error or "not watching"
        return report

    async def _ready_to_lead(self) -> None:
        await self.caches.wait_for_sync(self._sync_timeout)
        self.synced = True
        if self._elector is not None:
            logger.info("caches are warm; waiting for the lease")
            await self._elector.acquire()

    async def _lead(self, stopping: asyncio.Task[Any], background: Iterable[asyncio.Task[Any]]) -> None:
        """Run what a leader runs until told to stop, or until a part fails."""
        self._set_leading(leads=True)
        controllers = [asyncio.create_task(each.run(), name=each.name) for each in self._controllers]
        others = [asyncio.create_task(each.run(), name=type(each).__name__) for each in self._leader_only]
        hold = [asyncio.create_task(self._elector.hold(), name="lease")] if self._elector else []
        logger.info("leading: %s", ", ".join(task.get_name() for task in [*controllers, *others]))
        released = False
        try:
            await asyncio.wait(
                [stopping, *hold, *controllers, *others, *background], return_when=asyncio.FIRST_COMPLETED
            )
            if stopping.done():
                await self._drain(controllers, hold)
            _raise_first([*hold, *controllers, *others, *background])
            if not stopping.done():
                raise RuntimeError("a part of the operator ended by itself")
            released = True
        except LeaseLost as error:
            self._block_writes(str(error))
            raise
        finally:
            await cancel_all([*others, *controllers, *hold])
            self._set_leading(leads=False)
            if released:
                await self._flush_events()
                await self._give_back()

    async def _drain(self, controllers: Sequence[asyncio.Task[Any]], hold: Sequence[asyncio.Task[Any]]) -> None:
        """Let what runs finish, within the budget; the lease is still held meanwhile, and its loss ends the wait."""
        drains = [asyncio.create_task(each.drain()) for each in self._controllers]
        drained = asyncio.gather(*drains, *controllers)
        try:
            done, _ = await asyncio.wait(
                [drained, *hold], timeout=self._shutdown_budget, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                logger.warning("reconciles did not end within %g s; cancelling them", self._shutdown_budget)
        finally:
            drained.cancel()
            await asyncio.gather(drained, return_exceptions=True)

    async def _or_stop(
        self, step: Coroutine[Any, Any, None], stopping: asyncio.Task[Any], background: Iterable[asyncio.Task[Any]]
    ) -> bool:
        """Take a step of the start; False when told to stop before it was over."""
        task = asyncio.create_task(step)
        try:
            await asyncio.wait([task, stopping, *background], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
                return not stopping.done() or await self._give_back()
        finally:
            await cancel_all([task])
        _raise_first(background)
        return False

    async def _give_back(self) -> bool:
        """Give the lease back; always False, for a start that was told to stop in the moment of being elected."""
        if self._elector is not None:
            await self._elector.release()
        return False

    async def _flush_events(self) -> None:
        """Write what was recorded while this replica may still write."""
        try:
            async with asyncio.timeout(FLUSH_BUDGET):
                await self._recorder.flush()
        except TimeoutError:
            logger.warning("some events were not written")

    def _set_leading(self, *, leads: bool) -> None:
        self.leading = leads
        if self._on_leading is not None:
            self._on_leading(leads)


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel the tasks, and wait until each has ended, however it does."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _raise_first(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Raise what the first failed task failed with, a lost lease before all."""
    failures = [error for task in tasks if task.done() and not task.cancelled() and (error := task.exception())]
    for failure in failures:
        if isinstance(failure, LeaseLost):
            raise failure
    if failures:
        raise failures[0]
