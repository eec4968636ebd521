"""Coscheduling: the pods of a gang are bound together or not at all.

A gang is the pods of a namespace that carry the same gang label. While fewer than minCount of them exist, none is tried.
Each that finds a node keeps it and waits; when minCount have one, all go on. Who comes later goes on at once.

- A gang comes together: its first pod that gets a node pulls the others next to itself in the queue, from wherever they
  wait. So two gangs that compete are tried one after the other. That is no sorting of its own: all profiles share one
  queue, so a second order could not stand beside a profile without gangs; and a pod that is passed over is passed over
  by the rest of one gang only.
- A gang that cannot fit does not keep its nodes until the timeout: when so many of its pods found no node that the rest
  is fewer than minCount, those that wait give theirs back. The pods of it that are still to be tried are turned away
  unseen, once each. The next round begins when the pod that found no node finds one: it alone knows which event may help,
  and comes back after its own backoff.
- Nobody is evicted for a pod of a gang unless enough of the gang would find nodes, as far as can be told beforehand. Then
  they are tried next, so that nobody takes what they would find; and one whose victims are still leaving has not failed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from pydantic import Field

from konverge.model.meta import uid_of
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    Code,
    Company,
    CycleState,
    Permit,
    PermitResult,
    PluginArgs,
    PostFilter,
    PostFilterResult,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    Reserve,
    Trials,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.gangs import MAX_MIN_COUNT, Census, Gang, census, gang_of, members, min_count_of
from konverge.scheduler.handle import Handle, WaitingPod, WaitingPods
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.preemption import under_way
from konverge.scheduler.snapshot import Snapshot

_KEPT: Final = 4096
"""Of so many gangs something is remembered; what is forgotten costs one of them a wait of some minutes."""


class CoschedulingArgs(PluginArgs):
    """The arguments of Coscheduling."""

    min_count: int = Field(default=1, ge=1, le=MAX_MIN_COUNT)
    """How many pods of a gang must have a node before any is bound, where their annotation does not say it."""
    timeout_seconds: int = Field(default=600, ge=1, le=3600)
    """How long a pod keeps its node for the others, in seconds; then the whole gang gives back what it has."""


@dataclass(slots=True)
class _Round:
    """What is known of a gang between the attempts of its pods; all by uid."""

    short: bool = False
    """Whether a pod of it was turned away because others do not exist yet."""
    failed: set[str] = field(default_factory=set)
    """Those that found no node, since the gang last gave up or was complete."""
    denied: set[str] = field(default_factory=set)
    """Those that are to be turned away unseen, because the gang gave up before they were tried."""
    released: set[str] = field(default_factory=set)
    """Those that were told to give their node back and have not done so yet."""
    allowed: set[str] = field(default_factory=set)
    """Those that were let go on to be bound."""


class _Rounds:
    """The gangs of a scheduler, whichever instance of the plugin is asked: profiles change, and may have canaries."""

    _of: ClassVar[WeakKeyDictionary[WaitingPods, "_Rounds"]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._rounds: LatestUsed[Gang, _Round] = LatestUsed(_KEPT)

    @classmethod
    def of(cls, handle: Handle) -> "_Rounds":
        """Those of the scheduler that gave the handle."""
        return cls._of.setdefault(handle.waiting, cls())

    def get(self, gang: Gang) -> _Round:
        """What is known of a gang, perhaps nothing."""
        return self._rounds.get(gang, _Round)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The gang of the pod that is tried, and how it stands without that pod."""

    gang: Gang
    census: Census
    holding: frozenset[str]
    """The uids of the other members that have a node, and may keep it."""

    @property
    def missing(self) -> int:
        """How many nodes the gang still needs when this pod has one."""
        return self.census.min_count - len(self.holding) - 1


