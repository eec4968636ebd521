"""The scheduler of a replica that shares the work with others: it joins them, places its share of the pods, and leaves.

Every replica runs one, the leader and those that stand by. The right to place pods is the replica's own lease among those
of the members, so its writes pass another gate than the leader's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from konverge.app.settings import FIELD_MANAGER
from konverge.cache.informer import Informer
from konverge.election import Members
from konverge.kube.client import Client
from konverge.kube.gate import WriteGate
from konverge.model.resource import ConfigMap
from konverge.ports import Clock, Random, Scope
from konverge.runtime.events import EventRecorder
from konverge.runtime.manager import Runnable, cancel_all
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.sharing import Shared


class SharedScheduler:
    """See the module. `synced` returns when the caches have listed; `workers` run as long as the scheduler may need
    them: its recorder of events, and what follows the register.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        members: Members,
        synced: Callable[[], Awaitable[None]],
        workers: Sequence[Runnable],
    ) -> None:
        self._scheduler, self._members, self._synced, self._workers = scheduler, members, synced, workers

    @classmethod
    def on(
        cls,
        client: Client,
        *,
        group: str,
        namespace: str,
        identity: str,
        clock: Clock,
        random: Random,
        synced: Callable[[], Awaitable[None]],
        scheduler: Callable[[Client, EventRecorder, Shared], Scheduler],
    ) -> Self:
        """A replica's part in `group`, whose leases and register are in `namespace`. `scheduler` makes the scheduler.

        Raises: ConfigError for names that cannot be used.
        """
        gate = WriteGate()
        gated = client.gated(gate)
        members = Members(
            gated,
            group=group,
            namespace=namespace,
            identity=identity,
            clock=clock,
            random=random,
        )
        gate.fence(lambda: members.is_member)
        recorder = EventRecorder(gated, clock, component=FIELD_MANAGER, instance=identity.partition("_")[0])
        made = scheduler(gated, recorder, Shared(members, namespace, group))
        members.on_change(made.team_changed)
        scope = Scope(namespace, field_selector=f"metadata.name={group}")
        register = Informer(gated, ConfigMap, scope, clock=clock, random=random)
        register.subscribe(made.on_register)
        return cls(made, members, synced, [recorder, register])

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler itself."""
        return self._scheduler

    @property
    def trouble(self) -> str:
        """What keeps this replica from its lease; empty where nothing does."""
        return self._members.trouble

    async def run(self) -> None:
        """Place pods until cancelled; then the lease is given back, unless something may still take effect.

        Raises: LeaseLost when this replica's own lease is lost.
        """
        await self._synced()
        await self._members.join()
        self._scheduler.team_changed()
        beside = [asyncio.create_task(worker.run(), name=type(worker).__name__) for worker in self._workers]
        holding = asyncio.create_task(self._members.hold(), name="membership")
        placing = asyncio.create_task(self._scheduler.run(), name="scheduler")
        try:
            await asyncio.wait([holding, placing, *beside], return_when=asyncio.FIRST_COMPLETED)
            for task in (holding, placing, *beside):
                if task.done():
                    task.result()
            raise RuntimeError("a part of the scheduler ended by itself")
        finally:
            await cancel_all([placing])
            over = await self._scheduler.leave()
            await cancel_all([holding, *beside])
            if over:
                await self._members.leave()
