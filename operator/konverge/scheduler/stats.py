"""What a profile's owner reports: how many pods are its, how many wait, and why.

In flow pods as the cache shows them and the diagnoses of failed attempts; out flow counts. A pod is in the books of the
policy that matches it, and in none where no policy does.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol

from konverge.scheduler.podinfo import PodInfo

MAX_REASONS: Final = 10

AttemptResult = Literal["scheduled", "unschedulable", "error"]


class SchedulingObserver(Protocol):
    """Metrics, as the application wires them."""

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """An attempt for a pod of that `schedulerName` ended, `seconds` after it began; `scheduled` means bound."""
        ...

    def pending(self, active: int, backoff: int, unschedulable: int) -> None:
        """How many pods wait, by place in the queue."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A call of a plugin ended; names and status as in kube-scheduler's metrics. Of ten attempts one is told."""
        ...

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """All the plugins of an extension point are through. Of ten attempts one is told."""
        ...

    def scheduled(self, attempts: int, seconds: float) -> None:
        """A pod was bound at that attempt, `seconds` after it was first queued."""
        ...

    def queued(self, queue: str, event: str) -> None:
        """A pod came into a place of the queue because of that event, both as in kube-scheduler's metrics."""
        ...

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """A plugin said whether an event may help pods that it turned away: `Queue`, `QueueSkip`, or `Error`."""
        ...

    def preemption(self, victims: int) -> None:
        """It was tried to make room for a pod by evicting so many others; 0: that would not help."""
        ...


class NullObserver:
    """Metrics for nobody."""

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Drop it."""

    def pending(self, active: int, backoff: int, unschedulable: int) -> None:
        """Drop it."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Drop it."""

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """Drop it."""

    def scheduled(self, attempts: int, seconds: float) -> None:
        """Drop it."""

    def queued(self, queue: str, event: str) -> None:
        """Drop it."""

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """Drop it."""

    def preemption(self, victims: int) -> None:
        """Drop it."""


@dataclass(frozen=True, slots=True)
class ProfileStats:
    """The pods of one profile. Finished pods are left out."""

    matched: int = 0
    """All that are the policy's."""
    pending: int = 0
    """Those without a node."""
    scheduled: int = 0
    """Those with one."""
    unschedulable: int = 0
    """Those of `pending` that fitted nowhere at their last attempt."""
    top_reasons: list[tuple[str, int]] = field(default_factory=list)
    """Why, with the number of pods that each reason holds up: the most frequent first, at most 10."""
    last_scheduled: datetime | None = None
    """When the API server last recorded the bind of one of them."""


@dataclass(slots=True)
class _Book:
    pending: int = 0
    scheduled: int = 0
    last_scheduled: datetime | None = None
    stuck: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons by the uid of the pods that fit nowhere."""


class Ledger:
    """The books, by owner. `changed` is called with the owner whose numbers changed; `owner_of` says whose a pod is."""

    def __init__(self, changed: Callable[[str], None], owner_of: Callable[[PodInfo], str | None]) -> None:
        self._changed, self._owner_of = changed, owner_of
        self._books: defaultdict[str, _Book] = defaultdict(_Book)
        self._pods: dict[str, tuple[str, bool]] = {}

    def see(self, pod: PodInfo) -> None:
        """Take note of a new or changed pod, or of one that is another owner's now."""
        owner = None if pod.finished else self._owner_of(pod)
        if owner is None:
            self.gone(pod.uid)
            return
        entry = (owner, bool(pod.node_name))
        before = self._pods.get(pod.uid)
        if before != entry:
            self._drop(pod.uid)
            self._pods[pod.uid] = entry
            self._count(entry, 1)
            self._stamp(owner, pod)
            if before is not None and before[0] != owner:
                self._changed(before[0])
            self._changed(owner)
        elif self._stamp(owner, pod):
            self._changed(owner)

    def gone(self, uid: str) -> None:
        """The pod was deleted."""
        name = self._drop(uid)
        if name is not None:
            self._changed(name)

    def stuck(self, pod: PodInfo, reasons: Mapping[str, int]) -> None:
        """The pod fitted nowhere."""
        owner, bound = self._pods.get(pod.uid, ("", True))
        new = tuple(sorted(reasons))
        if not bound and self._books[owner].stuck.get(pod.uid) != new:
            self._books[owner].stuck[pod.uid] = new
            self._changed(owner)

    def freed(self, pod: PodInfo) -> None:
        """A node was found for the pod, or its attempt failed for another reason."""
        entry = self._pods.get(pod.uid)
        if entry is not None and self._books[entry[0]].stuck.pop(pod.uid, None) is not None:
            self._changed(entry[0])

    def open(self, owner: str) -> None:
        """Say that there are numbers for `owner`, be they zero."""
        self._changed(owner)

    def close(self, owner: str) -> None:
        """Forget the numbers of an owner that has no pods any more."""
        self._books.pop(owner, None)

    def stats(self, owner: str) -> ProfileStats:
        """The numbers of one owner."""
        book = self._books.get(owner, _Book())
        counts = Counter(reason for reasons in book.stuck.values() for reason in reasons)
        return ProfileStats(
            matched=book.pending + book.scheduled,
            pending=book.pending,
            scheduled=book.scheduled,
            unschedulable=len(book.stuck),
            top_reasons=sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_REASONS],
            last_scheduled=book.last_scheduled,
        )

    def _drop(self, uid: str) -> str | None:
        entry = self._pods.pop(uid, None)
        if entry is None:
            return None
        self._count(entry, -1)
        self._books[entry[0]].stuck.pop(uid, None)
        return entry[0]

    def _count(self, entry: tuple[str, bool], sign: int) -> None:
        name, bound = entry
        if bound:
            self._books[name].scheduled += sign
        else:
            self._books[name].pending += sign

    def _stamp(self, owner: str, pod: PodInfo) -> bool:
        """Note when the pod was bound; whether that is news."""
        moment, book = pod.scheduled_at, self._books[owner]
        if moment is None or (book.last_scheduled is not None and moment <= book.last_scheduled):
            return False
        book.last_scheduled = moment
        return True
