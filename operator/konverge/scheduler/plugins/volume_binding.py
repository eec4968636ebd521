"""VolumeBinding: a pod goes where its volumes are, or can be, and is bound only once they are bound.

In flow the pod's claims with the volumes and classes around them; out flow rejections, and on the way to the node the
writes that bind: a volume's claimRef, or the node for which a provisioner is to make the volume.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import Field

from konverge.errors import SchedulingError
from konverge.model import meta
from konverge.model.resource import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceType,
    StorageClass,
)
from konverge.scheduler.columns import IntArray
from konverge.scheduler.events import ClusterEvent
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
from konverge.scheduler.plugins.volume_matching import Matcher, matcher_of
from konverge.scheduler.plugins.volume_objects import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    find_claim,
    foreign,
    fully_bound,
    is_meant_for,
    not_found,
    spec_of,
    volume_name,
    waits_for_consumer,
)
from konverge.scheduler.plugins.volume_places import is_in, place_of_volume
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

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


@dataclass(frozen=True, slots=True)
class _Promised:
    """What the pod's node needs written, as it will be: volumes for claims, and claims that are to get a new volume."""

    bindings: tuple[tuple[Object, Object], ...]
    provisions: tuple[Object, ...]
    assumed: tuple[tuple[ResourceType, Object], ...]


class VolumeBinding(PreFilter, Filter, Reserve, PreBind):
    """See the module."""

    name: ClassVar[str] = "VolumeBinding"
    node_only = True
    Args = VolumeBindingArgs
    reads = frozenset(
        {PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity},
    )
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
        self._timeout = args.bind_timeout_seconds

    # The attempt

    def signature(self, state: CycleState, _pod: PodInfo, /) -> Hashable | None:
        """Where the pod's volumes are, once all are bound; before, other volumes decide as well."""
        claims = state.read(_Claims)
        return claims.matcher.bound if claims and claims.all_bound else None

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
        matcher = matcher_of(filter(fully_bound, claims), unbound, self._lister)
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
        plan = claims.matcher.judge(_node(claims.snapshot, node_name))
        bindings = tuple((claim, _bound_to(volume, claim)) for claim, volume in plan.bindings)
        provisions = tuple(_with_annotation(claim, SELECTED_NODE, node_name) for claim in plan.provisions)
        assumed: list[tuple[ResourceType, Object]] = []
        for (_, before), (_, after) in zip(plan.bindings, bindings, strict=True):
            if after is not before:
                assumed.append((PersistentVolume, after))
        for before, after in zip(plan.provisions, provisions, strict=True):
            if after is not before:
                assumed.append((PersistentVolumeClaim, after))
        for resource, obj in assumed:
            self._lister.assume(resource, obj)
        state.write(_Promised(bindings, provisions, tuple(assumed)))
        return SUCCESS

    def unreserve(self, state: CycleState, _pod: PodInfo, _node_name: str, /) -> None:
        """Give the volumes back that were not written yet."""
        promised = state.read(_Promised)
        for resource, obj in promised.assumed if promised else ():
            self._lister.forget(resource, obj)

    # On the way to the node

    async def pre_bind(self, state: CycleState, _pod: PodInfo, node_name: str, /) -> Verdict:
        """Write what was assumed, and wait until the volumes are bound. Raises: what the writes raise."""
        claims, promised = state.read(_Claims), state.read(_Promised)
        if claims is None or promised is None:
            return SKIP
        for resource, obj in promised.assumed:
            await self._write(resource, obj)
        try:
            bound = await self._handle.until(lambda: self._are_bound(claims, promised, node_name), self._timeout)
        except SchedulingError as error:
            return Verdict(Code.ERROR, (f"binding volumes: {error}",))
        return SUCCESS if bound else Verdict(Code.ERROR, ("binding volumes: context deadline exceeded",))

    async def _write(self, resource: ResourceType, obj: Object) -> None:
        """Write a volume's claimRef, or a claim's node, if nobody wrote to it since it was read."""
        key, annotations = meta.key_of(obj), meta.annotations_of(obj)
        ours = {name: annotations[name] for name in (BOUND_BY_CONTROLLER, SELECTED_NODE) if name in annotations}
        patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version(obj), "annotations": ours}}
        if resource is PersistentVolume:
            patch["spec"] = {"claimRef": obj["spec"]["claimRef"]}
        written = await self._handle.writer.patch(resource, key.name, patch, key.namespace or None)
        self._lister.wrote(resource, written)

    def _are_bound(self, claims: _Claims, promised: _Promised, node_name: str) -> bool:
        """Whether all claims have their volumes. Raises: SchedulingError when that cannot come to be any more."""
        node = _node(claims.snapshot, node_name)
        bound = True
        for claim, volume in promised.bindings:
            now = self._lister.get(PersistentVolume, meta.key_of(volume).name)
            if now is None:
                missing = not_found("persistentvolume", meta.key_of(volume).name)
                raise SchedulingError(f"failed to check binding: {missing}")
            _check_place(now, node)
            if not (spec_of(now).get("claimRef") or {}).get("uid"):
                raise SchedulingError(f'ClaimRef got reset for pv "{meta.key_of(volume).name}"')
            bound &= fully_bound(self._current(claim, "binding"))
        for claim in promised.provisions:
            current = self._current(claim, "provisioning pvc")
            if meta.annotations_of(current).get(SELECTED_NODE) != node_name:
                raise SchedulingError(f'provisioning failed for PVC "{meta.key_of(claim).name}"')
            made = self._lister.get(PersistentVolume, volume_name(current))
            if made is not None:
                _check_place(made, node)
            bound &= fully_bound(current) and made is not None
        return bound

    def _current(self, claim: Object, what: str) -> Object:
        key = meta.key_of(claim)
        current = self._lister.get(PersistentVolumeClaim, key.name, key.namespace)
        if current is None:
            raise SchedulingError(f"failed to check {what}: {not_found('persistentvolumeclaim', key.name)}")
        return current


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


def _check_place(volume: Object, node: NodeInfo) -> None:
    if not is_in(place_of_volume(volume), node):
        name = meta.key_of(volume).name
        raise SchedulingError(
            f'pv "{name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'
        )


def _bound_to(volume: Object, claim: Object) -> Object:
    """The volume with its promise to the claim; the volume itself where that stands already."""
    if not is_meant_for(volume, claim):
        return _with_annotation(_with_claim(volume, claim), BOUND_BY_CONTROLLER, "yes")
    # A person promised it, perhaps not to this very claim but to any of its name.
    named = volume["spec"]["claimRef"].get("uid") == meta.uid_of(claim)
    return volume if named else _with_claim(volume, claim)


def _with_claim(volume: Object, claim: Object) -> Object:
    key = meta.key_of(claim)
    ref = {
        "apiVersion": PersistentVolumeClaim.api_version,
        "kind": PersistentVolumeClaim.kind,
        "namespace": key.namespace,
        "name": key.name,
        "uid": meta.uid_of(claim),
        "resourceVersion": meta.resource_version(claim),
    }
    return {**volume, "spec": {**volume["spec"], "claimRef": ref}}


def _with_annotation(obj: Object, name: str, value: str) -> Object:
    """A copy with that annotation; the object itself where it has it."""
    annotations = meta.annotations_of(obj)
    if annotations.get(name) == value:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, name: value}}}
