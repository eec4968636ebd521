"""Making room: the victims of a preemption are told why and deleted.

In flow a pod with its nominated node and victims; out flow patches and deletes, in the background, and at the end whether
they went through. While that runs the pod is not to be tried: it would look for victims anew. So the end is not the last
answer of the server but the moment when the cache shows that all victims are leaving.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.errors import Conflict, NotFound
from konverge.model.conditions import find, timestamp
from konverge.model.meta import is_deleting, uid_of
from konverge.model.resource import Object, Pod
from konverge.ports import Clock, PatchType, Recorder, Writer
from konverge.scheduler.changes import Changes
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.preemption import DISRUPTION_TARGET, PREEMPTED

_log = logging.getLogger(__name__)

MAX_DELETES: Final = 16
"""So many victims are deleted at once."""

SEEN_WITHIN: Final = 10.0
"""Seconds that the cache gets to show that the victims are leaving."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What it takes to evict a pod."""

    writer: Writer
    pods: Cache
    clock: Clock
    recorder: Recorder
    let_go: Callable[[str, str], bool]
    """Ends, by uid and with the reason, what a pod waits for or prepares before its bind; False when it does not."""
    done: Callable[[str, bool], None]
    """Told the uid of the pod that the evictions were for, and whether all went well."""


class Evictions:
    """All that run."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_DELETES)
        self._awaited: Counter[str] = Counter()
        self._left = Changes(hands.clock)

    def start(self, pod: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> bool:
        """Evict `victims` from the node for `pod`. False when there is nothing to do: all are leaving already."""
        staying = [victim for victim in victims if not victim.deleting]
        if staying:
            task = asyncio.create_task(self._run(pod, node_name, staying), name=f"preemption for {pod.key}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return bool(staying)

    async def stop(self) -> None:
        """Cut off what runs: the next scheduler finds out what is left to do."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_pod(self, change: Change) -> None:
        """The subscriber of the cache of pods."""
        if self._awaited and change.old is not None and uid_of(change.old) in self._awaited:
            self._left.notify()

    async def _run(self, pod: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        uids = [victim.uid for victim in victims]
        self._awaited.update(uids)
        try:
            results = await asyncio.gather(
                *(self._evict(victim, pod, node_name) for victim in victims), return_exceptions=True
            )
            errors = [result for result in results if isinstance(result, Exception)]
            for error in errors:
                _log.warning("cannot make room for pod %s on node %s: %s", pod.key, node_name, error)
            deleted = [victim for victim, result in zip(victims, results, strict=True) if result is True]
            seen = await self._left.until(lambda: not any(map(self._stays, deleted)), SEEN_WITHIN)
        finally:
            self._awaited.subtract(uids)
            self._awaited += Counter()  # without those that count nothing any more
        self._hands.done(pod.uid, seen and not errors)

    async def _evict(self, victim: PodInfo, pod: PodInfo, node_name: str) -> bool:
        """Whether the pod was deleted; one that had no bind yet only loses its node.

        Raises: any ApiError but that the pod is gone; ConnectionFailed.
        """
        note = f"Preempted by pod {pod.uid} on node {node_name}"
        in_memory = self._hands.let_go(victim.uid, f"preempted by pod {pod.key}")
        if in_memory:
            note += " (in the scheduler's memory)."
        else:
            async with self._slots:
                try:
                    await self._say_why(victim, pod)
                    await self._hands.writer.delete(Pod, victim.name, victim.namespace, uid=victim.uid)
                except (NotFound, Conflict):  # it is gone, and perhaps another has its name
                    return True
        self._hands.recorder.event(victim.raw, "Normal", "Preempted", note, action="Preempting")
        return not in_memory

    async def _say_why(self, victim: PodInfo, pod: PodInfo) -> None:
        before = find((victim.raw.get("status") or {}).get("conditions") or (), DISRUPTION_TARGET) or {}
        kept = before.get("lastTransitionTime") if before.get("status") == "True" else None
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": kept or timestamp(self._hands.clock.now()),
        }
        if generation := victim.raw["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        patch = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        written: Object = await self._hands.writer.patch(
            Pod, victim.name, patch, victim.namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        self._hands.pods.wrote(written)

    def _stays(self, victim: PodInfo) -> bool:
        """Whether the cache still shows it as one that is not leaving."""
        raw = self._hands.pods.get(victim.key)
        return raw is not None and uid_of(raw) == victim.uid and not is_deleting(raw)
