"""What a profile's owner reports: how many pods are its, how many wait, and why.

In flow pods as the cache shows them and the diagnoses of failed attempts; out flow counts. Pods are counted for every
`schedulerName`, ours or not, so that a profile that comes later starts with true numbers.
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


class NullObserver:
    """Metrics for nobody."""

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Drop it."""

    def pending(self, active: int, backoff: int, unschedulable: int) -> None:
        """Drop it."""


@dataclass(frozen=True, slots=True)
class ProfileStats:
    """The pods of one profile. Finished pods are left out."""

    matched: int = 0
    """All that carry the profile's `schedulerName`."""
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
    """The books, by `schedulerName`. `changed` is called with the name whose numbers changed."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._books: defaultdict[str, _Book] = defaultdict(_Book)
        self._pods: dict[str, tuple[str, bool]] = {}

    def see(self, pod: PodInfo) -> None:
        """Take note of a new or changed pod."""
        if pod.finished:
            self.gone(pod.uid)
            return
        entry = (pod.scheduler_name, bool(pod.node_name))
        if self._pods.get(pod.uid) != entry:
            self._drop(pod.uid)
            self._pods[pod.uid] = entry
            self._count(entry, 1)
            self._stamp(pod)
            self._changed(pod.scheduler_name)
        elif self._stamp(pod):
            self._changed(pod.scheduler_name)

    def gone(self, uid: str) -> None:
        """The pod was deleted."""
        name = self._drop(uid)
        if name is not None:
            self._changed(name)

    def stuck(self, pod: PodInfo, reasons: Mapping[str, int]) -> None:
        """The pod fitted nowhere."""
        book = self._books[pod.scheduler_name]
        new = tuple(sorted(reasons))
        if self._pods.get(pod.uid) == (pod.scheduler_name, False) and book.stuck.get(pod.uid) != new:
            book.stuck[pod.uid] = new
            self._changed(pod.scheduler_name)

    def freed(self, pod: PodInfo) -> None:
        """A node was found for the pod, or its attempt failed for another reason."""
        if self._books[pod.scheduler_name].stuck.pop(pod.uid, None) is not None:
            self._changed(pod.scheduler_name)

    def stats(self, scheduler_name: str) -> ProfileStats:
        """The numbers of one name."""
        book = self._books[scheduler_name]
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

    def _stamp(self, pod: PodInfo) -> bool:
        """Note when the pod was bound; whether that is news."""
        moment, book = pod.scheduled_at, self._books[pod.scheduler_name]
        if moment is None or (book.last_scheduled is not None and moment <= book.last_scheduled):
            return False
        book.last_scheduled = moment
        return True
