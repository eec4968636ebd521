"""The other replicas that place pods: what they booked is counted on its node here, until it is known what became of it.

In flow the others' sections of the register; out flow assumed pods in the snapshot. Whoever takes over a version of the
register has the pods as of its `bound`: so a pod that is booked no longer and not shown as bound has no node after all.
"""

import asyncio
from collections.abc import Callable, Mapping

from konverge.cache.informer import Cache
from konverge.errors import NotFound
from konverge.model.meta import uid_of
from konverge.model.resource import Object, Pod
from konverge.ports import Reader
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import SchedulingQueue
from konverge.scheduler.register import Booking
from konverge.scheduler.snapshot import Snapshot

Others = Mapping[str, tuple[str, Booking]]
"""By the uid of the pod: the replica, and what it booked."""


class Neighbours:
    """See the module. `see` puts a pod where it belongs."""

    def __init__(
        self, reader: Reader, pods: Cache, snapshot: Snapshot, queue: SchedulingQueue, see: Callable[[PodInfo], None]
    ) -> None:
        self._reader, self._pods, self._snapshot, self._queue, self._see = reader, pods, snapshot, queue, see
        self._booked: Others = {}

    def has(self, uid: str) -> bool:
        """Whether another replica has booked a node for the pod."""
        return uid in self._booked

    async def meet(self, others: Others) -> None:
        """Read the pods that the cache does not show yet. Raises: KonvergeError."""
        unknown = [
            booking
            for uid, (_, booking) in others.items()
            if uid not in self._booked and ((raw := self._pods.get(booking.pod)) is None or uid_of(raw) != uid)
        ]
        await self.read(unknown)

    async def read(self, bookings: list[Booking]) -> list[Object]:
        """These pods as the server has them, those that there are; the cache learns of them. Raises: KonvergeError."""
        found = await asyncio.gather(*(self._read(booking) for booking in bookings))
        return [raw for raw in found if raw is not None]

    def news(self, others: Others) -> bool:
        """Whether any of these bookings is new here."""
        return any(self._booked.get(uid) != entry for uid, entry in others.items())

    def absorb(self, others: Others) -> None:
        """Count what is booked now; what is booked no longer, and not shown as bound, is free again."""
        before, self._booked = self._booked, others
        for uid, entry in others.items():
            if before.get(uid) != entry:
                self._count(uid, entry[1])
        for uid in before.keys() - others.keys():
            booking = before[uid][1]
            if self._snapshot.is_assumed(uid) and self._snapshot.node_of(uid) == booking.node_name:
                self.freed(uid)
                if (raw := self._pods.get(booking.pod)) is not None:
                    self._see(PodInfo(raw))

    def freed(self, uid: str) -> None:
        """A pod keeps its node no longer, if it had one, and no other replica has booked one for it."""
        if not self.has(uid) and self._snapshot.forget(uid):
            self._queue.notify([ClusterEvent.POD_GONE])

    async def _read(self, booking: Booking) -> Object | None:
        try:
            live = await self._reader.get(Pod, booking.pod.name, booking.pod.namespace)
        except NotFound:
            return None
        self._pods.wrote(live)
        return live

    def _count(self, uid: str, booking: Booking) -> None:
        raw = self._pods.get(booking.pod)
        if raw is None or uid_of(raw) != uid:
            return
        pod = PodInfo(raw)
        if pod.waiting:
            self._queue.discard(uid)
            self._snapshot.assume(pod, booking.node_name)
