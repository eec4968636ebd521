"""The scheduler: pods of the profiles' `schedulerName`s flow in from the cache, binds, conditions and events flow out.

    queue -> cycle (prefilter, filter, score) -> assume -> reserve -> bind, beside the next pod

What goes wrong on the way goes back: a pod that fits nowhere waits for an event that may help, anything else for its
backoff.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from konverge.cache.informer import Cache
from konverge.errors import PluginFailed, SchedulingError
from konverge.ports import Api, Clock, Random, Recorder
from konverge.scheduler.bind import Assignment, Binder
from konverge.scheduler.cycle import Choice, Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import Handle, PluginArgs, PreEnqueue
from konverge.scheduler.intake import Intake
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, ProfileConfig, compile_profile
from konverge.scheduler.queue import Place, SchedulingQueue, Waiting
from konverge.scheduler.registry import Registry
from konverge.scheduler.reserve import reserve, unreserve
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import AttemptResult, Ledger, NullObserver, ProfileStats, SchedulingObserver
from konverge.scheduler.status import FailureReason, StatusWriter

_log = logging.getLogger(__name__)

ASSUMED_FOR: Final = 600.0
"""Seconds that a pod is counted on its node after its bind while the cache does not show it bound."""

_EXPIRY_CHECK: Final = 30.0
_MAX_NOTE: Final = 1024
"""The API's bound on the text of an event, in bytes."""


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
    ) -> None:
        """Subscribe to the caches; they may hold pods of any namespace and must hold all pods that are on a node.

        Without `namespaces` the namespaceSelector of an affinity term knows a namespace by its name only.
        """
        self._pods, self._clock, self._recorder = pods, clock, recorder
        self._registry = registry if registry is not None else Registry.default()
        self._observer = observer or NullObserver()
        self._handle = Handle(api)
        self._configs: dict[str, ProfileConfig] = {}
        self._owners: dict[str, str] = {}
        self._profiles: dict[str, Profile] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self._snapshot = Snapshot()
        self._queue = SchedulingQueue(clock, PrioritySort(PluginArgs(), self._handle).sort_key, self._helps)
        self._ledger = Ledger(self._changed)
        self._cycle = Cycle(self._snapshot, random)
        self._status = StatusWriter(api, pods, clock)
        self._binder = Binder(api, pods, self._status, clock, self)
        self._intake = Intake(self._snapshot, self._queue, self._ledger, self._admits)
        nodes.subscribe(self._intake.on_node)
        pods.subscribe(self._intake.on_pod)
        if namespaces is not None:
            namespaces.subscribe(self._intake.on_namespace)

    # Profiles

    @property
    def registry(self) -> Registry:
        """The plugins that profiles can name."""
        return self._registry

    def set_profile(self, owner: str, profile: ProfileConfig) -> None:
        """Add or replace the profile of `owner`. It holds from the next attempt on, and its waiting pods are retried.

        Raises: UnknownPlugin; InvalidPluginArgs; SchedulingError, also for a `schedulerName` that another owner has.
            Nothing has changed then.
        """
        if self._configs.get(owner) == profile:
            return
        compiled = compile_profile(profile, self._registry, self._handle)
        name = profile.scheduler_name
        if (holder := self._owners.get(name, owner)) != owner:
            raise SchedulingError(f"schedulerName {name!r} is already that of {holder}; choose another")
        self._check_queue_sort(owner, compiled)
        if owner in self._configs and self._configs[owner].scheduler_name != name:
            self.remove_profile(owner)
        self._configs[owner], self._owners[name], self._profiles[name] = profile, owner, compiled
        self._queue.sort_by(compiled.queue_sort.sort_key)
        for pod in map(PodInfo, self._pods.list()):
            if pod.scheduler_name == name and not pod.node_name:
                self._intake.see(pod)
        self._queue.retry_now(lambda pod: pod.scheduler_name == name)
        self._changed(name)

    def remove_profile(self, owner: str) -> None:
        """Leave the pods of the owner's profile alone from now on; binds under way are finished."""
        config = self._configs.pop(owner, None)
        if config is None:
            return
        name = config.scheduler_name
        del self._owners[name], self._profiles[name]
        self._queue.discard_all(lambda pod: pod.scheduler_name == name)

    def stats(self, owner: str) -> ProfileStats:
        """The numbers of the owner's profile; all zero without one."""
        config = self._configs.get(owner)
        return self._ledger.stats(config.scheduler_name) if config else ProfileStats()

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
        finally:
            await self._binder.stop()
            await self._status.stop()

    async def _schedule(self) -> None:
        while True:
            await self._binder.ready()
            waiting = await self._queue.pop()
            self._attempt(waiting)
            self._report()
            # Let events, binds and the rest of the process have their turn between two pods.
            await asyncio.sleep(0)

    def _attempt(self, waiting: Waiting) -> None:
        """Try one pod. Whatever goes wrong is this pod's trouble alone."""
        pod, started = waiting.pod, self._clock.monotonic()
        profile = self._profiles[pod.scheduler_name]
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

    def _assume(self, waiting: Waiting, profile: Profile, choice: Choice, started: float) -> Diagnosis | None:
        """Count the pod on its node, reserve, and start the bind; a diagnosis if a Reserve plugin rejects."""
        pod = waiting.pod
        self._snapshot.assume(pod, choice.node_name)
        try:
            diagnosis = reserve(profile, choice.state, pod, choice.node_name)
        except PluginFailed:
            self._snapshot.forget(pod.uid)
            raise
        if diagnosis is not None:
            self._snapshot.forget(pod.uid)
            return diagnosis
        self._binder.start(Assignment(waiting, choice.node_name, choice.state, profile, started))
        return None

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(_EXPIRY_CHECK)
            for pod in self._snapshot.expire(self._clock.monotonic()):
                _log.warning("pod %s was bound, but the cache never showed it; its node counts it no longer", pod.key)
                self._queue.notify([ClusterEvent.POD_GONE])
                if raw := self._pods.get(pod.key):
                    self._intake.see(PodInfo(raw))

    # How attempts end

    def bound(self, assignment: Assignment) -> None:
        """The server has the pod on its node."""
        pod = assignment.waiting.pod
        self._snapshot.expire_after(pod.uid, self._clock.monotonic() + ASSUMED_FOR)
        self._queue.discard(pod.uid)
        self._ledger.freed(pod)
        message = f"Successfully assigned {pod.key} to {assignment.node_name}"
        self._recorder.event(pod.raw, "Normal", "Scheduled", message, action="Binding")
        self._observe(pod, "scheduled", assignment.started)

    def failed(self, assignment: Assignment, error: Exception) -> None:
        """The pod is not on its node: give back what it was promised, and try again if it still waits."""
        waiting, pod = assignment.waiting, assignment.waiting.pod
        unreserve(assignment.profile, assignment.state, pod, assignment.node_name)
        if self._snapshot.is_assumed(pod.uid):
            self._snapshot.forget(pod.uid)
            self._queue.notify([ClusterEvent.POD_GONE])
        raw = self._pods.get(pod.key)
        current = None if raw is None else PodInfo(raw)
        if current is None or current.uid != pod.uid or not current.waiting:
            self._queue.discard(pod.uid)
        elif pod.uid in self._queue:
            self._went_wrong(waiting, f"binding rejected: {error}", assignment.started)
        else:
            # Its profile was removed meanwhile, and perhaps set anew.
            self._intake.see(current)

    def _fits_nowhere(self, waiting: Waiting, diagnosis: Diagnosis, started: float) -> None:
        self._ledger.stuck(waiting.pod, diagnosis.counts)
        self._queue.return_unschedulable(waiting, diagnosis.plugins)
        self._tell(waiting.pod, "Unschedulable", diagnosis.message)
        self._observe(waiting.pod, "unschedulable", started)

    def _went_wrong(self, waiting: Waiting, message: str, started: float) -> None:
        self._ledger.freed(waiting.pod)
        self._queue.return_failed(waiting)
        self._tell(waiting.pod, "SchedulerError", message)
        self._observe(waiting.pod, "error", started)

    def _tell(self, pod: PodInfo, reason: FailureReason, message: str) -> None:
        self._recorder.event(pod.raw, "Warning", "FailedScheduling", _note(message), action="Scheduling")
        self._status.not_scheduled(pod, reason, message)

    # Inside

    def _check_queue_sort(self, owner: str, compiled: Profile) -> None:
        for name, other in self._profiles.items():
            if self._owners[name] != owner and other.queue_sort.name != compiled.queue_sort.name:
                raise SchedulingError(
                    f"all profiles share one queue: {self._owners[name]} sorts it with {other.queue_sort.name}, "
                    f"so this profile cannot use {compiled.queue_sort.name}"
                )

    def _admits(self, pod: PodInfo) -> bool:
        """Whether one of our profiles takes the pod into the queue."""
        profile = self._profiles.get(pod.scheduler_name)
        return profile is not None and not any(_keeps_out(plugin, pod) for plugin in profile.pre_enqueues)

    def _helps(self, plugin: str, event: ClusterEvent) -> bool:
        return event in self._registry.get(plugin).events

    def _changed(self, scheduler_name: str) -> None:
        if (owner := self._owners.get(scheduler_name)) is not None:
            for callback in self._callbacks:
                callback(owner)

    def _observe(self, pod: PodInfo, result: AttemptResult, started: float) -> None:
        self._observer.attempt(pod.scheduler_name, result, self._clock.monotonic() - started)

    def _report(self) -> None:
        sizes = self._queue.sizes
        self._observer.pending(sizes[Place.ACTIVE], sizes[Place.BACKOFF], sizes[Place.UNSCHEDULABLE])


def _keeps_out(plugin: PreEnqueue, pod: PodInfo) -> bool:
    try:
        return plugin.pre_enqueue(pod).rejected
    except Exception:  # noqa: BLE001 - whatever a plugin raises, it is called from a cache's subscription
        _log.exception("plugin %s failed on whether pod %s may be queued; it may", plugin.name, pod.key)
        return False


def _note(message: str) -> str:
    """The message cut to what an event may hold."""
    if len(message.encode()) <= _MAX_NOTE:
        return message
    return message.encode()[: _MAX_NOTE - 4].decode(errors="ignore") + " ..."
