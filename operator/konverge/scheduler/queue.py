"""The pods that wait for a node, in three places.

    active         to be tried next, in the order of the QueueSort plugin
    backoff        tried and failed; goes to active after 1 s, doubling to 10 s
    unschedulable  fits nowhere now; goes on when an event may help a plugin that rejected it, or after 5 minutes

In flow pods, verdicts and cluster events; out flows the pod to try next. Backoff is kube-scheduler's: counted in whole
seconds, so that pods whose backoff ends in the same one go by the QueueSort plugin; and while nothing is active the
first of them is taken early, save for pods that failed for an error. Unlike the attempt, what follows it takes time: a
pod that comes back from there is told what happened meanwhile.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Final, NamedTuple

from konverge.ports import Clock
from konverge.scheduler.events import Cause, ClusterEvent, PodChange
from konverge.scheduler.framework import QueuedPod
from konverge.scheduler.hints import Hints, Judges, label_of
from konverge.scheduler.lately import Lately
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo

FIRST_BACKOFF: Final = 1.0
"""Seconds after the first failure; doubled with each further one."""
MAX_BACKOFF: Final = 10.0
MAX_UNSCHEDULABLE: Final = 300.0
"""Seconds after which an unschedulable pod is tried again though nothing happened."""


FAILED: Final = "ScheduleAttemptFailure"
"""The event, as kube-scheduler's metrics call it, that sends a pod to backoff or to the unschedulable ones."""

TAKEN_EARLY: Final = "PopFromBackoffQ"
"""The one that makes a pod in backoff the next to be tried, because no other is."""


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
    rejections: int = 0
    """Those of them that found no node."""
    errors: int = 0
    """Those at the end of the row that went wrong otherwise."""
    retry_at: float = 0.0
    """Its backoff lasts until then: a whole second."""
    held: bool = False
    """Not to be tried before `release`, whatever happens: the scheduler is making room for it."""
    missed: bool = False
    """Whether something happened meanwhile that may help."""
    judges: Judges = field(default_factory=Judges)
    """The plugins that turned it away at the last attempt."""
    out_since: int = 0
    """The number of the last event before it was handed out."""
    ticket: int = field(default=0)
    """Which of its heap entries counts; older ones are stale."""

    @property
    def may_go_early(self) -> bool:
        """Whether its backoff ends when nothing else is to be tried. Not after an error, which time alone may mend."""
        return bool(self.judges.each) and not self.judges.patient


