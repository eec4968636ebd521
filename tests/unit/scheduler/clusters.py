"""Pods, nodes and a running scheduler for the tests of this directory."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal, TypeVar

import numpy as np

from konverge.cache import Caches
from konverge.model.resource import Namespace, Node, Object, Pod
from konverge.runtime.clock import SystemClock
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry, Scheduler, SchedulingObserver
from konverge.scheduler.changes import Changes
from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import (
    SUCCESS,
    Code,
    CycleState,
    Filter,
    Plugin,
    PreFilter,
    PreScore,
    Score,
    Verdict,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim

NAME = "konverge"
"""The schedulerName of the tests' profile."""

P = TypeVar("P", bound=Plugin)


def plugin_handle() -> Handle:
    """What a plugin is given outside a running scheduler: no cache holds anything."""
    api, clock, registry = FakeApi(), SystemClock(), Registry.default()
    caches = Caches(api, clock=clock, random=Random(0))
    lister = CacheLister({resource: caches.cache(resource) for resource in (Pod, Node, *registry.reads)})
    return Handle(api, lister, WaitingRoom(clock), Changes(clock).until)


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    unschedulable: bool = False,
    **extended: Any,
) -> dict[str, Any]:
    """A node. A taint is `key=value:Effect`; `extended` names resources with `__` for `/` and `_` for `.`."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    allocatable |= {resource_name(key): str(value) for key, value in extended.items()}
    spec: dict[str, Any] = {"taints": [_taint(text) for text in taints]}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(
    name: str = "p",
    cpu: str | None = None,
    memory: str | None = None,
    *,
    on: str = "",
    scheduler: str = NAME,
    priority: int = 0,
    uid: str | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **requests: Any,
) -> dict[str, Any]:
    """A pod with one container that requests what is given. `on` is the node that it is bound to."""
    asked: dict[str, Any] = {"cpu": cpu, "memory": memory}
    asked |= {resource_name(key): str(value) for key, value in requests.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name if uid is None else uid},
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [container("main", **{key: value for key, value in asked.items() if value is not None})],
            **({"nodeName": on} if on else {}),
            **(spec or {}),
        },
        **({"status": dict(status)} if status else {}),
    }


def container(name: str, *, sidecar: bool = False, **requests: Any) -> dict[str, Any]:
    """A container with these requests; a sidecar restarts always."""
    return {
        "name": name,
        "resources": {"requests": requests},
        **({"restartPolicy": "Always"} if sidecar else {}),
    }


def resource_name(key: str) -> str:
    """`example_com__gpu` for `example.com/gpu`."""
    prefix, slash, name = key.partition("__")
    return f"{prefix.replace('_', '.')}/{name}" if slash else key


def toleration(key: str = "", value: str = "", effect: str = "", operator: str = "") -> dict[str, str]:
    """An entry of `spec.tolerations`, empty fields left out as the API server does."""
    fields = {"key": key, "value": value, "effect": effect, "operator": operator}
    return {field: text for field, text in fields.items() if text}


def _taint(text: str) -> dict[str, str]:
    pair, effect = text.split(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def snapshot_of(*nodes: Object, pods: Sequence[Object] = ()) -> Snapshot:
    """A snapshot with these nodes, and these pods bound to them."""
    snapshot = Snapshot()
    for raw in nodes:
        snapshot.set_node(raw)
    for raw in pods:
        snapshot.place(PodInfo(raw))
    return snapshot


def plugin(kind: type[P], **args: Any) -> P:
    """An instance of a plugin with these arguments, as a manifest gives them."""
    return kind(kind.Args.model_validate(args), plugin_handle())


def verdicts(one: Filter, raw: Object, snapshot: Snapshot) -> dict[str, Verdict]:
    """What a filter says of the pod on each node, by the per-node method."""
    state, info = CycleState(), PodInfo(raw)
    if isinstance(one, PreFilter) and one.pre_filter(state, info, snapshot).verdict.code is Code.SKIP:
        return {each.name: Verdict(Code.SUCCESS) for each in snapshot.nodes(snapshot.rows)}
    return {each.name: one.filter(state, info, each) for each in snapshot.nodes(snapshot.rows)}


def passing(one: Filter, raw: Object, *nodes: Object, pods: Sequence[Object] = ()) -> set[str]:
    """The names of the nodes that the filter passes."""
    found = verdicts(one, raw, snapshot_of(*nodes, pods=pods))
    return {name for name, verdict in found.items() if verdict.code is Code.SUCCESS}


def scores(one: Score, raw: Object, *nodes: Object, pods: Sequence[Object] = ()) -> list[int]:
    """The normalised scores of the nodes, in order, by the batch method."""
    snapshot, state, info = snapshot_of(*nodes, pods=pods), CycleState(), PodInfo(raw)
    if isinstance(one, PreScore):
        one.pre_score(state, info, snapshot, snapshot.rows)
    raw_scores: IntArray = one.score_batch(state, info, snapshot, snapshot.rows)
    result: list[int] = np.asarray(one.normalize(state, info, raw_scores)).tolist()
    return result


class Recorded:
    """A recorder that keeps what it is told: (pod, type, reason, message)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def event(
        self,
        regarding: Object,
        event_type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        self.events.append((regarding["metadata"]["name"], event_type, reason, message))

    def of(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the events of one pod."""
        return [(reason, message) for pod_name, _, reason, message in self.events if pod_name == name]


class Running:
    """A scheduler with its caches on a fake API server, in simulated time."""

    def __init__(
        self, sim: Sim, api: FakeApi, registry: Registry | None = None, observer: SchedulingObserver | None = None
    ) -> None:
        self.sim, self.api = sim, api
        self.recorder = Recorded()
        self.caches = Caches(api, clock=sim.clock, random=sim.random)
        self.pods, self.nodes = self.caches.cache(Pod), self.caches.cache(Node)
        self.namespaces = self.caches.cache(Namespace)
        self.scheduler = Scheduler(
            api,
            self.pods,
            self.nodes,
            clock=sim.clock,
            random=sim.random,
            recorder=self.recorder,
            registry=registry,
            observer=observer,
            namespaces=self.namespaces,
            caches={each: self.caches.cache(each) for each in (registry or Registry.default()).reads},
        )

    async def start(self, *, profile: ProfileConfig | None = None, sync_within: float = 60) -> "Running":
        """Sync the caches, set the profile, run."""
        self.caching = self.sim.spawn(self.caches.run())
        await self.caches.wait_for_sync(sync_within)
        self.scheduler.set_profile("policy", profile or ProfileConfig(NAME))
        self.running = self.sim.spawn(self.scheduler.run())
        return self

    async def create(self, *objects: Object) -> None:
        """Create pods and nodes on the server, as somebody else."""
        author = self.api.client("author")
        for raw in objects:
            resource, metadata = (Pod, raw["metadata"]) if raw["kind"] == "Pod" else (Node, raw["metadata"])
            namespace = metadata.get("namespace")
            manifest = {**raw, "metadata": {k: v for k, v in metadata.items() if k != "uid"}}
            await author.create(resource, manifest, namespace)
            if "status" in raw:
                status = {"status": raw["status"]}
                await author.patch(resource, metadata["name"], status, namespace, subresource="status")

    def at(self, name: str) -> str:
        """The node that the server has the pod on."""
        (found,) = [raw for raw in self.api.objects(Pod) if raw["metadata"]["name"] == name]
        return str(found["spec"].get("nodeName") or "")

    def condition(self, name: str) -> Mapping[str, Any]:
        """The pod's condition PodScheduled."""
        (found,) = [raw for raw in self.api.objects(Pod) if raw["metadata"]["name"] == name]
        conditions = found.get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    async def placed(self, *names: str) -> list[str]:
        """Wait until the pods are bound; their nodes."""
        await self.sim.until(lambda: all(self.at(name) for name in names))
        return [self.at(name) for name in names]


async def running(
    sim: Sim,
    *objects: Object,
    profile: ProfileConfig | None = None,
    registry: Registry | None = None,
    observer: SchedulingObserver | None = None,
    api: FakeApi | None = None,
) -> Running:
    """A running scheduler on a cluster that holds `objects` already."""
    cluster = Running(sim, api or FakeApi(clock=sim.clock, random=sim.random), registry, observer)
    await cluster.create(*objects)
    return await cluster.start(profile=profile)


def binds(cluster: Running) -> list[Any]:
    """The binding requests, also those that failed."""
    return [request for request in cluster.api.requests if request.subresource == "binding"]


def with_plugin(name: str, *, weight: int | None = None, **args: Any) -> ProfileConfig:
    """The default profile and one plugin more."""
    everywhere = PluginSet(enabled=(PluginUse(name, weight),))
    return ProfileConfig(NAME, plugins={Point.MULTI_POINT: everywhere}, args={name: args} if args else {})


def registry_with(*plugins: type[Any]) -> Registry:
    registry = Registry.default()
    for plugin in plugins:
        registry.register(plugin)
    return registry


class Broken(Filter):
    """Raises on the pod named `bad`."""

    name = "Broken"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        if pod.name == "bad":
            raise RuntimeError("boom")
        return SUCCESS
