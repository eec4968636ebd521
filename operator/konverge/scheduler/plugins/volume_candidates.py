"""What decides about a pod's claims: claims flow in; out flows, read off volumes and classes, what a `Matcher` needs."""

from collections.abc import Iterable, Sequence
from typing import Final

from konverge.model import meta
from konverge.model.resource import CSIDriver, CSIStorageCapacity, Object, PersistentVolume, StorageClass
from konverge.model.selectors import Selector
from konverge.scheduler.handle import Index, Lister
from konverge.scheduler.plugins.volume_capacity import room_for
from konverge.scheduler.plugins.volume_matching import Candidate, Matcher, Waiting
from konverge.scheduler.plugins.volume_objects import (
    NO_PROVISIONER,
    SELECTED_NODE,
    asked_of,
    capacity_of,
    class_of,
    is_meant_for,
    spec_of,
    volume_name,
)
from konverge.scheduler.plugins.volume_places import Place, place_of_class, place_of_volume


def matcher_of(bound: Iterable[Object], waiting: Sequence[Object], lister: Lister) -> Matcher:
    """Read what decides about bound claims and about claims that wait for their first pod."""
    places = tuple(_bound_place(claim, lister) for claim in bound)
    if not waiting:
        return Matcher(places)
    chosen = [claim for claim in waiting if _selected(claim) is not None]
    looking = sorted((claim for claim in waiting if _selected(claim) is None), key=asked_of)
    return Matcher(places, tuple(_waiting(claim, lister) for claim in (*chosen, *looking)))


def _selected(claim: Object) -> str | None:
    return meta.annotations_of(claim).get(SELECTED_NODE)


def _bound_place(claim: Object, lister: Lister) -> Place | str:
    volume = lister.get(PersistentVolume, volume_name(claim))
    return volume_name(claim) if volume is None else place_of_volume(volume)


def _waiting(claim: Object, lister: Lister) -> Waiting:
    storage_class = lister.get(StorageClass, class_of(claim)) or {}
    provisioner = str(storage_class.get("provisioner") or "")
    selected = _selected(claim)
    fitting = [] if selected is not None else _fitting(claim, lister)
    meant = next((volume for volume in fitting if is_meant_for(volume, claim)), None)
    free = sorted((volume for volume in fitting if _is_free(volume, claim)), key=capacity_of)
    driver = lister.get(CSIDriver, provisioner) if provisioner else None
    room = None
    if driver is not None and spec_of(driver).get("storageCapacity"):
        room = room_for(claim, lister.list(CSIStorageCapacity))
    return Waiting(
        claim=claim,
        selected=selected,
        meant=Candidate(meant, place_of_volume(meant)) if meant else None,
        free=tuple(Candidate(volume, place_of_volume(volume)) for volume in free),
        can_provision=provisioner not in {"", NO_PROVISIONER},
        made_in=place_of_class(storage_class),
        room=room,
    )


def _fitting(claim: Object, lister: Lister) -> list[Object]:
    """The volumes of the claim's class that could be its own, as far as nodes are not concerned."""
    name, wanted, asked = class_of(claim), spec_of(claim), asked_of(claim)
    promised = lister.by_index(PersistentVolume, _TO_BE_HAD, _promise(meta.key_of(claim)))
    return [
        volume
        for volume in (*promised, *lister.by_index(PersistentVolume, _TO_BE_HAD, f"class {name}"))
        if class_of(volume) == name
        and (not (spec := spec_of(volume)).get("claimRef") or is_meant_for(volume, claim))
        and not meta.is_deleting(volume)
        and capacity_of(volume) >= asked
        and (spec.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and (spec.get("volumeAttributesClassName") or "") == (wanted.get("volumeAttributesClassName") or "")
    ]


def _promise(key: meta.Key) -> str:
    return f"claim {key.namespace}/{key.name}"


def _ways_to_have(volume: Object) -> tuple[str]:
    """How a claim finds the volume: as promised to it, or by class."""
    ref = spec_of(volume).get("claimRef")
    if not ref:
        return (f"class {class_of(volume)}",)
    return (_promise(meta.Key(ref.get("namespace") or "", ref.get("name") or "")),)


_TO_BE_HAD: Final = Index("to-be-had", _ways_to_have)


def _is_free(volume: Object, claim: Object) -> bool:
    wanted, spec = spec_of(claim), spec_of(volume)
    return (
        not is_meant_for(volume, claim)
        and (volume.get("status") or {}).get("phase") == "Available"
        and (not wanted.get("selector") or Selector.of(wanted["selector"]).matches(meta.labels_of(volume)))
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
    )
