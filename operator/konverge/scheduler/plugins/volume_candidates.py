"""What decides about a pod's claims: claims flow in; out flows, read off volumes and classes, what a `Matcher` needs."""

from collections.abc import Iterable, Sequence
from typing import Final

from konverge.model import meta
from konverge.model.resource import CSIDriver, CSIStorageCapacity, Object, PersistentVolume, StorageClass
from konverge.model.selectors import Selector
from konverge.scheduler.handle import Index, Lister
from konverge.scheduler.plugins.volume_capacity import room_for
from konverge.scheduler.plugins.volume_matching import Candidate, Free, Listed, Matcher, Waiting
from konverge.scheduler.plugins.volume_objects import (
    NO_PROVISIONER,
    SELECTED_NODE,
    asked_of,
    can_hold,
    capacity_of,
    class_of,
    is_available,
    is_meant_for,
    modes_of,
    promised_to,
    spec_of,
    volume_name,
)
from konverge.scheduler.plugins.volume_places import Place, place_of_class, place_of_volume
from konverge.scheduler.plugins.volume_shelf import Shelf


def matcher_of(
    bound: Iterable[Object], waiting: Sequence[Object], lister: Lister, shelf: Shelf | None = None
) -> Matcher:
    """Read what decides about bound claims and about claims that wait for their first pod.

    Without a shelf all volumes of a class are looked through, which is what the shelf must give.
    """
    places = tuple(_bound_place(claim, lister) for claim in bound)
    if not waiting:
        return Matcher(places)
    chosen = [claim for claim in waiting if _selected(claim) is not None]
    looking = sorted((claim for claim in waiting if _selected(claim) is None), key=asked_of)
    return Matcher(places, tuple(_waiting(claim, lister, shelf) for claim in (*chosen, *looking)))


def _selected(claim: Object) -> str | None:
    return meta.annotations_of(claim).get(SELECTED_NODE)


def _bound_place(claim: Object, lister: Lister) -> Place | str:
    volume = lister.get(PersistentVolume, volume_name(claim))
    return volume_name(claim) if volume is None else place_of_volume(volume)


def _waiting(claim: Object, lister: Lister, shelf: Shelf | None) -> Waiting:
    storage_class = lister.get(StorageClass, class_of(claim)) or {}
    provisioner = str(storage_class.get("provisioner") or "")
    selected = _selected(claim)
    meant, free = (None, Listed()) if selected is not None else _volumes(claim, lister, shelf)
    driver = lister.get(CSIDriver, provisioner) if provisioner else None
    room = None
    if driver is not None and spec_of(driver).get("storageCapacity"):
        room = room_for(claim, lister.list(CSIStorageCapacity))
    return Waiting(
        claim=claim,
        selected=selected,
        meant=meant,
        free=free,
        can_provision=provisioner not in {"", NO_PROVISIONER},
        made_in=place_of_class(storage_class),
        room=room,
    )


def _volumes(claim: Object, lister: Lister, shelf: Shelf | None) -> tuple[Candidate | None, Free]:
    """The volume that is promised to the claim, and those that it may choose from without one."""
    if shelf is not None and not spec_of(claim).get("selector"):
        return shelf.meant_for(claim), shelf.free_for(claim)
    fitting = sorted(_fitting(claim, lister), key=lambda volume: (capacity_of(volume), meta.key_of(volume).name))
    meant = [volume for volume in fitting if is_meant_for(volume, claim)]
    free = tuple(Candidate(volume, place_of_volume(volume)) for volume in fitting if _is_free(volume, claim))
    if not meant:
        return None, Listed(free)
    first = min(meant, key=lambda volume: meta.key_of(volume).name)
    return Candidate(first, place_of_volume(first)), Listed(free)


def _fitting(claim: Object, lister: Lister) -> list[Object]:
    """The volumes that could be the claim's own, as far as nodes are not concerned."""
    promised = lister.by_index(PersistentVolume, _TO_BE_HAD, _promise(meta.key_of(claim)))
    found = (*promised, *lister.by_index(PersistentVolume, _TO_BE_HAD, f"class {class_of(claim)}"))
    return [
        volume
        for volume in found
        if can_hold(volume, claim) and (promised_to(volume) is None or is_meant_for(volume, claim))
    ]


def _promise(key: meta.Key) -> str:
    return f"claim {key.namespace}/{key.name}"


def _ways_to_have(volume: Object) -> tuple[str]:
    """How a claim finds the volume: as promised to it, or by class."""
    claim = promised_to(volume)
    return (f"class {class_of(volume)}",) if claim is None else (_promise(claim),)


_TO_BE_HAD: Final = Index("to-be-had", _ways_to_have)


def _is_free(volume: Object, claim: Object) -> bool:
    selector = spec_of(claim).get("selector")
    return (
        promised_to(volume) is None
        and is_available(volume)
        and (not selector or Selector.of(selector).matches(meta.labels_of(volume)))
        and modes_of(claim) <= modes_of(volume)
    )
