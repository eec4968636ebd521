"""One pod at a time: the attempt to place it, and every way in which that can end.

    cycle -> assume -> reserve -> permit -> (binder) -> bound | rejected | failed

In flow the pods that the queue hands out; out flow binds, and for the others the way back: a pod that fits nowhere waits
for an event that may help, anything else for its backoff. Each is told in its events and its condition.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.errors import PluginFailed
from konverge.model.meta import uid_of
from konverge.ports import Api, Clock, Recorder
from konverge.scheduler.bind import Assignment, Binder, Booker
from konverge.scheduler.cycle import Choice, Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.events import ClusterEvent, PodChange
from konverge.scheduler.evictions import Evictions, Hands
from konverge.scheduler.permit import permit
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.queue import SchedulingQueue, Waiting
from konverge.scheduler.reserve import reserve, unreserve
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import AttemptResult, Ledger, SchedulingObserver
from konverge.scheduler.status import FailureReason, StatusWriter
from konverge.scheduler.waiting import WaitingRoom
from konverge.scheduler.watch import PluginWatch

_log = logging.getLogger(__name__)

ASSUMED_FOR: Final = 600.0
"""Seconds that a pod is counted on its node after its bind while the cache does not show it bound."""

_MAX_NOTE: Final = 1024
"""The API's bound on the text of an event, in bytes."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What an attempt works with."""

    api: Api
    pods: Cache
    clock: Clock
    recorder: Recorder
    observer: SchedulingObserver
    snapshot: Snapshot
    queue: SchedulingQueue
    ledger: Ledger
    room: WaitingRoom
    watch: PluginWatch
    readmit: Callable[[PodInfo], None]
    """Puts a pod where it belongs now, when it has left the queue meanwhile."""
    booker: Booker | None = None
    """Asked before each bind, where other replicas place pods too."""
    elsewhere: Callable[[str], bool] = lambda _uid: False
    """Whether another replica is about to bind the pod of that uid."""


