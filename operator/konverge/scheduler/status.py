"""What pods that found no node are told in their status: the condition `PodScheduled`, and the node they are nominated to.

Written when it changes, in the background, one write at a time a pod.

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
    said: tuple[FailureReason, str] | None
    """Reason and message of the condition; None leaves it as it is."""
    nominated: str | None
    """The node, empty for none; None leaves the nomination as it is."""

    @property
    def holds(self) -> bool:
        """Whether the pod says all that already."""
        condition = self.pod.scheduled_condition or {}
        shown = (condition.get("status"), condition.get("reason"), condition.get("message"))
        return (self.said is None or shown == ("False", *self.said)) and (
            self.nominated in {None, self.pod.nominated_node}
        )

    def after(self, earlier: "_Wanted | None") -> "_Wanted":
        """Both, where they do not contradict."""
        if earlier is None:
            return self
        nominated = earlier.nominated if self.nominated is None else self.nominated
        return _Wanted(self.pod, self.said or earlier.said, nominated)


class StatusWriter:
    """Writes why pods are not scheduled."""

    def __init__(self, writer: Writer, pods: Cache, clock: Clock) -> None:
        self._writer, self._pods, self._clock = writer, pods, clock
        self._wanted: dict[str, _Wanted] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_WRITES)

    def not_scheduled(self, pod: PodInfo, reason: FailureReason, message: str, nominated: str | None = None) -> None:
        """Say on the pod why it has no node, unless it says so already.

        `nominated` is the node that is being cleared for it, empty for none; None leaves that as it is.
        """
        self._want(_Wanted(pod, (reason, message), nominated))

    def not_nominated(self, pod: PodInfo) -> None:
        """No node is being cleared for the pod any more."""
        self._want(_Wanted(pod, None, ""))

    def _want(self, wanted: _Wanted) -> None:
        pod = wanted.pod
        if pod.uid not in self._tasks and wanted.holds:
            return
        self._wanted[pod.uid] = wanted.after(self._wanted.get(pod.uid))
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
        pod, status = wanted.pod, dict[str, Any]()
        if wanted.said is not None:
            status["conditions"] = [self._condition(pod, *wanted.said)]
        if wanted.nominated is not None:
            status["nominatedNodeName"] = wanted.nominated or None
        # The uid in the patch makes the server refuse it for a pod that was made anew under the name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
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

    def _condition(self, pod: PodInfo, reason: FailureReason, message: str) -> Mapping[str, Any]:
        current = pod.scheduled_condition or {}
        kept = current.get("lastTransitionTime") if current.get("status") == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": kept or timestamp(self._clock.now()),
        }
        if generation := pod.raw["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        return condition
