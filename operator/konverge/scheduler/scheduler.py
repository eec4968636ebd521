"""The scheduler: pods of the profiles' `schedulerName`s flow in from the cache, binds, conditions and events flow out.

    intake -> queue -> attempts -> binder, beside the next pod

Here is what holds for all pods: the profiles, the wiring, and the loop. What becomes of one pod is in `attempts`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from konverge.cache.informer import Cache
from konverge.model.resource import Node, Pod, ResourceType
from konverge.ports import Api, Clock, Random, Recorder
from konverge.scheduler.attempts import Attempts, Desk
from konverge.scheduler.changes import Changes
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.drain import Drain
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.explain import explain
from konverge.scheduler.framework import PluginArgs
from konverge.scheduler.handle import Handle
from konverge.scheduler.intake import Intake
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies, Policy, Rule
from konverge.scheduler.profile import ProfileConfig
from konverge.scheduler.queue import Place, SchedulingQueue
from konverge.scheduler.registry import Registry
from konverge.scheduler.roster import Roster
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import Ledger, NullObserver, ProfileStats, SchedulingObserver
from konverge.scheduler.unmatched import Unmatched
from konverge.scheduler.variants import Variants
from konverge.scheduler.waiting import WaitingRoom
from konverge.scheduler.watch import PluginWatch
from konverge.scheduler.whereabouts import Sight

_log = logging.getLogger(__name__)

_EXPIRY_CHECK: Final = 30.0


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
    ) -> None:
        """Subscribe to the caches; they may hold pods of any namespace and must hold all pods that are on a node.

        Without `namespaces` the namespaceSelector of an affinity term knows a namespace by its name only. `caches`
        are what plugins read besides: those of `Plugin.reads`.
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
        self._queue = SchedulingQueue(clock, sort_key, self._helps, self._observer.queued)
        self._policies = Policies(self._snapshot.namespace_labels)
        self._ledger = Ledger(self._changed, self._policies.owner_of)
        self._intake = Intake(self._snapshot, self._queue, self._ledger, self._admits, changes)
        watch = PluginWatch(self._observer, clock.monotonic)
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
        )
        self._attempts = Attempts(desk, Cycle(self._snapshot, random, watch, self._queue.nominations))
        self._drain = Drain(api, pods, self._policies, clock)
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
        return explain(Sight(*parts), namespace, name, attempt=attempt)

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the owner whose stats changed. It is called often and must be quick."""
        self._callbacks.append(callback)

    # Running

    async def run(self) -> None:
        """Schedule until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._schedule(), name="scheduler")
                group.create_task(self._expire(), name="scheduler: assumed pods")
                group.create_task(self._unmatched.run(), name="scheduler: pods of no policy")
                group.create_task(self._drain.run(), name="scheduler: drained policies")
        finally:
            await self._attempts.stop()

    async def _schedule(self) -> None:
        while True:
            await self._attempts.ready()
            waiting = await self._queue.pop()
            profile = self._policies.profile_of(waiting.pod)
            if profile is None:  # its policy was taken away while it was on its way to a node, from which it came back
                self._queue.discard(waiting.pod.uid)
                continue
            self._attempts.attempt(profile, waiting)
            self._report()
            # Let events, binds and the rest of the process have their turn between two pods.
            await asyncio.sleep(0)

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(_EXPIRY_CHECK)
            for pod in self._snapshot.expire(self._clock.monotonic()):
                _log.warning("pod %s was bound, but the cache never showed it; its node counts it no longer", pod.key)
                self._queue.notify([ClusterEvent.POD_GONE])
                if raw := self._pods.get(pod.key):
                    self._intake.see(PodInfo(raw))

    # Inside

    def _activate(self, uids: Iterable[str], /, *, beside: str = "") -> None:
        self._queue.activate(uids, beside=beside)

    def _release(self) -> None:
        """Pods that wait for leave to be bound give their nodes back where no policy places them any more."""
        for waiting in self._room.all():
            if self._policies.profile_of(waiting.pod) is None:
                self._attempts.let_go(waiting.pod.uid, "its SchedulingPolicy places no pods any more")

    def _admits(self, pod: PodInfo) -> bool:
        return self._roster.admits(pod)

    def _helps(self, plugin: str, event: ClusterEvent) -> bool:
        return event in self._registry.events(plugin)

    def _changed(self, owner: str) -> None:
        for callback in self._callbacks:
            callback(owner)

    def _report(self) -> None:
        sizes = self._queue.sizes
        self._observer.pending(sizes[Place.ACTIVE], sizes[Place.BACKOFF], sizes[Place.UNSCHEDULABLE])
