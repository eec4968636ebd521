"""The scheduler: pods of the profiles' `schedulerName`s flow in from the cache, binds, conditions and events flow out.

    intake -> queue -> attempts -> binder, beside the next pod

Here is what holds for all pods: the profiles, the wiring, and the loop. What becomes of one pod is in `attempts`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.model.resource import Node, Pod, ResourceType
from konverge.ports import Api, Clock, Random, Recorder
from konverge.scheduler.attempts import Attempts, Desk
from konverge.scheduler.changes import Changes
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.drain import Drain
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.expiry import Expiry
from konverge.scheduler.explain import explain
from konverge.scheduler.framework import PluginArgs
from konverge.scheduler.handle import Handle
from konverge.scheduler.hints import Hints
from konverge.scheduler.intake import Intake
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies, Policy, Rule
from konverge.scheduler.profile import ProfileConfig
from konverge.scheduler.queue import Place, SchedulingQueue
from konverge.scheduler.registry import Registry
from konverge.scheduler.roster import Roster
from konverge.scheduler.sharing import Insides, Shared, Sharing
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import Ledger, NullObserver, ProfileStats, SchedulingObserver
from konverge.scheduler.unmatched import Unmatched
from konverge.scheduler.variants import Variants
from konverge.scheduler.waiting import WaitingRoom
from konverge.scheduler.watch import PluginWatch
from konverge.scheduler.whereabouts import Sight


class Scheduler:
    """Schedules the pods of its profiles. `run` is to be started when both caches have synced."""

    def __init__(
        self,
        api: Api,
        pods: Cache,
        nodes: Cache,
        *,
        clock: Clock,
        random: Random,
        recorder: Recorder,
        registry: Registry | None = None,
        observer: SchedulingObserver | None = None,
        namespaces: Cache | None = None,
        caches: Mapping[ResourceType, Cache] | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Subscribe to the caches; they may hold pods of any namespace and must hold all pods that are on a node.

        Without `namespaces` the namespaceSelector of an affinity term knows a namespace by its name only. `caches`
        are what plugins read besides: those of `Plugin.reads`. With `shared` other replicas place pods too: this one takes
        its share of them.
        """
        self._pods, self._clock = pods, clock
        self._registry = registry if registry is not None else Registry.default()
        self._observer = observer or NullObserver()
        self._room = room = WaitingRoom(clock)
        changes = Changes(clock)
        listed = {Pod: pods, Node: nodes, **(caches or {})}
        self._handle = Handle(api, CacheLister(listed), room, changes.until, self._activate)
        self._callbacks: list[Callable[[str], None]] = []
        self._snapshot = Snapshot()
        sort_key = PrioritySort(PluginArgs(), self._handle).sort_key
        self._policies = Policies(self._snapshot.namespace_labels)
        hints = Hints(self._registry.events, self._policies.profile_of, self._observer, clock.monotonic)
        self._queue = SchedulingQueue(clock, sort_key, hints, self._observer.queued)
        self._ledger = Ledger(self._changed, self._policies.owner_of)
        self._intake = Intake(self._snapshot, self._queue, self._ledger, self._admits, changes)
        watch = PluginWatch(self._observer, clock.monotonic)
        cycle = Cycle(self._snapshot, random, watch, self._queue.nominations)
        self._sharing: Sharing | None = None
        if shared is not None:
            parts = (
                self._snapshot,
                self._queue,
                self._ledger,
                self._policies,
                cycle,
                self._intake.see,
                self._past_permit,
            )
            self._sharing = Sharing(shared, Insides(api, pods, clock, *parts))
        desk = Desk(
            api=api,
            pods=pods,
            clock=clock,
            recorder=recorder,
            observer=self._observer,
            snapshot=self._snapshot,
            queue=self._queue,
            ledger=self._ledger,
            room=room,
            watch=watch,
            readmit=self._intake.see,
            booker=None if self._sharing is None else self._sharing.bookings,
            elsewhere=self._booked_elsewhere,
        )
        self._attempts = Attempts(desk, cycle)
        self._drain = Drain(api, pods, self._policies, clock, self._mine)
        self._expiry = Expiry(api, pods, self._snapshot, clock, self._expired)
        self._unmatched = Unmatched(self._policies, pods, clock, self._attempts.unmatched)
        self._roster = Roster(
            self._policies,
            pods,
            queue=self._queue,
            ledger=self._ledger,
            unmatched=self._unmatched,
            see=self._intake.see,
        )
        nodes.subscribe(self._intake.on_node)
        pods.subscribe(self._intake.on_pod)
        pods.subscribe(self._attempts.on_pod)
        pods.subscribe(self._roster.on_pod)
        if self._sharing is not None:
            pods.subscribe(self._sharing.on_pod)
        if namespaces is not None:
            namespaces.subscribe(self._intake.on_namespace)
            namespaces.subscribe(self._roster.on_namespace)
        for resource, cache in (caches or {}).items():
            cache.subscribe(self._intake.on_read(resource))

    # Profiles

    @property
    def registry(self) -> Registry:
        """The plugins that profiles can name."""
        return self._registry

    def policies(self, scheduler_name: str) -> Sequence[Policy]:
        """The policies for pods with that `schedulerName`, in the order in which they are asked."""
        return self._policies.serving(scheduler_name)

    def set_profile(self, owner: str, profile: ProfileConfig, rule: Rule | None = None) -> bool:
        """Add or replace the policy of `owner`: `profile` for the pods with its `schedulerName` that `rule` picks.

        It holds from the next attempt on, and all pods that wait with that name are retried. Without a rule all those pods are its own.
        Returns whether that changed anything.

        Raises: UnknownPlugin; InvalidPluginArgs; SchedulingError. Nothing has changed then.
        """
        changed = self._roster.put(owner, profile, rule or Rule(), self._registry, self._handle)
        self._release()
        return changed

    def check_profile(self, profile: ProfileConfig) -> None:
        """Raise what `set_profile` would, and do nothing."""
        Variants(profile, self._registry, self._handle)

    def remove_profile(self, owner: str) -> bool:
        """Take the policy of `owner` away: its pods are another policy's now, or wait; binds under way are finished.

        Returns whether there was one.
        """
        removed = self._roster.remove(owner)
        self._release()
        return removed

    def has_label(self, key: str) -> bool:
        """Whether any node has that label."""
        return any(key in node.labels for node in self._snapshot.nodes(self._snapshot.rows))

    def stats(self, owner: str) -> ProfileStats:
        """The numbers of the owner's policy; all zero without one."""
        return self._ledger.stats(owner)

    def explain(self, namespace: str, name: str, *, attempt: bool = True) -> dict[str, Any] | None:
        """All about the scheduling of a pod, without doing anything; see `konverge.scheduler.explain`."""
        parts = (self._pods, self._snapshot, self._policies, self._queue, self._registry, self._handle, self._clock)
        return explain(Sight(*parts, self._elsewhere), namespace, name, attempt=attempt)

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the owner whose stats changed. It is called often and must be quick."""
        self._callbacks.append(callback)

    # Sharing the work

    def team_changed(self) -> None:
        """Replicas with whom the work is shared came or went: pods change hands."""
        if self._sharing is not None:
            self._roster.look_again()
            self._sharing.team_changed()

    def on_register(self, change: Change) -> None:
        """The register of what all replicas are about to bind changed; for the subscription of its cache."""
        if self._sharing is not None:
            self._sharing.on_register(change)

    async def leave(self) -> bool:
        """After `run` has ended: take what is booked out of the register, so that others need not wait.

        False when something that was begun may still take effect.
        """
        return self._sharing is None or await self._sharing.bookings.leave()

    # Running

    async def run(self) -> None:
        """Schedule until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._schedule(), name="scheduler")
                group.create_task(self._expiry.run(), name="scheduler: assumed pods")
                group.create_task(self._unmatched.run(), name="scheduler: pods of no policy")
                group.create_task(self._drain.run(), name="scheduler: drained policies")
                if self._sharing is not None:
                    group.create_task(self._sharing.bookings.run(), name="scheduler: bookings")
        finally:
            await self._attempts.stop()

    async def _schedule(self) -> None:
        while True:
            await self._attempts.ready()
            if self._sharing is not None:
                await self._sharing.bookings.ready()
            waiting = await self._queue.pop()
            profile = self._policies.profile_of(waiting.pod)
            if profile is None:  # its policy was taken away while it was on its way to a node, from which it came back
                self._queue.discard(waiting.pod.uid)
                continue
            self._attempts.attempt(profile, waiting)
            self._report()
            # Let events, binds and the rest of the process have their turn between two pods.
            await asyncio.sleep(0)

    # Inside

    def _expired(self, pod: PodInfo) -> None:
        self._queue.notify([ClusterEvent.POD_GONE])
        if raw := self._pods.get(pod.key):
            self._intake.see(PodInfo(raw))

    def _activate(self, uids: Iterable[str], /, *, beside: str = "") -> None:
        self._queue.activate(uids, beside=beside)

    def _release(self) -> None:
        """Pods that wait for leave to be bound give their nodes back where no policy places them any more."""
        for waiting in self._room.all():
            if self._policies.profile_of(waiting.pod) is None:
                self._attempts.let_go(waiting.pod.uid, "its SchedulingPolicy places no pods any more")

    def _admits(self, pod: PodInfo) -> bool:
        return self._mine(pod) and self._roster.admits(pod)

    def _mine(self, pod: PodInfo) -> bool:
        return self._sharing is None or self._sharing.mine(pod)

    def _past_permit(self) -> Iterator[PodInfo]:
        return self._attempts.past_permit()

    def _elsewhere(self, pod: PodInfo) -> str:
        return "" if self._sharing is None or self._sharing.mine(pod) else self._sharing.replica_of(pod)

    def _booked_elsewhere(self, uid: str) -> bool:
        return self._sharing is not None and self._sharing.booked_elsewhere(uid)

    def _changed(self, owner: str) -> None:
        for callback in self._callbacks:
            callback(owner)

    def _report(self) -> None:
        sizes = self._queue.sizes
        self._observer.pending(sizes[Place.ACTIVE], sizes[Place.BACKOFF], sizes[Place.UNSCHEDULABLE])
