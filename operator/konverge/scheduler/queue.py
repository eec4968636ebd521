"""The pods that wait for a node, in three places.

    active         to be tried next, in the order of the QueueSort plugin
    backoff        tried and failed; goes to active after 1 s, doubling to 10 s
    unschedulable  fits nowhere now; goes on when an event may help a plugin that rejected it, or after 5 minutes

In flow pods, verdicts and cluster events; out flows the pod to try next. Only one attempt runs at a time and it does
not yield, so no event can fall between a pod's attempt and its return here.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Final

from konverge.ports import Clock
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import QueuedPod
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo

FIRST_BACKOFF: Final = 1.0
"""Seconds after the first failure; doubled with each further one."""
MAX_BACKOFF: Final = 10.0
MAX_UNSCHEDULABLE: Final = 300.0
"""Seconds after which an unschedulable pod is tried again though nothing happened."""


FAILED: Final = "ScheduleAttemptFailure"
"""The event, as kube-scheduler's metrics call it, that sends a pod to backoff or to the unschedulable ones."""


class Place(Enum):
    """Where a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    OUT = "out"
    """Handed out to be tried, or bound."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod in the queue, with what earlier attempts taught."""

    pod: PodInfo
    since: float
    """When it was last queued, monotonic seconds."""
    place: Place = Place.OUT
    first: float = 0.0
    """When it was first queued, monotonic seconds."""
    failures: int = 0
    """Attempts that failed."""
    retry_at: float = 0.0
    """Not to be tried before."""
    held: bool = False
    """Not to be tried before `release`, whatever happens: the scheduler is making room for it."""
    missed: bool = False
    """Whether something happened meanwhile that may help."""
    rejected_by: frozenset[str] = frozenset()
    """The plugins that turned it away at the last attempt; empty: nobody knows what could help, so anything may."""
    ticket: int = field(default=0)
    """Which of its heap entries counts; older ones are stale."""


