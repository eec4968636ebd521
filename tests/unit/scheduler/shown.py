"""Plugins that read given objects, for the tests of plugins that look further than pods on nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from konverge.errors import SchedulingError
from konverge.model.meta import Key
from konverge.model.resource import Node, Object, Pod, ResourceType
from konverge.runtime.clock import SystemClock
from konverge.scheduler.changes import Changes
from konverge.scheduler.framework import CycleState, Filter, Plugin, PreFilter, PreScore, Score
from konverge.scheduler.gangs import GANG
from konverge.scheduler.handle import Handle, Index
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi

P = TypeVar("P", bound=Plugin)


class Shown:
    """A lister of what it is given; it has no cache of resources that are not among them."""

    def __init__(self, objects: Mapping[ResourceType, Sequence[Object]]) -> None:
        self.objects = {Pod: [], Node: [], **{resource: list(given) for resource, given in objects.items()}}

    def get(self, resource: ResourceType, name: str, namespace: str = "") -> Object | None:
        return next((obj for obj in self.list(resource, namespace) if obj["metadata"]["name"] == name), None)

    def list(self, resource: ResourceType, namespace: str | None = None) -> Sequence[Object]:
        if resource not in self.objects:
            raise SchedulingError(f"no cache of {resource}")
        wanted = namespace if resource.namespaced else None
        return [obj for obj in self.objects[resource] if wanted in {None, obj["metadata"].get("namespace")}]

    def by_index(self, resource: ResourceType, index: Index, value: str) -> Sequence[Object]:
        return [obj for obj in self.list(resource) if value in index.fn(obj)]

    def version(self, _resource: ResourceType) -> int:
        return 0

    def changed(self, _resource: ResourceType, _since: int) -> Sequence[Key] | None:
        return None

    def assume(self, resource: ResourceType, obj: Object) -> None:
        raise NotImplementedError

    def forget(self, resource: ResourceType, obj: Object) -> None:
        raise NotImplementedError

    def wrote(self, resource: ResourceType, obj: Object) -> None:
        raise NotImplementedError


def reading(kind: type[P], objects: Mapping[ResourceType, Sequence[Object]] | None = None, **args: Any) -> P:
    """An instance of a plugin with these arguments, that reads these objects."""
    clock = SystemClock()
    handle = Handle(FakeApi(), Shown(objects or {}), WaitingRoom(clock), Changes(clock).until)
    return kind(kind.Args.model_validate(args), handle)


def of_gang(raw: dict[str, Any], gang: str) -> dict[str, Any]:
    """The pod in a gang."""
    raw["metadata"]["labels"] = {**raw["metadata"].get("labels", {}), GANG: gang}
    return raw


def owned(raw: dict[str, Any], controller: str) -> dict[str, Any]:
    """The pod with a controller of that uid; its labels tell it from the pods of others."""
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller, "uid": controller, "controller": True}
    ]
    raw["metadata"]["labels"] = {**raw["metadata"].get("labels", {}), "pod-template-hash": controller}
    return raw


def annotated(raw: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """The object with these annotations; `__` stands for `/`, `_` for `.` before it and for `-` behind."""
    for key, value in annotations.items():
        domain, _, name = key.rpartition("__")
        full = f"{domain.replace('_', '.')}/{name.replace('_', '-')}"
        raw["metadata"].setdefault("annotations", {})[full] = value
    return raw


def answers(one: Filter, raw: Object, snapshot: Snapshot) -> dict[str, str]:
    """What a filter says of each node: the reason that it is rejected for, or nothing."""
    state, info = CycleState(), PodInfo(raw)
    if isinstance(one, PreFilter):
        one.pre_filter(state, info, snapshot)
    return {node.name: "".join(one.filter(state, info, node).reasons) for node in snapshot.nodes(snapshot.rows)}


def ranks(one: Score, raw: Object, snapshot: Snapshot) -> dict[str, int]:
    """The scores by node."""
    state, info = CycleState(), PodInfo(raw)
    if isinstance(one, PreScore):
        one.pre_score(state, info, snapshot, snapshot.rows)
    return {node.name: one.score(state, info, node) for node in snapshot.nodes(snapshot.rows)}