class SchedulingQueue:
    """See the module."""

    def __init__(
        self,
        clock: Clock,
        sort_key: Callable[[QueuedPod], tuple[Any, ...]],
        hints: Hints,
        entered: Callable[[str, str], None] = lambda _place, _event: None,
    ) -> None:
        """`entered` is told whenever a pod comes into one of the three places, and because of what."""
        self._clock = clock
        self._sort_key = sort_key
        self._hints, self._entered = hints, entered
        self._pods: dict[str, Waiting] = {}
        self._active: list[_Entry] = []
        self._backoff: list[_Entry] = []
        self._errors: list[_Entry] = []
        """In backoff too, but not to be taken early."""
        self._unschedulable: dict[str, Waiting] = {}
        self._alike: dict[Judges, dict[str, Waiting]] = {}
        """The same by those who turned them away."""
        self._lately = Lately()
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

    def ahead(self, uid: str) -> int | None:
        """How many pods would be tried before this one as things stand; None where that depends on more than its rank."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.place in {Place.OUT, Place.UNSCHEDULABLE}:
            return None
        if waiting.place is Place.ACTIVE:
            return _before(waiting, self._active)
        return self._sizes[Place.ACTIVE] + _before(waiting, self._backoff) if waiting.may_go_early else None

    def sort_by(self, sort_key: Callable[[QueuedPod], tuple[Any, ...]]) -> None:
        """Order by another plugin from now on."""
        self._sort_key = sort_key
        # No comparison of new keys with old ones: they may be of other types.
        self._active, self._backoff, self._errors = [], [], []
        for waiting in self._pods.values():
            if waiting.place in {Place.ACTIVE, Place.BACKOFF}:
                self._rank(waiting)

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
        if same:
            return
        if waiting.place is Place.OUT:
            waiting.missed = True
        elif waiting.place is Place.UNSCHEDULABLE:
            self._wake(waiting, "PodUpdate")
        else:
            self._rank(waiting)

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
        """It fits nowhere: keep it until something happens that may help; if something did meanwhile, back off."""
        if self._pods.get(waiting.pod.uid) is not waiting:
            return
        uid, judges = waiting.pod.uid, self._hints.judges(waiting.pod, rejected_by)
        waiting.judges = judges
        waiting.rejections, waiting.errors = waiting.rejections + 1, 0
        self._failed(waiting, waiting.rejections)
        if waiting.missed or self._hints.interested(judges, self._lately.since(waiting.out_since, uid)):
            self._back_off(waiting, FAILED)
            return
        self._move(waiting, Place.UNSCHEDULABLE)
        self._unschedulable[uid] = waiting
        self._alike.setdefault(judges, {})[uid] = waiting
        self._entered(Place.UNSCHEDULABLE.value, FAILED)
        self._changed.set()

    def return_failed(self, waiting: Waiting) -> None:
        """The attempt went wrong: try again after its backoff."""
        if self._pods.get(waiting.pod.uid) is waiting:
            waiting.judges = Judges()
            waiting.errors += 1
            self._failed(waiting, waiting.errors)
            self._back_off(waiting, FAILED)

    # What wakes pods

    def notify(self, events: Iterable[ClusterEvent], cause: Cause | None = None) -> None:
        """Something happened: move on the unschedulable pods that it may help. Without cause: all whose plugins listen."""
        happened = tuple(events)
        if not happened:
            return
        self._lately.note(happened, cause.uid if isinstance(cause, PodChange) else "")
        for judges, alike in list(self._alike.items()):
            pod = next(iter(alike.values())).pod
            event = self._hints.helped(judges, pod, happened, cause)
            if event is not None:
                for waiting in list(alike.values()):
                    self._wake(waiting, label_of(event))

    def retry_now(self, wanted: Callable[[PodInfo], bool]) -> None:
        """Try the pods that `wanted` picks at once, whatever they wait for."""
        for waiting in list(self._pods.values()):
            if waiting.place is not Place.ACTIVE and wanted(waiting.pod):
                if waiting.held or waiting.place is Place.OUT:
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

    def _failed(self, waiting: Waiting, row: int) -> None:
        """Count the failure, the `row`th of its kind, and begin the backoff."""
        now = self._clock.monotonic()
        seconds = min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(row - 1, 16))
        # The whole second in which it ends has to pass: all that end in it come back together.
        waiting.retry_at = math.floor(now + seconds) + 1.0
        waiting.failures += 1
        waiting.since = now

    def _wake(self, waiting: Waiting, event: str) -> None:
        if waiting.held:
            waiting.missed = True
        elif waiting.retry_at > self._clock.monotonic():
            self._back_off(waiting, event)
        else:
            self._activate(waiting, event)

    def _activate(self, waiting: Waiting, event: str) -> None:
        self._move(waiting, Place.ACTIVE)
        self._rank(waiting)
        self._entered(Place.ACTIVE.value, event)
        self._changed.set()

    def _back_off(self, waiting: Waiting, event: str) -> None:
        self._move(waiting, Place.BACKOFF)
        self._rank(waiting)
        self._entered(Place.BACKOFF.value, event)
        self._changed.set()

    def _move(self, waiting: Waiting, place: Place) -> None:
        if self._unschedulable.pop(waiting.pod.uid, None) is not None:
            alike = self._alike[waiting.judges]
            del alike[waiting.pod.uid]
            if not alike:
                del self._alike[waiting.judges]
        self._sizes[waiting.place] -= 1
        self._sizes[place] += 1
        waiting.place = place
        waiting.ticket = next(self._tickets)

    def _rank(self, waiting: Waiting) -> None:
        """Put an active pod, or one in backoff, where it belongs by its key; an entry that it has already is stale."""
        waiting.ticket = next(self._tickets)
        key = self._sort_key(QueuedPod(waiting.pod, waiting.since))
        if waiting.place is Place.ACTIVE:
            heapq.heappush(self._active, _Entry(0.0, key, waiting.ticket, waiting))
        else:
            heap = self._backoff if waiting.may_go_early else self._errors
            heapq.heappush(heap, _Entry(waiting.retry_at, key, waiting.ticket, waiting))

    def _next(self) -> Waiting | None:
        self._flush()
        found = _take(self._active)
        if found is None:
            found = _take(self._backoff)
            if found is None:
                return None
            self._entered(Place.ACTIVE.value, TAKEN_EARLY)
        self._move(found, Place.OUT)
        found.missed, found.out_since = False, self._lately.number
        return found

    def _flush(self) -> None:
        """Move on what has waited long enough."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._errors):
            while (first := _first(heap)) is not None and first.retry_at <= now:
                self._activate(heapq.heappop(heap).waiting, "BackoffComplete")
        # Insertion order is the order of `since`, so the first that is not due ends the search.
        for waiting in list(self._unschedulable.values()):
            if waiting.since + MAX_UNSCHEDULABLE > now:
                break
            if not waiting.held:
                self._activate(waiting, "UnschedulableTimeout")

    async def _wait(self) -> None:
        """Until something changes, or the first backoff or long wait is over. Nobody is there to be taken early."""
        moments = [entry.retry_at for entry in self._errors[:1]]
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


class _Entry(NamedTuple):
    """A pod's place in a heap; stale when the pod has another ticket by now."""

    retry_at: float
    key: tuple[Any, ...]
    ticket: int
    waiting: Waiting

    @property
    def stale(self) -> bool:
        return self.waiting.ticket != self.ticket


def _first(heap: list[_Entry]) -> Waiting | None:
    """The first pod of a heap, which is rid of the stale entries before it."""
    while heap and heap[0].stale:
        heapq.heappop(heap)
    return heap[0].waiting if heap else None


def _take(heap: list[_Entry]) -> Waiting | None:
    first = _first(heap)
    if first is not None:
        heapq.heappop(heap)
    return first


def _before(waiting: Waiting, heap: list[_Entry]) -> int:
    """How many pods of the heap come before this one, which is in it."""
    (own,) = [entry for entry in heap if entry.waiting is waiting and not entry.stale]
    return sum(entry < own for entry in heap if not entry.stale)
