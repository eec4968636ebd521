"""The condition `PodScheduled` of pods that found no node: written when it changes, in the background, one at a time a pod.

In flow verdicts; out flow patches of `pods/status`. A write that fails is logged and left: the next attempt says it again.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from konverge.cache.informer import Cache
from konverge.errors import KonvergeError, NotFound
from konverge.model.conditions import timestamp
from konverge.model.resource import Pod
from konverge.ports import Clock, PatchType, Writer
from konverge.scheduler.podinfo import PodInfo

_log = logging.getLogger(__name__)

MAX_WRITES: Final = 16
"""So many status writes run at once."""

FailureReason = Literal["Unschedulable", "SchedulerError"]


@dataclass(frozen=True, slots=True)
class _Wanted:
    pod: PodInfo
    reason: FailureReason
    message: str

    def stands_in(self, condition: Mapping[str, Any] | None) -> bool:
        return condition is not None and (
            condition.get("status"),
            condition.get("reason"),
            condition.get("message"),
        ) == ("False", self.reason, self.message)


class StatusWriter:
    """Writes why pods are not scheduled."""

    def __init__(self, writer: Writer, pods: Cache, clock: Clock) -> None:
        self._writer, self._pods, self._clock = writer, pods, clock
        self._wanted: dict[str, _Wanted] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_WRITES)

    def not_scheduled(self, pod: PodInfo, reason: FailureReason, message: str) -> None:
        """Say on the pod why it has no node, unless it says so already."""
        wanted = _Wanted(pod, reason, message)
        if pod.uid not in self._tasks and wanted.stands_in(pod.scheduled_condition):
            return
        self._wanted[pod.uid] = wanted
        if pod.uid not in self._tasks:
            self._tasks[pod.uid] = asyncio.create_task(self._write(pod.uid), name=f"status of {pod.key}")

    async def settle(self, uid: str) -> None:
        """Drop what is not yet written about the pod, and wait for the write that runs: a bind comes after it."""
        self._wanted.pop(uid, None)
        if task := self._tasks.get(uid):
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Drop all that is not yet written."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, uid: str) -> None:
        try:
            async with self._slots:
                while (wanted := self._wanted.pop(uid, None)) is not None:
                    await self._patch(wanted)
        finally:
            self._wanted.pop(uid, None)
            del self._tasks[uid]

    async def _patch(self, wanted: _Wanted) -> None:
        pod = wanted.pod
        current = pod.scheduled_condition or {}
        kept = current.get("lastTransitionTime") if current.get("status") == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": kept or timestamp(self._clock.now()),
        }
        if generation := pod.raw["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        # The uid in the patch makes the server refuse it for a pod that was made anew under the name.
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            written = await self._writer.patch(
                Pod, pod.name, patch, pod.namespace, patch_type=PatchType.STRATEGIC, subresource="status"
            )
        except NotFound:
            return
        except KonvergeError as error:
            _log.warning("cannot write why pod %s is not scheduled: %s", pod.key, error)
            return
        self._pods.wrote(written)
