"""Binding, beside the scheduling of further pods: the one path by which a chosen node becomes true, or is undone.

In flow a pod and its node, already assumed in the snapshot; out flows the bind, and then one of two calls: `bound`, or
`failed` after which the caller rolls back. A write that failed may still have taken effect. So before anything is
undone the server is asked how the pod stands; until it has answered, the room on the node stays taken.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from konverge.cache.informer import Cache
from konverge.errors import KonvergeError, NotFound, PluginFailed
from konverge.model.meta import uid_of
from konverge.model.resource import Pod
from konverge.ports import Clock, Reader
from konverge.scheduler.framework import Code, CycleState
from konverge.scheduler.profile import Profile
from konverge.scheduler.queue import Waiting
from konverge.scheduler.status import StatusWriter

_log = logging.getLogger(__name__)

MAX_BINDS: Final = 64
"""So many binds run at once; scheduling waits when all are taken."""

RECHECK: Final = 1.0
"""Seconds between two tries to read how a pod stands, doubling to 16."""

STOP_GRACE: Final = 5.0
"""Seconds that running binds get when the scheduler stops."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod on its way to its node."""

    waiting: Waiting
    node_name: str
    state: CycleState
    profile: Profile
    started: float
    """When its attempt began, monotonic seconds."""


class Outcome(Protocol):
    """Who is told how it went."""

    def bound(self, assignment: Assignment) -> None:
        """The server has the pod on that node."""
        ...

    def failed(self, assignment: Assignment, error: Exception) -> None:
        """The pod is not on that node, or is gone."""
        ...


class Binder:
    """Runs the Bind plugins in the background, a bounded number at a time."""

    def __init__(self, reader: Reader, pods: Cache, status: StatusWriter, clock: Clock, outcome: Outcome) -> None:
        self._reader, self._pods, self._status, self._clock, self._outcome = reader, pods, status, clock, outcome
        self._slots = asyncio.Semaphore(MAX_BINDS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Wait until another bind may start."""
        async with self._slots:
            pass

    def start(self, assignment: Assignment) -> None:
        """Bind in the background."""
        task = asyncio.create_task(self._run(assignment), name=f"bind {assignment.waiting.pod.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Let the binds that run end, for a while; what is cut off, the next scheduler reads from the server."""
        tasks = list(self._tasks)
        grace = asyncio.create_task(self._clock.sleep(STOP_GRACE))
        ended = asyncio.create_task(_all(tasks))
        try:
            await asyncio.wait([ended, grace], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (grace, *tasks):
                task.cancel()
            await asyncio.gather(grace, ended, return_exceptions=True)

    async def _run(self, assignment: Assignment) -> None:
        async with self._slots:
            pod = assignment.waiting.pod
            try:
                await self._status.settle(pod.uid)
                await _bind(assignment)
            except Exception as error:  # noqa: BLE001 - whatever a Bind plugin raises, the assumption must end
                if await self._holds_after_all(assignment):
                    self._outcome.bound(assignment)
                else:
                    self._outcome.failed(assignment, error)
            else:
                self._outcome.bound(assignment)

    async def _holds_after_all(self, assignment: Assignment) -> bool:
        """Ask the server where the pod is; the cache learns of it too, so that a bind by others counts at once."""
        pod, wait = assignment.waiting.pod, RECHECK
        while True:
            try:
                live = await self._reader.get(Pod, pod.name, pod.namespace)
            except NotFound:
                return False
            except KonvergeError as error:
                _log.warning("cannot read how pod %s stands after a failed bind, asking again: %s", pod.key, error)
                await self._clock.sleep(wait)
                wait = min(16.0, 2 * wait)
            else:
                break
        self._pods.wrote(live)
        return uid_of(live) == pod.uid and live["spec"].get("nodeName") == assignment.node_name


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def _bind(assignment: Assignment) -> None:
    """Ask the Bind plugins in turn. Raises: what they raise; PluginFailed when none binds the pod."""
    pod = assignment.waiting.pod
    for plugin in assignment.profile.binds:
        verdict = await plugin.bind(assignment.state, pod, assignment.node_name)
        if verdict.code is Code.SUCCESS:
            return
        if verdict.code is not Code.SKIP:
            reasons = ", ".join(verdict.reasons) or "no reason given"
            raise PluginFailed(plugin.name, f"running {plugin.name!r} bind plugin: {verdict.code.value}: {reasons}")
    raise PluginFailed("Bind", f"no bind plugin of profile {assignment.profile.scheduler_name!r} took the pod")
