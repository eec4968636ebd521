"""A scheduler without a server, for tests of what wakes which pods: what finds a node is there at once."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from konverge.cache.store import Change, ChangeType
from konverge.model import meta
from konverge.model.resource import (
    Object,
    ResourceType,
)
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.changes import Changes
from konverge.scheduler.cycle import Choice, Cycle
from konverge.scheduler.handle import Handle
from konverge.scheduler.hints import Hints
from konverge.scheduler.intake import Intake
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.queue import Place, SchedulingQueue
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import Ledger, NullObserver
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim
from tests.unit.scheduler.clusters import NAME
from tests.unit.scheduler.shown import Shown


class Told(NullObserver):
    """Counts what plugins answer."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str, str]] = Counter()

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        assert seconds >= 0
        self.answers[plugin, event, answer] += 1


class Read(Shown):
    """A lister whose objects change."""

    def __init__(self, resources: Sequence[ResourceType]) -> None:
        super().__init__({resource: [] for resource in resources})
        self.changes = 0

    def version(self, _resource: ResourceType) -> int:
        return self.changes

    def put(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        kept = [obj for obj in self.objects[resource] if obj is not old]
        self.objects[resource] = [*kept, new] if new is not None else kept
        self.changes += 1


class World:
    """A scheduler's queue, snapshot and cycle; whatever finds a node is there at once."""

    def __init__(self, sim: Sim, registry: Registry | None = None) -> None:
        registry = registry or Registry.default()
        self.lister, self.observer = Read(list(registry.reads)), Told()
        changes = Changes(sim.clock)
        handle = Handle(FakeApi(), self.lister, WaitingRoom(sim.clock), changes.until)
        nobody_evicts = {Point.POST_FILTER: PluginSet(disabled=frozenset({"*"}))}
        added = sorted(set(registry.names) - set(Registry.default().names))
        more = {Point.MULTI_POINT: PluginSet(enabled=tuple(map(PluginUse, added)))}
        self.profile = compile_profile(ProfileConfig(NAME, plugins=nobody_evicts | more), registry, handle)
        self.snapshot = Snapshot()
        hints = Hints(registry.events, lambda _pod: self.profile, self.observer, sim.clock.monotonic)
        sort_key = PrioritySort(PrioritySort.Args(), handle).sort_key
        self.queue = SchedulingQueue(sim.clock, sort_key, hints)
        ledger = Ledger(lambda _owner: None, lambda _pod: None)
        self.intake = Intake(self.snapshot, self.queue, ledger, lambda _pod: True, changes)
        self.cycle = Cycle(self.snapshot, Random(0), nominations=self.queue.nominations)
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.read: dict[tuple[ResourceType, str], Object] = {}
        self.attempts = 0

    def node(self, name: str, new: Object | None) -> None:
        self.intake.on_node(_change(name, self.nodes.get(name), new))
        _keep(self.nodes, name, new)

    def pod(self, name: str, new: Object | None) -> None:
        self.intake.on_pod(_change(name, self.pods.get(name), new))
        _keep(self.pods, name, new)

    def object(self, resource: ResourceType, name: str, new: Object | None) -> None:
        old = self.read.get((resource, name))
        self.lister.put(resource, old, new)
        self.intake.on_read(resource)(_change(name, old, new))
        _keep(self.read, (resource, name), new)

    async def settle(self) -> None:
        """Try pods until none is to be tried."""
        while self.queue.sizes[Place.ACTIVE] + self.queue.sizes[Place.BACKOFF]:
            waiting = await self.queue.pop()
            self.attempts += 1
            result = self.cycle.schedule(self.profile, waiting.pod)
            if isinstance(result, Choice):
                raw = self.pods[waiting.pod.name]
                self.pod(waiting.pod.name, {**raw, "spec": {**raw["spec"], "nodeName": result.node_name}})
            else:
                self.queue.return_unschedulable(waiting, result.plugins)

    def would_fit(self) -> list[str]:
        """The waiting pods that would find a node if all of them were tried."""
        slow = Cycle(self.snapshot, Random(0), nominations=self.queue.nominations)
        waiting = [PodInfo(raw) for name, raw in self.pods.items() if name in self.queue]
        return [info.name for info in waiting if isinstance(slow.schedule(self.profile, info), Choice)]

    def bound(self) -> list[str]:
        return [name for name, raw in self.pods.items() if raw["spec"].get("nodeName")]


def _change(name: str, old: Object | None, new: Object | None) -> Change:
    kind = ChangeType.ADDED if old is None else ChangeType.DELETED if new is None else ChangeType.UPDATED
    return Change(kind, meta.key_of(new or old or {"metadata": {"name": name}}), old, new)


def _keep(objects: dict[Any, Object], name: Any, new: Object | None) -> None:
    if new is None:
        objects.pop(name, None)
    else:
        objects[name] = new