class Coscheduling(PreEnqueue, PreFilter, PostFilter, Reserve, Permit):
    """See the module."""

    name: ClassVar[str] = "Coscheduling"
    Args = CoschedulingArgs
    # Not POD_GONE: a gang that gives its nodes back would wake itself by that. The pod that found no node wakes the others.
    events = frozenset(
        {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.NODE_LABEL, ClusterEvent.NODE_TAINT}
    )

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args, self._handle = args, handle
        self._rounds = _Rounds.of(handle)

    def pre_enqueue(self, pod: PodInfo, /) -> Verdict:
        """Keep nobody out; but a pod that makes its gang complete brings those back that were turned away before."""
        gang = gang_of(pod)
        if gang is not None and (known := self._rounds.get(gang)).short:
            found = self._count(gang, pod)
            if found.size >= found.min_count:
                known.short = False
                self._handle.activate(found.unbound - {pod.uid})
        return SUCCESS

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Turn the pod away while its gang lacks members, or has just given up."""
        gang = gang_of(pod)
        if gang is None:
            return PreFilterResult(SKIP)
        try:
            min_count_of(pod.raw)
        except ValueError as error:
            return PreFilterResult(unresolvable(str(error)))
        known = self._rounds.get(gang)
        attempt = self._attempt(gang, known, pod, snapshot)
        size, wanted = attempt.census.size, attempt.census.min_count
        known.short = size < wanted
        if known.short:
            return PreFilterResult(
                unresolvable(f"gang {gang} has {size} of at least {wanted} pods, {wanted - size} missing")
            )
        if pod.uid in known.denied and attempt.missing > 0:
            return PreFilterResult(unresolvable(f"gang {gang} does not fit: another of its pods found no node"))
        state.write(attempt)
        return PreFilterResult()

    def post_filter(self, state: CycleState, pod: PodInfo, trials: Trials, diagnosis: Diagnosis, /) -> PostFilterResult:
        """The pod found no node: when the rest of its gang is too few, let those that wait give theirs back.

        One whose victims are leaving will find one.
        """
        gang = gang_of(pod)
        if gang is None:
            return PostFilterResult(unschedulable())
        known = self._rounds.get(gang)
        known.denied.discard(pod.uid)
        if self.name in diagnosis.plugins:
            return PostFilterResult(unschedulable())
        if under_way(pod, trials.snapshot, diagnosis.resolvable):
            return PostFilterResult(unschedulable())
        attempt = state.read(_Attempt) or self._attempt(gang, known, pod, trials.snapshot)
        found = attempt.census
        known.failed = (known.failed & found.unbound) | {pod.uid}
        if attempt.missing >= 0 and found.size - len(known.failed) < found.min_count:
            known.denied = set(found.unbound - attempt.holding - known.failed)
            known.failed.clear()
            self._release(gang, f"node(s) given back: gang {gang} does not fit, pod {pod.name} found no node")
        return PostFilterResult(unschedulable())

    def company(self, state: CycleState, pod: PodInfo, _snapshot: Snapshot, /) -> Company | None:
        """The pods of the gang that have no node, while it needs more of them than this one."""
        attempt = state.read(_Attempt)
        if attempt is None or attempt.missing <= 0:
            return None
        others = attempt.census.unbound - attempt.holding - {pod.uid}
        pods = (PodInfo(raw) for raw in members(attempt.gang, self._handle.lister) if uid_of(raw) in others)
        return Company(f"gang {attempt.gang}", attempt.missing, tuple(sorted(pods, key=lambda other: other.key)))

    def room_is_made(self, pod: PodInfo, company: Company, /) -> None:
        """Have the others tried next, before somebody takes what they would find."""
        gang = gang_of(pod)
        if gang is not None:
            self._rounds.get(gang).denied.clear()
        self._handle.activate([other.uid for other in company.pods], beside=pod.uid)

    def reserve(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> Verdict:
        """Nothing to book."""
        return SUCCESS

    def unreserve(self, _state: CycleState, pod: PodInfo, _node_name: str, /) -> None:
        """The pod gave its node back, after its timeout or a failure: so does the rest of its gang that still waits."""
        gang = gang_of(pod)
        if gang is None:
            return
        known = self._rounds.get(gang)
        known.allowed.discard(pod.uid)
        if pod.uid in known.released:
            known.released.discard(pod.uid)
        else:
            self._release(gang, f"node(s) given back: gang {gang} lost that of pod {pod.name}")

    def permit(self, state: CycleState, pod: PodInfo, _node_name: str, /) -> PermitResult:
        """Let the whole gang go on when enough of it have a node; else wait, and have the others tried next."""
        attempt = state.read(_Attempt)
        if attempt is None:
            return PermitResult()
        known = self._rounds.get(attempt.gang)
        known.failed.discard(pod.uid)
        if attempt.missing > 0:
            if not attempt.holding & attempt.census.unbound:
                known.denied.clear()
                self._handle.activate(attempt.census.unbound - {pod.uid}, beside=pod.uid)
            return PermitResult(Verdict(Code.WAIT), float(self._args.timeout_seconds))
        known.failed.clear()
        known.denied.clear()
        known.allowed.add(pod.uid)
        for waiting in self._waiting(attempt.gang):
            known.allowed.add(waiting.pod.uid)
            self._handle.waiting.allow(waiting.pod.uid, self.name)
        return PermitResult()

    def patient(self, pod: PodInfo, /) -> bool:
        """A gang that gave up left room for the pod that found none: tried at once, it would begin the same round anew."""
        return gang_of(pod) is not None

    def _count(self, gang: Gang, pod: PodInfo) -> Census:
        return census(gang, pod.scheduler_name, self._handle.lister, self._args.min_count)

    def _attempt(self, gang: Gang, known: _Round, pod: PodInfo, snapshot: Snapshot) -> _Attempt:
        """Who else has a node: bound, on the way to it, or waiting for the others; not those that were told to leave."""
        found = self._count(gang, pod)
        known.allowed &= found.unbound
        waiting = {each.pod.uid for each in self._waiting(gang)}
        kept = {uid for uid in known.allowed | waiting if snapshot.is_assumed(uid)}
        return _Attempt(gang, found, (found.bound | (kept & found.unbound)) - {pod.uid})

    def _release(self, gang: Gang, reason: str) -> None:
        """All of the gang that wait give their node back."""
        known = self._rounds.get(gang)
        for waiting in list(self._waiting(gang)):
            known.released.add(waiting.pod.uid)
            self._handle.waiting.reject(waiting.pod.uid, self.name, reason)

    def _waiting(self, gang: Gang) -> Iterator[WaitingPod]:
        for each in self._handle.waiting.all():
            if self.name in each.plugins and gang_of(each.pod) == gang:
                yield each
