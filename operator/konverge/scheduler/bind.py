"""Binding, beside the scheduling of further pods: the one path by which a chosen node becomes true, or is undone.

    wait for leave (Permit) -> book -> PreBind -> a slot -> Bind -> PostBind

In flow a pod and its node, already assumed in the snapshot; out flows the bind, and then one of three calls: `bound`,
`rejected`, or `failed`, after which the caller rolls back. A write that failed may still have taken effect. So before
anything is undone the server is asked how the pod stands; until it has answered, the room on the node stays taken.
Only Bind takes a slot: what a pod waits for before may take minutes. Booking is for replicas that share the work.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from konverge.cache.informer import Cache
from konverge.errors import KonvergeError, NotFound, PluginFailed, SchedulingError
from konverge.model.meta import uid_of
from konverge.model.resource import Pod
from konverge.ports import Clock, Reader
from konverge.scheduler.diagnosis import Diagnosis, turned_away
from konverge.scheduler.framework import Code, CycleState, Point, Verdict
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.queue import Waiting
from konverge.scheduler.status import StatusWriter
from konverge.scheduler.waiting import WaitingRoom
from konverge.scheduler.watch import PluginWatch, failed, misplaced

_log = logging.getLogger(__name__)

MAX_BINDS: Final = 64
"""So many binds run at once; scheduling waits when all are taken."""

RECHECK: Final = 1.0
"""Seconds between two tries to read how a pod stands, doubling to 16."""

STOP_GRACE: Final = 5.0
"""Seconds that running binds get when the scheduler stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A pod on its way to its node."""

    waiting: Waiting
    node_name: str
    state: CycleState
    profile: Profile
    started: float
    """When its attempt began, monotonic seconds."""
    sampled: bool = False
    """Whether the attempt is measured."""
    epoch: int = 0
    """What was known of other replicas' bookings when the node was chosen; see `Booker`."""


class Outcome(Protocol):
    """Who is told how it went."""

    def bound(self, assignment: Assignment) -> None:
        """The server has the pod on that node."""
        ...

    def rejected(self, assignment: Assignment, diagnosis: Diagnosis) -> None:
        """A plugin turned the pod away from that node."""
        ...

    def failed(self, assignment: Assignment, message: str) -> None:
        """The pod is not on that node, or is gone."""
        ...


class Booker(Protocol):
    """Gives leave to bind where other replicas place pods as well; see `bookings`."""

    epoch: int
    """What is known of the others' bookings: another number whenever there is more."""

    async def book(self, assignment: Assignment) -> str:
        """Wait for leave. Empty when it is given, else why not."""
        ...

    def end(self, uid: str, *, bound: bool) -> None:
        """The pod is bound, or will not be."""
        ...


