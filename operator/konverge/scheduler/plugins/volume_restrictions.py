"""VolumeRestrictions: no two pods use a disk that only one can have, nor a claim that is for one pod in the cluster."""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from konverge.model.resource import PersistentVolumeClaim
from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, PodChange, ReadChange
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
    unschedulable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_objects import concerns, find_claim, not_found, spec_of
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

DISK_CONFLICT: Final = "node(s) had no available disk"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

Volume = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The pod's volumes that are disks, and whether another pod has a claim that is for one pod only."""

    disks: tuple[Volume, ...]
    in_use: bool


class VolumeRestrictions(PreFilter, Filter):
    """See the module."""

    name: ClassVar[str] = "VolumeRestrictions"
    reads = frozenset({PersistentVolumeClaim})
    events = frozenset({ClusterEvent.POD_GONE, ClusterEvent.NODE_ADDED, ClusterEvent.CLAIM_CHANGED})

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._lister = handle.lister

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """The pod's claims and disks."""
        disks = json.dumps(_disks_of(pod), sort_keys=True)
        return pod.namespace, pod.claims, disks

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A claim of the pod; a pod that left with one of its claims or disks; any new node."""
        match cause:
            case ReadChange():
                return concerns(cause, pod)
            case PodChange(old=PodInfo() as gone):
                shared = gone.namespace == pod.namespace and not set(gone.claims).isdisjoint(pod.claims)
                return shared or any(_conflict(one, other) for one in _disks_of(pod) for other in _disks_of(gone))
            case _:
                return True

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Skip a pod with nothing to check; turn away for good one whose claim is not there."""
        in_use = False
        for used in pod.claims:
            if used.ephemeral:
                continue
            claim = find_claim(used, pod, self._lister)
            if claim is None:
                return PreFilterResult(unresolvable(not_found("persistentvolumeclaim", used.name)))
            alone = "ReadWriteOncePod" in (spec_of(claim).get("accessModes") or ())
            in_use |= alone and snapshot.claims.used(pod.namespace, used.name)
        disks = _disks_of(pod)
        if not disks and not in_use:
            return PreFilterResult(SKIP)
        state.write(_Wanted(disks, in_use))
        return PreFilterResult()

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Reject where a pod has the disk, and everywhere if another pod has the claim."""
        wanted = state.read(_Wanted)
        if wanted is None:
            return SUCCESS
        held = [volume for other in node.pods.values() for volume in other.spec.get("volumes") or ()]
        if any(_conflict(volume, other) for volume in wanted.disks for other in held):
            return unschedulable(DISK_CONFLICT)
        return unschedulable(IN_USE) if wanted.in_use else SUCCESS

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same; only disks need a look at each node."""
        wanted = state.read(_Wanted)
        if wanted is None or wanted.disks:
            return super().filter_batch(state, pod, snapshot, rows)
        return BatchVerdict({IN_USE: np.full(len(rows), wanted.in_use, dtype=np.bool_)})


def _disks_of(pod: PodInfo) -> tuple[Volume, ...]:
    return tuple(volume for volume in pod.spec.get("volumes") or () if _DISKS.keys() & volume.keys())


def _conflict(one: Volume, other: Volume) -> bool:
    """Whether both are the same disk, in a way that excludes each other."""
    return any(same(one[kind], other[kind]) for kind, same in _DISKS.items() if one.get(kind) and other.get(kind))


def _same_gce(one: Volume, other: Volume) -> bool:
    return one.get("pdName") == other.get("pdName") and not _both_read(one, other)


def _same_ebs(one: Volume, other: Volume) -> bool:
    return one.get("volumeID") == other.get("volumeID")


def _same_iscsi(one: Volume, other: Volume) -> bool:
    return one.get("iqn") == other.get("iqn") and not _both_read(one, other)


def _same_rbd(one: Volume, other: Volume) -> bool:
    return (
        not set(one.get("monitors") or ()).isdisjoint(other.get("monitors") or ())
        and (one.get("pool"), one.get("image")) == (other.get("pool"), other.get("image"))
        and not _both_read(one, other)
    )


def _both_read(one: Volume, other: Volume) -> bool:
    return bool(one.get("readOnly")) and bool(other.get("readOnly"))


_DISKS: Final = {
    "gcePersistentDisk": _same_gce,
    "awsElasticBlockStore": _same_ebs,
    "iscsi": _same_iscsi,
    "rbd": _same_rbd,
}
"""The volumes that pods name directly, with when two are one disk."""
