"""VolumeBinding: a pod goes where its volumes are, or can be, and is bound only once they are bound.

In flow the pod's claims with the volumes and classes around them; out flow rejections, and on the way to the node the
writes that bind: a volume's claimRef, or the node for which a provisioner is to make the volume.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import Field

from konverge.errors import SchedulingError
from konverge.model import meta
from konverge.model.resource import (
    CSIDriver,
    CSIStorageCapacity,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import Cause, ClusterEvent, ReadChange
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    PluginArgs,
    PreBind,
    PreFilter,
    PreFilterResult,
    Reserve,
    Verdict,
    unresolvable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_candidates import matcher_of
from konverge.scheduler.plugins.volume_capacity import has_grown
from konverge.scheduler.plugins.volume_matching import Matcher
from konverge.scheduler.plugins.volume_objects import (
    concerns,
    find_claim,
    foreign,
    fully_bound,
    not_found,
    spec_of,
    volume_name,
    waits_for_consumer,
)
from konverge.scheduler.plugins.volume_promises import Promise, is_kept, patch_of, promise_of
from konverge.scheduler.plugins.volume_shelf import Shelf
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

_OF_CLASS: Final = ("allowedTopologies", "volumeBindingMode", "provisioner")
"""The fields of a StorageClass that decide here. All but the first change only when it is made anew."""

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


class VolumeBindingArgs(PluginArgs):
    """The arguments of VolumeBinding."""

    bind_timeout_seconds: int = Field(default=600, ge=0)
    """How long a pod waits for its volumes before it is tried anew."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims of the pod at hand."""

    matcher: Matcher
    all_bound: bool
    snapshot: Snapshot


class VolumeBinding(PreFilter, Filter, Reserve, PreBind):
    """See the module."""

    name: ClassVar[str] = "VolumeBinding"
    node_only = True
    Args = VolumeBindingArgs
    reads = frozenset({PersistentVolumeClaim, PersistentVolume, StorageClass, CSIDriver, CSIStorageCapacity})
    events = frozenset(
        {
            ClusterEvent.STORAGE_CLASS_CHANGED,
            ClusterEvent.CLAIM_CHANGED,
            ClusterEvent.VOLUME_CHANGED,
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_LABEL,
            ClusterEvent.DRIVER_CHANGED,
            ClusterEvent.STORAGE_CAPACITY_CHANGED,
        }
    )

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle, self._lister = handle, handle.lister
        self._shelf = Shelf(handle.lister)
        self._timeout = args.bind_timeout_seconds

    def signature(self, state: CycleState, _pod: PodInfo, /) -> Hashable | None:
        """Where the pod's volumes are, once all are bound; before, other volumes decide as well."""
        claims = state.read(_Claims)
        return claims.matcher.bound if claims and claims.all_bound else None

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        """The pod's claims."""
        return pod.namespace, pod.claims

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        """A claim of the pod; a class that is new or serves other places; more capacity, or none asked for any more."""
        if not isinstance(cause, ReadChange):
            return True
        resource, old, new = cause.resource, cause.old, cause.new
        if resource == CSIDriver:
            return not _asks_for_capacity(new) and (old is None or _asks_for_capacity(old))
        if new is None or resource == PersistentVolumeClaim:
            return concerns(cause, pod)
        if resource == StorageClass:
            return old is None or any(old.get(field) != new.get(field) for field in _OF_CLASS)
        return resource != CSIStorageCapacity or has_grown(old, new)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Skip a pod without claims; turn away for good one whose claims are not there, lost, or not bound in time."""
        if not pod.claims:
            return PreFilterResult(SKIP)
        claims: list[Object] = []
        for used in pod.claims:
            claim = find_claim(used, pod, self._lister)
            if claim is None:
                missing = not_found("persistentvolumeclaim", used.name)
                waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{used.name}"'
                return PreFilterResult(unresolvable(waiting if used.ephemeral else missing))
            if trouble := _unusable(claim) or foreign(used, claim, pod):
                return PreFilterResult(unresolvable(trouble))
            claims.append(claim)
        unbound = [claim for claim in claims if not fully_bound(claim)]
        if any(volume_name(claim) or not waits_for_consumer(claim, self._lister) for claim in unbound):
            return PreFilterResult(unresolvable(UNBOUND))
        matcher = matcher_of(filter(fully_bound, claims), unbound, self._lister, self._shelf)
        state.write(_Claims(matcher, not unbound, snapshot))
        return PreFilterResult()

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Unresolvable where a volume cannot be reached, found or made."""
        claims = state.read(_Claims)
        plan = claims and claims.matcher.judge(node)
        return unresolvable(*plan.reasons) if plan and plan.reasons else SUCCESS

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same over the label columns."""
        claims = state.read(_Claims)
        reasons = claims and claims.matcher.judge_rows(snapshot, rows)
        if not reasons:
            return super().filter_batch(state, pod, snapshot, rows)
        verdict = BatchVerdict(reasons)
        return BatchVerdict(reasons, verdict.rejected(len(rows)))

    def reserve(self, state: CycleState, _pod: PodInfo, node_name: str, /) -> Verdict:
        """Assume the volumes that the pod takes on its node, so that no other pod takes them."""
        claims = state.read(_Claims)
        if claims is None or claims.all_bound:
            return SUCCESS
        promise = promise_of(claims.matcher.judge(_node(claims.snapshot, node_name)), node_name)
        for resource, obj in promise.changed:
            self._lister.assume(resource, obj)
        state.write(promise)
        return SUCCESS

    def unreserve(self, state: CycleState, _pod: PodInfo, _node_name: str, /) -> None:
        """Give the volumes back that were not written yet."""
        promise = state.read(Promise)
        for resource, obj in promise.changed if promise else ():
            self._lister.forget(resource, obj)

    async def pre_bind(self, state: CycleState, _pod: PodInfo, node_name: str, /) -> Verdict:
        """Write what was assumed, and wait until the volumes are bound. Raises: what the writes raise."""
        claims, promise = state.read(_Claims), state.read(Promise)
        if claims is None or promise is None:
            return SKIP
        for resource, obj in promise.changed:
            key = meta.key_of(obj)
            written = await self._handle.writer.patch(resource, key.name, patch_of(obj), key.namespace or None)
            self._lister.wrote(resource, written)
        try:
            bound = await self._handle.until(
                lambda: is_kept(promise, _node(claims.snapshot, node_name), self._lister), self._timeout
            )
        except SchedulingError as error:
            return Verdict(Code.ERROR, (f"binding volumes: {error}",))
        return SUCCESS if bound else Verdict(Code.ERROR, ("binding volumes: context deadline exceeded",))


def _asks_for_capacity(driver: Object | None) -> bool:
    return bool(driver and spec_of(driver).get("storageCapacity"))


def _unusable(claim: Object) -> str:
    """Why no pod can use the claim; empty where one can."""
    name = meta.key_of(claim).name
    if (claim.get("status") or {}).get("phase") == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name(claim)}"'
    return f'persistentvolumeclaim "{name}" is being deleted' if meta.is_deleting(claim) else ""


def _node(snapshot: Snapshot, name: str) -> NodeInfo:
    row = snapshot.row_of(name)
    if row is None:
        raise SchedulingError(f'failed to get node "{name}": {not_found("node", name)}')
    return snapshot.node(row)