class Binder:
    """Takes pods from reserve to their node in the background, a bounded number of binds at a time."""

    def __init__(
        self,
        reader: Reader,
        pods: Cache,
        status: StatusWriter,
        clock: Clock,
        outcome: Outcome,
        room: WaitingRoom,
        watch: PluginWatch,
        booker: Booker | None = None,
    ) -> None:
        self._reader, self._pods, self._status, self._clock, self._outcome = reader, pods, status, clock, outcome
        self._room, self._watch, self._booker = room, watch, booker
        self._slots = asyncio.Semaphore(MAX_BINDS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: dict[str, tuple[Assignment, asyncio.Task[None]]] = {}
        self._let_go: dict[str, str] = {}

    async def ready(self) -> None:
        """Wait until another bind may start."""
        async with self._slots:
            pass

    def start(self, assignment: Assignment) -> None:
        """Bind in the background."""
        uid = assignment.waiting.pod.uid
        task = asyncio.create_task(self._run(assignment), name=f"bind {assignment.waiting.pod.key}")
        self._tasks.add(task)
        self._preparing[uid] = (assignment, task)
        task.add_done_callback(partial(self._ended, assignment))

    def prepares(self, uid: str) -> bool:
        """Whether the pod is on its way to a node, and not yet at its Bind."""
        return uid in self._preparing

    def past_permit(self) -> Iterator[PodInfo]:
        """The pods that have all leave they need, and are not yet at their Bind."""
        return (each.waiting.pod for each, _ in self._preparing.values() if not self._room.keeps(each.waiting.pod.uid))

    def let_go(self, uid: str, reason: str) -> bool:
        """End what the pod waits for or prepares, and fail its assignment. False when it is not at that, or not any more."""
        if uid not in self._preparing:
            return False
        self._let_go.setdefault(uid, reason)
        return self._preparing[uid][1].cancel()

    async def stop(self) -> None:
        """Give back the pods that wait for leave, and let the rest end, for a while.

        What is cut off in its bind, the next scheduler reads from the server.
        """
        for waiting in self._room.all():
            self.let_go(waiting.pod.uid, "the scheduler stops")
        tasks = list(self._tasks)
        grace = asyncio.create_task(self._clock.sleep(STOP_GRACE))
        ended = asyncio.create_task(_all(tasks))
        try:
            await asyncio.wait([ended, grace], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (grace, *tasks):
                task.cancel()
            await asyncio.gather(grace, ended, return_exceptions=True)

    def _ended(self, assignment: Assignment, task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its pod was ready to be bound has told nobody yet."""
        self._tasks.discard(task)
        uid = assignment.waiting.pod.uid
        if self._preparing.get(uid) == (assignment, task):
            self._room.drop(uid)
            self._fail(assignment, self._prepared(uid) or "cancelled")

    async def _run(self, assignment: Assignment) -> None:
        pod = assignment.waiting.pod
        try:
            diagnosis = await self._prepare(assignment)
        except Exception as error:  # noqa: BLE001 - whatever a PreBind plugin raises, the assumption must end
            self._prepared(pod.uid)
            self._fail(assignment, str(error))
            return
        reason = self._prepared(pod.uid)
        if reason:  # a PreBind plugin went on although it was cancelled
            self._fail(assignment, reason)
            return
        if diagnosis is not None:
            self._end(pod.uid, bound=False)
            self._outcome.rejected(assignment, diagnosis)
            return
        async with self._slots:
            try:
                await self._status.settle(pod.uid)
                await self._bind(assignment)
            except Exception as error:  # noqa: BLE001 - whatever a Bind plugin raises, the assumption must end
                if not await self._holds_after_all(assignment):
                    self._fail(assignment, f"binding rejected: {error}")
                    return
            self._end(pod.uid, bound=True)
            self._outcome.bound(assignment)
            self._post_bind(assignment)

    def _fail(self, assignment: Assignment, message: str) -> None:
        self._end(assignment.waiting.pod.uid, bound=False)
        self._outcome.failed(assignment, message)

    def _end(self, uid: str, *, bound: bool) -> None:
        if self._booker is not None:
            self._booker.end(uid, bound=bound)

    def _prepared(self, uid: str) -> str:
        """The pod is past what it could be let go from; why it was let go, empty if it was not."""
        self._preparing.pop(uid, None)
        return self._let_go.pop(uid, "")

    async def _prepare(self, assignment: Assignment) -> Diagnosis | None:
        """Wait for leave and run the PreBind plugins; a diagnosis if one rejects the pod.

        Raises: PluginFailed; SchedulingError when another replica was faster.
        """
        pod, profile = assignment.waiting.pod, assignment.profile
        if pod.uid in self._room:
            decision = await self._room.decision(pod.uid)
            if decision.verdict.rejected:
                return turned_away(decision.plugin, decision.verdict.reasons)
        if self._booker is not None and (refusal := await self._booker.book(assignment)):
            raise SchedulingError(refusal)
        if not profile.pre_binds:
            return None
        since = self._clock.monotonic()
        for plugin in profile.pre_binds:
            answer = plugin.pre_bind(assignment.state, pod, assignment.node_name)
            try:
                verdict = await self._watch.waited(plugin, Point.PRE_BIND, answer, sampled=assignment.sampled)
            except Exception as error:
                raise failed(plugin, Point.PRE_BIND, f"{type(error).__name__}: {error}") from error
            if verdict.rejected:
                return turned_away(plugin.name, verdict.reasons)
            if verdict.code not in {Code.SUCCESS, Code.SKIP}:
                raise misplaced(plugin, Point.PRE_BIND, verdict)
        self._passed(assignment, Point.PRE_BIND, since)
        return None

    async def _bind(self, assignment: Assignment) -> None:
        """Ask the Bind plugins in turn. Raises: what they raise; PluginFailed when none binds the pod."""
        pod, since = assignment.waiting.pod, self._clock.monotonic()
        for plugin in assignment.profile.binds:
            answer = plugin.bind(assignment.state, pod, assignment.node_name)
            verdict: Verdict = await self._watch.waited(plugin, Point.BIND, answer, sampled=assignment.sampled)
            if verdict.code is Code.SUCCESS:
                self._passed(assignment, Point.BIND, since)
                return
            if verdict.code is not Code.SKIP:
                raise misplaced(plugin, Point.BIND, verdict)
        raise PluginFailed("Bind", f"no bind plugin of profile {assignment.profile.scheduler_name!r} took the pod")

    def _post_bind(self, assignment: Assignment) -> None:
        since = self._clock.monotonic()
        for plugin in assignment.profile.post_binds:
            try:
                with self._watch.call(plugin, Point.POST_BIND):
                    plugin.post_bind(assignment.state, assignment.waiting.pod, assignment.node_name)
            except PluginFailed:
                _log.exception("pod %s is bound, but a plugin failed on it", assignment.waiting.pod.key)
        if assignment.profile.post_binds:
            self._passed(assignment, Point.POST_BIND, since)

    def _passed(self, assignment: Assignment, point: Point, since: float) -> None:
        if assignment.sampled:
            self._watch.passed(assignment.profile.scheduler_name, point, Code.SUCCESS, since)

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
