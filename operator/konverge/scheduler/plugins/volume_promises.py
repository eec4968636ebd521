"""What a pod's node needs written about its volumes: a plan flows in, patches and whether they came to something flow out."""

from dataclasses import dataclass
from typing import Any

from konverge.errors import SchedulingError
from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume, PersistentVolumeClaim, ResourceType
from konverge.scheduler.handle import Lister
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_matching import Plan
from konverge.scheduler.plugins.volume_objects import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    fully_bound,
    is_meant_for,
    not_found,
    spec_of,
    volume_name,
)
from konverge.scheduler.plugins.volume_places import is_in, place_of_volume


@dataclass(frozen=True, slots=True)
class Promise:
    """The objects of a plan as they will be."""

    bindings: tuple[tuple[Object, Object], ...]
    """Claims, each with its volume, which names it."""
    provisions: tuple[Object, ...]
    """Claims that name the node for which their volume is to be made."""
    changed: tuple[tuple[ResourceType, Object], ...]
    """Those of them that the server does not have so yet."""


def promise_of(plan: Plan, node_name: str) -> Promise:
    """What carrying out the plan on its node means."""
    bindings = tuple((claim, _bound_to(volume, claim)) for claim, volume in plan.bindings)
    provisions = tuple(_with_annotation(claim, SELECTED_NODE, node_name) for claim in plan.provisions)
    volumes = zip((volume for _, volume in plan.bindings), (volume for _, volume in bindings), strict=True)
    claims = zip(plan.provisions, provisions, strict=True)
    return Promise(
        bindings,
        provisions,
        (
            *((PersistentVolume, after) for before, after in volumes if after is not before),
            *((PersistentVolumeClaim, after) for before, after in claims if after is not before),
        ),
    )


def patch_of(obj: Object) -> dict[str, Any]:
    """The merge patch that makes a changed object so, if nobody wrote to it since it was read."""
    annotations = meta.annotations_of(obj)
    ours = {name: annotations[name] for name in (BOUND_BY_CONTROLLER, SELECTED_NODE) if name in annotations}
    patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version(obj), "annotations": ours}}
    if "claimRef" in spec_of(obj):
        patch["spec"] = {"claimRef": obj["spec"]["claimRef"]}
    return patch


def is_kept(promise: Promise, node: NodeInfo, lister: Lister) -> bool:
    """Whether all claims have their volumes, where the node reaches them.

    Raises: SchedulingError when that cannot come to be any more.
    """
    bound = True
    for claim, volume in promise.bindings:
        name = meta.key_of(volume).name
        now = lister.get(PersistentVolume, name)
        if now is None:
            raise SchedulingError(f"failed to check binding: {not_found('persistentvolume', name)}")
        _check_place(now, node)
        if not (spec_of(now).get("claimRef") or {}).get("uid"):
            raise SchedulingError(f'ClaimRef got reset for pv "{name}"')
        bound &= fully_bound(_current(claim, "binding", lister))
    for claim in promise.provisions:
        current = _current(claim, "provisioning pvc", lister)
        if meta.annotations_of(current).get(SELECTED_NODE) != node.name:
            raise SchedulingError(f'provisioning failed for PVC "{meta.key_of(claim).name}"')
        made = lister.get(PersistentVolume, volume_name(current))
        if made is not None:
            _check_place(made, node)
        bound &= fully_bound(current) and made is not None
    return bound


def _current(claim: Object, what: str, lister: Lister) -> Object:
    key = meta.key_of(claim)
    current = lister.get(PersistentVolumeClaim, key.name, key.namespace)
    if current is None:
        raise SchedulingError(f"failed to check {what}: {not_found('persistentvolumeclaim', key.name)}")
    return current


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
