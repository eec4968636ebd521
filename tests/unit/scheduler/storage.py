"""Claims, volumes and classes for the tests of this directory, and what a plugin is given where caches hold them."""

from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any, TypeVar

from konverge.cache import Caches
from konverge.model.resource import Object, ResourceType
from konverge.runtime.clock import SystemClock
from konverge.scheduler import Registry
from konverge.scheduler.changes import Changes
from konverge.scheduler.framework import CycleState, Filter, Plugin, PreFilter, Verdict
from konverge.scheduler.handle import Handle
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi
from tests.unit.scheduler.clusters import pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
LATE = "WaitForFirstConsumer"
P = TypeVar("P", bound=Plugin)
_versions = count(1)


def made(kind: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    """An object as the server would show it, each one at a later version."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(next(_versions))}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {key: parts.pop(key) for key in ("labels", "annotations", "ownerReferences") if key in parts}
    return {"apiVersion": RESOURCES[kind].api_version, "kind": kind, "metadata": metadata, **parts}


def storage_class(name: str = "late", mode: str = LATE, provisioner: str = "csi.example.com", **more: Any) -> Object:
    return made("StorageClass", name, provisioner=provisioner, volumeBindingMode=mode, **more)


def claim(
    name: str = "data",
    size: str = "1Gi",
    *,
    volume: str = "",
    storage: str = "late",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    """A claim; with `volume` it is bound to that, and says so."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    wanted = {
        "storageClassName": storage,
        "accessModes": list(modes),
        "resources": {"requests": {"storage": size}},
        **({"volumeName": volume} if volume else {}),
        **(spec or {}),
    }
    return made(
        "PersistentVolumeClaim",
        name,
        "default",
        annotations={**bound, **(annotations or {})},
        spec=wanted,
        status={"phase": phase or ("Bound" if volume else "Pending")},
        **more,
    )


def volume(
    name: str,
    size: str = "1Gi",
    *,
    on: Mapping[str, list[str]] | None = None,
    storage: str = "late",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    meant_for: str = "",
    phase: str = "Available",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A volume, which nodes reach that have all the labels `on`; `meant_for` names a claim of the same namespace."""
    wanted: dict[str, Any] = {"storageClassName": storage, "accessModes": list(modes), "capacity": {"storage": size}}
    if on is not None:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in on.items()]
        wanted["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if meant_for:
        wanted["claimRef"] = {"namespace": "default", "name": meant_for}
    return made("PersistentVolume", name, labels=labels or {}, spec={**wanted, **spec}, status={"phase": phase})


def csi_node(name: str, **limits: int | None) -> Object:
    """How many volumes each driver can attach; `csi_example_com` stands for the driver of that name with dots."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "nodeID": name,
            **({"allocatable": {"count": limit}} if limit is not None else {}),
        }
        for driver, limit in limits.items()
    ]
    return made("CSINode", name, spec={"drivers": drivers})


def driver(name: str = "csi.example.com", *, tracks: bool = True) -> Object:
    return made("CSIDriver", name, spec={"storageCapacity": tracks})


def capacity(name: str, size: str, on: Mapping[str, str] | None = None, storage: str = "late") -> Object:
    topology = {"matchLabels": dict(on or {})}
    return made(
        "CSIStorageCapacity", name, "kube-system", storageClassName=storage, nodeTopology=topology, capacity=size
    )


def attachment(name: str, node: str, volume_name: str, attacher: str = "csi.example.com") -> Object:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return made("VolumeAttachment", name, spec=spec)


def user(*claims: str, name: str = "p", on: str = "", volumes: tuple[Mapping[str, Any], ...] = ()) -> dict[str, Any]:
    """A pod with these claims."""
    used = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}} for number, each in enumerate(claims)]
    return pod(name, on=on, spec={"volumes": [*used, *volumes]})


RESOURCES: Mapping[str, ResourceType] = {resource.kind: resource for resource in Registry.default().reads}


class Storage:
    """Caches that hold objects, and the handle of a plugin that reads them."""

    def __init__(self, *objects: Object) -> None:
        api, clock = FakeApi(), SystemClock()
        caches = Caches(api, clock=clock, random=Random(0))
        self.caches = {resource: caches.cache(resource) for resource in RESOURCES.values()}
        self.lister, self.changes = CacheLister(self.caches), Changes(clock)
        self.handle = Handle(api, self.lister, WaitingRoom(clock), self.changes.until)
        self.show(*objects)

    def show(self, *objects: Object) -> None:
        """The server shows these, or these versions."""
        for obj in objects:
            self.caches[RESOURCES[obj["kind"]]].wrote(obj)

    def plugin(self, kind: type[P], **args: Any) -> P:
        """An instance of a plugin that reads what is held."""
        return kind(kind.Args.model_validate(args), self.handle)


def whole(one: PreFilter, raw: Object, snapshot: Snapshot | None = None) -> Verdict:
    """What a plugin says of the pod before any node."""
    return one.pre_filter(CycleState(), PodInfo(raw), snapshot or Snapshot()).verdict


def reasons(one: Filter, raw: Object, snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The reasons against each node, by the per-node method; the pod as a whole must not be turned away."""
    state, info = CycleState(), PodInfo(raw)
    if isinstance(one, PreFilter):
        verdict = one.pre_filter(state, info, snapshot).verdict
        assert not verdict.rejected, verdict
    return {each.name: one.filter(state, info, each).reasons for each in snapshot.nodes(snapshot.rows)}
