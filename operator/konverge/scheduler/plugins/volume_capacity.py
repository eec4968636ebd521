"""Where a driver has room for another volume: a claim and CSIStorageCapacities flow in, places flow out."""

from collections.abc import Iterable
from math import ceil

from konverge.model.quantity import to_value
from konverge.model.resource import Object
from konverge.scheduler.plugins.volume_objects import asked_of, class_of, spec_of
from konverge.scheduler.plugins.volume_places import Place, place_of_selector

Room = tuple[Place, ...]
"""Any of these."""


def has_grown(old: Object | None, new: Object) -> bool:
    """Whether a CSIStorageCapacity is new, or has room for a larger volume than before."""
    before, now = _largest(old) if old else None, _largest(new)
    return old is None or (now is not None and (before is None or now > before))


def room_for(claim: Object, capacities: Iterable[Object]) -> Room | None:
    """The places with room for the claim's volume; None for a claim that names no size."""
    if "storage" not in ((spec_of(claim).get("resources") or {}).get("requests") or {}):
        return None
    name, asked = class_of(claim), ceil(asked_of(claim))
    return tuple(
        place_of_selector(each.get("nodeTopology"))
        for each in capacities
        if each.get("storageClassName") == name and (largest := _largest(each)) is not None and largest >= asked
    )


def _largest(capacity: Object) -> int | None:
    """The bytes of the largest volume that can be made there; None where that is not said."""
    limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return None if limit is None else to_value(limit)
