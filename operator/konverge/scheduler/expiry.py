"""Binds that went through and that the cache has not shown for a long time: the server is asked what became of the pods.

In flow the assumptions that are past their moment; out flows what the server has, into the cache, or the end of the
assumption. Not by the clock alone: a watch may be silent for longer, and the room of a pod that runs must not be given away.
"""

import logging
from collections.abc import Callable
from typing import Final

from konverge.cache.informer import Cache
from konverge.errors import KonvergeError, NotFound
from konverge.model.meta import uid_of
from konverge.model.resource import Object, Pod
from konverge.ports import Clock, Reader
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

_log = logging.getLogger(__name__)

CHECK: Final = 30.0
"""Seconds between two looks."""


class Expiry:
    """See the module."""

    def __init__(
        self, reader: Reader, pods: Cache, snapshot: Snapshot, clock: Clock, ended: Callable[[PodInfo], None]
    ) -> None:
        """`ended` is told of the pods that are counted on their node no longer."""
        self._reader, self._pods, self._snapshot, self._clock, self._ended = reader, pods, snapshot, clock, ended

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(CHECK)
            for pod in self._snapshot.overdue(self._clock.monotonic()):
                await self._ask(pod)

    async def _ask(self, pod: PodInfo) -> None:
        live: Object | None = None
        try:
            live = await self._reader.get(Pod, pod.name, pod.namespace)
        except NotFound:
            pass
        except KonvergeError as error:
            _log.warning("cannot read how pod %s stands, which was bound long ago; asking again: %s", pod.key, error)
            return
        if not self._snapshot.is_assumed(pod.uid):  # shown meanwhile
            return
        if live is not None and uid_of(live) == pod.uid and live["spec"].get("nodeName"):
            self._pods.wrote(live)
            return
        _log.warning("pod %s was bound and is not any more; its node counts it no longer", pod.key)
        self._snapshot.forget(pod.uid)
        self._ended(pod)
