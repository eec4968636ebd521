"""NodeVolumeLimits: no node gets more volumes of a driver attached than its CSINode says that it can have.

In flow the claims of the pod at hand and of the pods on a node, and what is attached there still; each volume counts once.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from konverge.model.resource import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from konverge.scheduler.columns import BoolArray, IntArray
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
from konverge.scheduler.limits import Limits
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_attachments import Attached, Ceilings, attached_to, limits_of, volume_of
from konverge.scheduler.plugins.volume_objects import concerns, find_claim, foreign, not_found
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

TOO_MANY: Final = "node(s) exceed max volume count"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the pod would have attached, or what is wrong with its claims."""

    volumes: frozenset[Attached]
    trouble: str


class NodeVolumeLimits(PreFilter, Filter):
    """See the module."""

    name: ClassVar[str] = "NodeVolumeLimits"
    reads = frozenset({PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment})
    events = frozenset(
        {
            ClusterEvent.NODE_DRIVERS_CHANGED,
            ClusterEvent.NODE_ADDED,
            ClusterEvent.POD_GONE,
            ClusterEvent.CLAIM_CHANGED,
            ClusterEvent.ATTACHMENT_CHANGED,
        }
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._lister = handle.lister
        self._ceilings = Ceilings(handle.lister)

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """The pod's claims."""
        return pod.namespace, pod.claims

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A claim of the pod; a pod that left with claims; a volume that was detached; a node that may attach more."""
        match cause:
            case PodChange(old=PodInfo() as gone):
                return bool(gone.claims)
            case ReadChange(resource=resource, old=old, new=new):
                if resource == CSINode:
                    before, now = limits_of(old), limits_of(new)
                    return old is None or any(now.get(driver, limit + 1) > limit for driver, limit in before.items())
                return new is None if resource == VolumeAttachment else concerns(cause, pod)
            case _:
                return True

    def pre_filter(self, state: CycleState, pod: PodInfo, _snapshot: Snapshot, /) -> PreFilterResult:
        """Skip a pod that has nothing attached."""
        if not pod.claims:
            return PreFilterResult(SKIP)
        found: set[Attached] = set()
        trouble = ""
        for used in pod.claims:
            claim = find_claim(used, pod, self._lister)
            if claim is None:
                missing = not_found("persistentvolumeclaim", used.name)
                trouble = trouble or f"looking up PVC {pod.namespace}/{used.name}: {missing}"
                continue
            trouble = trouble or foreign(used, claim, pod)
            found.update(volume_of(claim, self._lister))
        state.write(_Wanted(frozenset(found), trouble))
        return PreFilterResult(SUCCESS if found or trouble else SKIP)

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Reject where a driver would have to attach more than it can."""
        wanted = state.read(_Wanted)
        if wanted is None:
            return SUCCESS
        if wanted.trouble:
            return unresolvable(wanted.trouble)
        limits = limits_of(self._lister.get(CSINode, node.name))
        if not limits.keys() & {volume.driver for volume in wanted.volumes}:
            return SUCCESS
        there = {volume for other in node.pods.values() for volume in self._volumes_of(other)}
        new = wanted.volumes - there
        attached = there | set(attached_to(node.name, self._lister))
        had, added = Counter(each.driver for each in attached), Counter(each.driver for each in new)
        limited = limits.keys() & added.keys()
        too_many = any(had[driver] + added[driver] > limits[driver] for driver in limited)
        return unschedulable(TOO_MANY) if too_many else SUCCESS

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same; pods are looked at one by one only on nodes that could be full."""
        wanted = state.read(_Wanted)
        if wanted is None or wanted.trouble:
            return super().filter_batch(state, pod, snapshot, rows)
        result = self._perhaps_full(wanted, snapshot, rows)
        for index in np.flatnonzero(result).tolist():
            result[index] = self.filter(state, pod, snapshot.node(int(rows[index]))).rejected
        return BatchVerdict({TOO_MANY: result})

    def limits(self, state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Limits:
        """Volumes that several pods share are no sum; so this tells only of nodes that cannot be full."""
        wanted = state.read(_Wanted)
        return Limits(unsure=None if wanted is None else self._perhaps_full(wanted, snapshot, rows))

    def _perhaps_full(self, wanted: _Wanted, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """Where a driver would have to attach more than it can, if no two pods shared a volume."""
        result = np.full(len(rows), bool(wanted.trouble))
        at_most = snapshot.claims.counts(rows) + len(wanted.volumes)
        for driver in {volume.driver for volume in wanted.volumes}:
            result |= at_most > self._ceilings.of(driver, snapshot, rows)
        return result

    def _volumes_of(self, pod: PodInfo) -> Iterable[Attached]:
        """The volumes of a pod on a node; what cannot be told of it counts nothing."""
        for used in pod.claims:
            claim = find_claim(used, pod, self._lister)
            if claim is not None and not foreign(used, claim, pod):
                yield from volume_of(claim, self._lister)