class Attempts:
    """See the module."""

    def __init__(self, desk: Desk, cycle: Cycle) -> None:
        self._desk, self._cycle = desk, cycle
        self._status = StatusWriter(desk.api, desk.pods, desk.clock)
        self._binder = Binder(desk.api, desk.pods, self._status, desk.clock, self, desk.room, desk.watch, desk.booker)
        self._evictions = Evictions(
            Hands(desk.api, desk.pods, desk.clock, desk.recorder, self._binder.let_go, self._room_made)
        )
        self._stopping = False

    async def ready(self) -> None:
        """Wait until another pod may be tried."""
        self._stopping = False
        await self._binder.ready()

    async def stop(self) -> None:
        """End what runs in the background; the pods that it cuts off are neither told nor blamed."""
        self._stopping = True
        await self._evictions.stop()
        await self._binder.stop()
        await self._status.stop()

    def let_go(self, uid: str, reason: str) -> None:
        """The pod is not to be bound any more; give its node back at once if it waits for its bind."""
        self._binder.let_go(uid, reason)

    def past_permit(self) -> Iterator[PodInfo]:
        """The pods that may be bound, as far as their own plugins are concerned, and are not yet at it."""
        return self._binder.past_permit()

    def on_pod(self, change: Change) -> None:
        """A pod that waits for its bind and is deleted, or bound by others, keeps its node no longer."""
        self._evictions.on_pod(change)
        old, new = change.old, change.new
        if old is None or not self._binder.prepares(uid_of(old)):
            return
        if new is None or uid_of(new) != uid_of(old) or not PodInfo(new).waiting:
            self._binder.let_go(uid_of(old), "the pod waits for no node any more")

    def attempt(self, profile: Profile, waiting: Waiting) -> None:
        """Try one pod. Whatever goes wrong is this pod's trouble alone."""
        pod, started = waiting.pod, self._desk.clock.monotonic()
        self._desk.watch.begin()
        try:
            result = self._cycle.schedule(profile, pod)
            diagnosis = self._assume(waiting, profile, result, started) if isinstance(result, Choice) else result
        except PluginFailed as error:
            self._went_wrong(waiting, str(error), started)
        except Exception as error:  # noqa: BLE001 - a pod that no code of ours can digest must not stop the others
            _log.exception("scheduling pod %s failed", pod.key)
            self._went_wrong(waiting, f"{type(error).__name__}: {error}", started)
        else:
            if diagnosis is not None:
                self._fits_nowhere(waiting, diagnosis, started)
        finally:
            self._desk.watch.end(profile.scheduler_name)

    def _assume(self, waiting: Waiting, profile: Profile, choice: Choice, started: float) -> Diagnosis | None:
        """Count the pod on its node, reserve, ask for leave, and start the bind; a diagnosis if a plugin rejects."""
        desk, pod, state, node_name = self._desk, waiting.pod, choice.state, choice.node_name
        desk.snapshot.assume(pod, node_name)
        desk.queue.nominations.discard(pod.uid)
        try:
            diagnosis = reserve(profile, desk.watch, state, pod, node_name)
        except PluginFailed:
            desk.snapshot.forget(pod.uid)
            raise
        if diagnosis is not None:
            desk.snapshot.forget(pod.uid)
            return diagnosis
        try:
            leave = permit(profile, desk.watch, state, pod, node_name)
        except PluginFailed:
            unreserve(profile, state, pod, node_name)
            desk.snapshot.forget(pod.uid)
            raise
        if isinstance(leave, Diagnosis):
            unreserve(profile, state, pod, node_name)
            desk.snapshot.forget(pod.uid)
            return leave
        if leave:
            desk.room.hold(pod, node_name, leave)
        epoch = 0 if desk.booker is None else desk.booker.epoch
        self._binder.start(Assignment(waiting, node_name, state, profile, started, desk.watch.sampled, epoch))
        return None

    # How attempts end

    def bound(self, assignment: Assignment) -> None:
        """The server has the pod on its node."""
        desk, pod = self._desk, assignment.waiting.pod
        desk.snapshot.expire_after(pod.uid, desk.clock.monotonic() + ASSUMED_FOR)
        desk.queue.discard(pod.uid)
        desk.ledger.freed(pod)
        message = f"Successfully assigned {pod.key} to {assignment.node_name}"
        desk.recorder.event(pod.raw, "Normal", "Scheduled", message, action="Binding")
        self._observe(pod, "scheduled", assignment.started)
        waiting = assignment.waiting
        desk.observer.scheduled(waiting.failures + 1, desk.clock.monotonic() - waiting.first)

    def rejected(self, assignment: Assignment, diagnosis: Diagnosis) -> None:
        """A plugin turned the pod away from its node: give it back, and wait for what may change that plugin's mind."""
        if self._give_back(assignment):
            self._fits_nowhere(assignment.waiting, diagnosis, assignment.started)

    def failed(self, assignment: Assignment, message: str) -> None:
        """The pod is not on its node: give back what it was promised, and try again if it still waits."""
        if self._give_back(assignment):
            self._went_wrong(assignment.waiting, message, assignment.started)

    def _give_back(self, assignment: Assignment) -> bool:
        """Undo what was promised to the pod. Whether it still waits in the queue, to be told and tried again."""
        desk, pod = self._desk, assignment.waiting.pod
        unreserve(assignment.profile, assignment.state, pod, assignment.node_name)
        if desk.snapshot.is_assumed(pod.uid) and not desk.elsewhere(pod.uid):
            desk.snapshot.forget(pod.uid)
            desk.queue.notify([ClusterEvent.POD_GONE], PodChange(pod, None))
        raw = desk.pods.get(pod.key)
        current = None if raw is None else PodInfo(raw)
        if current is None or current.uid != pod.uid or not current.waiting:
            desk.queue.discard(pod.uid)
        elif pod.uid not in desk.queue:
            # Its profile was removed meanwhile, and perhaps set anew.
            desk.readmit(current)
        elif self._stopping:
            desk.queue.return_failed(assignment.waiting)
        else:
            return True
        return False

    def unmatched(self, pod: PodInfo, message: str) -> None:
        """No policy places the pod: there is nothing to attempt, and no node that could help."""
        self._tell(pod, "SchedulerError", message)

    def _fits_nowhere(self, waiting: Waiting, diagnosis: Diagnosis, started: float) -> None:
        self._desk.ledger.stuck(waiting.pod, diagnosis.counts)
        self._desk.queue.return_unschedulable(waiting, diagnosis.plugins)
        self._nominate(waiting.pod, diagnosis.nominated)
        self._tell(waiting.pod, "Unschedulable", diagnosis.message, diagnosis.nominated)
        self._observe(waiting.pod, "unschedulable", started)
        if diagnosis.way_out or diagnosis.victims:
            self._desk.observer.preemption(len(diagnosis.victims))
        if diagnosis.nominated and self._evictions.start(waiting.pod, diagnosis.nominated, diagnosis.victims):
            self._desk.queue.hold(waiting.pod.uid)
            self._dash_hopes(waiting.pod, diagnosis.nominated)

    def _went_wrong(self, waiting: Waiting, message: str, started: float) -> None:
        self._desk.ledger.freed(waiting.pod)
        self._desk.queue.return_failed(waiting)
        self._nominate(waiting.pod, "")
        self._tell(waiting.pod, "SchedulerError", message, "")
        self._observe(waiting.pod, "error", started)

    # Nominations

    def _nominate(self, pod: PodInfo, node_name: str | None) -> None:
        if node_name is not None and pod.uid in self._desk.queue:
            self._desk.queue.nominations.put(pod, node_name)

    def _dash_hopes(self, pod: PodInfo, node_name: str) -> None:
        """Less important pods may no longer fit the node that `pod` is nominated to: let them look for another."""
        for other in self._desk.queue.nominations.lower_than(pod, node_name):
            self._desk.queue.nominations.discard(other.uid)
            self._status.not_nominated(other)
            self._desk.queue.retry(other.uid, "NominationCleared")

    def _room_made(self, uid: str, ok: bool) -> None:
        """The victims of a preemption are leaving; otherwise the pod must look for others."""
        self._desk.queue.release(uid, retry=not ok)

    # Telling

    def _tell(self, pod: PodInfo, reason: FailureReason, message: str, nominated: str | None = None) -> None:
        self._desk.recorder.event(pod.raw, "Warning", "FailedScheduling", _note(message), action="Scheduling")
        self._status.not_scheduled(pod, reason, message, nominated)

    def _observe(self, pod: PodInfo, result: AttemptResult, started: float) -> None:
        self._desk.observer.attempt(pod.scheduler_name, result, self._desk.clock.monotonic() - started)


def _note(message: str) -> str:
    """The message cut to what an event may hold."""
    if len(message.encode()) <= _MAX_NOTE:
        return message
    return message.encode()[: _MAX_NOTE - 4].decode(errors="ignore") + " ..."