class SchedulingQueue:
    """See the module."""

    def __init__(
        self,
        clock: Clock,
        sort_key: Callable[[QueuedPod], tuple[Any, ...]],
        helps: Callable[[str, ClusterEvent], bool],
        entered: Callable[[str, str], None] = lambda _place, _event: None,
    ) -> None:
        """`helps` says whether an event may change the mind of the plugin of that name.

        `entered` is told whenever a pod comes into one of the three places, and because of what.
        """
        self._clock = clock
        self._sort_key = sort_key
        self._helps, self._entered = helps, entered
        self._pods: dict[str, Waiting] = {}
        self._active: list[tuple[tuple[Any, ...], int, Waiting]] = []
        self._backoff: list[tuple[float, int, Waiting]] = []
        self._unschedulable: dict[str, Waiting] = {}
        self._tickets = count(1)
        self._sizes = dict.fromkeys(Place, 0)
        self._changed = asyncio.Event()
        self.nominations = Nominations()
        """Which of the pods have a node that is being cleared for them."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> Waiting | None:
        """The pod with what earlier attempts taught, if it is in the queue; to be read only."""
        return self._pods.get(uid)

    @property
    def sizes(self) -> Mapping[Place, int]:
        """How many pods wait where."""
        return self._sizes

    def sort_by(self, sort_key: Callable[[QueuedPod], tuple[Any, ...]]) -> None:
        """Order by another plugin from now on."""
        self._sort_key = sort_key
        for waiting in [w for w in self._pods.values() if w.place is Place.ACTIVE]:
            self._activate(waiting)

    # Pods come and go

    def put(self, pod: PodInfo) -> None:
        """Add a pod, or take over its newer version; one that asks for something else now is tried again."""
        waiting = self._pods.get(pod.uid)
        if waiting is None:
            now = self._clock.monotonic()
            waiting = self._pods[pod.uid] = Waiting(pod, now, first=now)
            self._sizes[Place.OUT] += 1
            self.nominations.put(pod, pod.nominated_node)
            self._activate(waiting, "PodAdd")
            return
        same = waiting.pod.asks_the_same(pod)
        if waiting.place is not Place.OUT:  # a pod that has a node is nominated no longer, whatever its status says
            self.nominations.update(waiting.pod, pod)
        waiting.pod = pod
        if same or waiting.place is Place.OUT:
            return
        if waiting.place is Place.UNSCHEDULABLE:
            self._wake(waiting, "PodUpdate")
        elif waiting.place is Place.ACTIVE:
            self._activate(waiting)

    def discard(self, uid: str) -> None:
        """The pod waits no longer: bound, deleted, or not ours any more."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            self._move(waiting, Place.OUT)
            self._sizes[Place.OUT] -= 1
            self.nominations.discard(uid)

    def discard_all(self, wanted: Callable[[PodInfo], bool]) -> None:
        """The pods that `wanted` picks wait no longer."""
        for uid in [uid for uid, waiting in self._pods.items() if wanted(waiting.pod)]:
            self.discard(uid)

    # Attempts

    async def pop(self) -> Waiting:
        """The pod to try next, waiting for one. It stays known here until `discard` or a `return_...`."""
        while (waiting := self._next()) is None:
            self._changed.clear()
            await self._wait()
        return waiting

    def return_unschedulable(self, waiting: Waiting, rejected_by: Iterable[str]) -> None:
        """It fits nowhere: keep it until something happens that may help."""
        if self._failed(waiting):
            waiting.rejected_by = frozenset(rejected_by)
            self._move(waiting, Place.UNSCHEDULABLE)
            self._unschedulable[waiting.pod.uid] = waiting
            self._entered(Place.UNSCHEDULABLE.value, FAILED)
            self._changed.set()

    def return_failed(self, waiting: Waiting) -> None:
        """The attempt went wrong: try again after its backoff."""
        if self._failed(waiting):
            waiting.rejected_by = frozenset()
            self._back_off(waiting, FAILED)

    # What wakes pods

    def notify(self, events: Iterable[ClusterEvent]) -> None:
        """Something happened: move on the unschedulable pods that it may help."""
        happened = tuple(events)
        for waiting in list(self._unschedulable.values()):
            helpful = (
                event
                for event in happened
                if not waiting.rejected_by or any(self._helps(plugin, event) for plugin in waiting.rejected_by)
            )
            if (event := next(helpful, None)) is not None:
                self._wake(waiting, _label(event))

    def retry_now(self, wanted: Callable[[PodInfo], bool]) -> None:
        """Try the pods that `wanted` picks at once, whatever they wait for."""
        for waiting in list(self._pods.values()):
            if waiting.place in {Place.BACKOFF, Place.UNSCHEDULABLE} and wanted(waiting.pod):
                if waiting.held:
                    waiting.missed = True
                    continue
                self._activate(waiting, "ForceActivate")

    def activate(self, uids: Iterable[str], /, *, beside: str = "") -> None:
        """See `konverge.scheduler.handle.Activate`."""
        leader = self._pods.get(beside)
        for waiting in filter(None, map(self._pods.get, uids)):
            if waiting.held:
                waiting.missed = True
                continue
            behind = leader is not None and waiting.since >= leader.since
            if waiting.place is Place.OUT or (waiting.place is Place.ACTIVE and not behind):
                continue
            if leader is not None and behind:
                # A hair before those who came at the same moment.
                waiting.since = math.nextafter(leader.since, -math.inf)
            self._activate(waiting, "ForceActivate")

    def retry(self, uid: str, event: str) -> None:
        """Try an unschedulable pod again after its backoff, because of that event; unknown ones are ignored."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.place is Place.UNSCHEDULABLE:
            self._wake(waiting, event)

    def hold(self, uid: str) -> None:
        """Do not try an unschedulable pod before `release`."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.held, waiting.missed = True, False

    def release(self, uid: str, *, retry: bool) -> None:
        """Let the pod be tried again: when something may help, or did so meanwhile; with `retry` in any case."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.held:
            waiting.held = False
            if retry or waiting.missed:
                self.retry(uid, "PreemptionEnded")

    # Inside

    def _failed(self, waiting: Waiting) -> bool:
        """Count the failure; False when the pod left the queue while it was tried."""
        if self._pods.get(waiting.pod.uid) is not waiting:
            return False
        now = self._clock.monotonic()
        waiting.retry_at = now + min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(waiting.failures, 16))
        waiting.failures += 1
        waiting.since = now
        return True

    def _wake(self, waiting: Waiting, event: str) -> None:
        if waiting.held:
            waiting.missed = True
        elif waiting.retry_at > self._clock.monotonic():
            self._back_off(waiting, event)
        else:
            self._activate(waiting, event)

    def _activate(self, waiting: Waiting, event: str = "") -> None:
        """`event` is empty for a pod that only changes its rank."""
        self._move(waiting, Place.ACTIVE)
        key = self._sort_key(QueuedPod(waiting.pod, waiting.since))
        heapq.heappush(self._active, (key, waiting.ticket, waiting))
        if event:
            self._entered(Place.ACTIVE.value, event)
        self._changed.set()

    def _back_off(self, waiting: Waiting, event: str) -> None:
        self._move(waiting, Place.BACKOFF)
        heapq.heappush(self._backoff, (waiting.retry_at, waiting.ticket, waiting))
        self._entered(Place.BACKOFF.value, event)
        self._changed.set()

    def _move(self, waiting: Waiting, place: Place) -> None:
        self._unschedulable.pop(waiting.pod.uid, None)
        self._sizes[waiting.place] -= 1
        self._sizes[place] += 1
        waiting.place = place
        waiting.ticket = next(self._tickets)

    def _next(self) -> Waiting | None:
        self._flush()
        while self._active:
            _, ticket, waiting = heapq.heappop(self._active)
            if waiting.ticket == ticket:
                self._move(waiting, Place.OUT)
                return waiting
        return None

    def _flush(self) -> None:
        """Move on what has waited long enough."""
        now = self._clock.monotonic()
        while self._backoff and (self._stale(self._backoff[0]) or self._backoff[0][0] <= now):
            entry = heapq.heappop(self._backoff)
            if not self._stale(entry):
                self._activate(entry[2], "BackoffComplete")
        # Insertion order is the order of `since`, so the first that is not due ends the search.
        for waiting in list(self._unschedulable.values()):
            if waiting.since + MAX_UNSCHEDULABLE > now:
                break
            if not waiting.held:
                self._activate(waiting, "UnschedulableTimeout")

    @staticmethod
    def _stale(entry: tuple[float, int, Waiting]) -> bool:
        return entry[2].ticket != entry[1]

    async def _wait(self) -> None:
        """Until something changes, or the first backoff or long wait is over."""
        moments = [entry[0] for entry in self._backoff[:1]]
        moments += [waiting.since + MAX_UNSCHEDULABLE for waiting in list(self._unschedulable.values())[:1]]
        changed = asyncio.ensure_future(self._changed.wait())
        waits: list[asyncio.Future[Any]] = [changed]
        if moments:
            seconds = max(0.0, min(moments) - self._clock.monotonic())
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


def _label(event: ClusterEvent) -> str:
    """The name in the style of kube-scheduler's events: `NodeAdded`."""
    return "".join(word.capitalize() for word in event.name.split("_"))
