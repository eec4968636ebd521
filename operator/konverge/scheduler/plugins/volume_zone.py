"""VolumeZone: a pod goes to the zone and region that the labels of its bound volumes name."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume, PersistentVolumeClaim, StorageClass
from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, ReadChange
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    BatchVerdict,
    CycleState,
    Filter,
    PluginArgs,
    PreFilter,
    PreFilterResult,
    Verdict,
    unresolvable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_objects import (
    class_of,
    concerns,
    find_claim,
    not_found,
    volume_name,
    waits,
    waits_for_consumer,
)
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

CONFLICT: Final = "node(s) had no available volume zone"
NO_CLAIM_NAME: Final = "PersistentVolumeClaim had no name"
NO_CLASS: Final = "PersistentVolumeClaim had no pv name and storageClass name"
NO_NAME: Final = "PersistentVolume had no name"

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_TODAY: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""The labels that say where something is, with what they are called today."""
_DELIMITER: Final = "__"
"""Between the zones of a volume that is in several."""


@dataclass(frozen=True, slots=True)
class _Topology:
    """A label of a volume: the node must have it with one of the values."""

    key: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Topologies:
    all: tuple[_Topology, ...]


class VolumeZone(PreFilter, Filter):
    """See the module."""

    name: ClassVar[str] = "VolumeZone"
    node_only = True
    reads = frozenset({PersistentVolumeClaim, PersistentVolume, StorageClass})
    events = frozenset(
        {
            ClusterEvent.STORAGE_CLASS_CHANGED,
            ClusterEvent.CLAIM_CHANGED,
            ClusterEvent.VOLUME_CHANGED,
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_LABEL,
        }
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._lister = handle.lister

    def signature(self, state: CycleState, _pod: PodInfo, /) -> Hashable:
        """The labels of the pod's volumes."""
        return state.read(_Topologies)

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """The pod's claims."""
        return pod.namespace, pod.claims

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A claim of the pod; a new class that waits for the first pod; a volume that is new or in other zones."""
        if not isinstance(cause, ReadChange):
            return True
        old, new = cause.old, cause.new
        if new is None:
            return False
        if cause.resource == PersistentVolumeClaim:
            return concerns(cause, pod)
        if cause.resource == StorageClass:
            return waits(new) and (old is None or not waits(old))
        return old is None or _topologies(old) != _topologies(new)

    def pre_filter(self, state: CycleState, pod: PodInfo, _snapshot: Snapshot, /) -> PreFilterResult:
        """Read the labels of the pod's volumes; skip a pod whose volumes have none."""
        found: list[_Topology] = []
        for used in pod.claims:
            if used.ephemeral:
                continue
            if not used.name:
                return PreFilterResult(unresolvable(NO_CLAIM_NAME))
            claim = find_claim(used, pod, self._lister)
            if claim is None:
                return PreFilterResult(unresolvable(not_found("persistentvolumeclaim", used.name)))
            if not volume_name(claim):
                if trouble := self._unbound(claim):
                    return PreFilterResult(unresolvable(trouble))
                continue
            volume = self._lister.get(PersistentVolume, volume_name(claim))
            if volume is None:
                return PreFilterResult(unresolvable(not_found("persistentvolume", volume_name(claim))))
            found.extend(_topologies(volume))
        state.write(_Topologies(tuple(found)))
        return PreFilterResult(SUCCESS if found else SKIP)

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable where a label differs; a node without any such label is in the only zone there is."""
        topologies = state.read(_Topologies)
        if topologies is None or not node.labels.keys() & _TODAY.keys():
            return SUCCESS
        for topology in topologies.all:
            value = node.labels.get(topology.key, node.labels.get(_TODAY[topology.key]))
            if value not in topology.values:
                return unresolvable(CONFLICT)
        return SUCCESS

    def filter_batch(self, state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the label columns."""
        topologies = state.read(_Topologies)
        placed, conflict = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
        for key in _TODAY:
            placed |= snapshot.label(key).judge_bool(rows, lambda value: value is not None)
        for topology in topologies.all if topologies else ():
            column = snapshot.label(topology.key)
            same = column.judge_bool(rows, topology.values.__contains__)
            lacks = column.judge_bool(rows, lambda value: value is None)
            today = snapshot.label(_TODAY[topology.key]).judge_bool(rows, topology.values.__contains__)
            conflict |= ~(same | (lacks & today))
        conflict &= placed
        return BatchVerdict({CONFLICT: conflict}, conflict)

    def _unbound(self, claim: Object) -> str:
        """What is wrong with a claim without a volume; empty where it waits for its first pod."""
        name = class_of(claim)
        if not name:
            return NO_CLASS
        if self._lister.get(StorageClass, name) is None:
            return not_found("storageclass.storage.k8s.io", name)
        return "" if waits_for_consumer(claim, self._lister) else NO_NAME


def _topologies(volume: Object) -> list[_Topology]:
    """The labels that say where the volume is; one that cannot be read says nothing."""
    labels = meta.labels_of(volume)
    split = {key: [zone.strip() for zone in labels[key].split(_DELIMITER)] for key in _TODAY if key in labels}
    return [_Topology(key, frozenset(zones)) for key, zones in split.items() if all(zones)]
