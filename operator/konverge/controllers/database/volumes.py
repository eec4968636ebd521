"""The volumes of a Database: its spec and the claims that are there flow in, the patches that they need flow out.

The StatefulSet controller makes the claims and never changes them again, and a StatefulSet's own template for them cannot
be changed: so a larger size is patched into the claims, and the StatefulSet is made anew around its running pods.

What becomes of the claims is decided when the Database goes, not by the StatefulSet's retention policy: that would
delete the data too when the StatefulSet alone is deleted, by hand or to be made anew.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from konverge.controllers.database.models import Database
from konverge.controllers.database.names import MAX_REPLICAS, Names
from konverge.model import meta
from konverge.model.quantity import parse_quantity
from konverge.model.resource import Object

Patch = dict[str, Any]
NO_CLASS: Final = ""


class Volumes(NamedTuple):
    """What a look at the claims showed.

    `small`: claims that ask for less than the spec; `pending`: for a person, which volumes are not as large yet as
    asked for; `size`: the smallest size that a volume has, None while none is known.
    """

    small: tuple[Object, ...]
    pending: tuple[str, ...]
    size: str | None


def mine(database: Database, claims: Iterable[Object]) -> list[Object]:
    """The claims of this Database's pods, also those of pods that were scaled away, in the order of the pods."""
    names = {Names(database.name).claim(ordinal): ordinal for ordinal in range(MAX_REPLICAS)}
    found = [claim for claim in claims if meta.key_of(claim).name in names and not meta.is_deleting(claim)]
    return sorted(found, key=lambda claim: names[meta.key_of(claim).name])


def look(database: Database, claims: Iterable[Object]) -> Volumes:
    """Compare the claims of the wanted pods with the spec. One of a pod that was scaled away grows when it is back."""
    names = {Names(database.name).claim(ordinal) for ordinal in range(database.spec.replicas)}
    wanted = database.spec.storage.size
    used = [claim for claim in mine(database, claims) if meta.key_of(claim).name in names]
    sizes = [(claim, _capacity(claim)) for claim in used]
    known = [size for _, size in sizes if size is not None]
    return Volumes(
        small=tuple(claim for claim in used if _is_less(_requested(claim), wanted)),
        pending=tuple(
            f"{meta.key_of(claim).name} has {size} of {wanted}"
            for claim, size in sizes
            if size is not None and _is_less(size, wanted)
        ),
        size=min(known, key=parse_quantity, default=None),
    )


def growth(claim: Object, size: str) -> Patch:
    """The patch that asks for a larger volume; refused when the claim changed meanwhile."""
    return _guarded(claim, {"spec": {"resources": {"requests": {"storage": size}}}})


def class_of(claim: Object) -> str:
    """The StorageClass of a claim, empty for a volume that a person made."""
    return str((claim.get("spec") or {}).get("storageClassName") or NO_CLASS)


def obstacle(claim: Object, storage_class: Object | None) -> str | None:
    """Why the volume of `claim` cannot grow, as a sentence for a person; None when it can."""
    name = class_of(claim)
    claimed = f"volume claim {meta.key_of(claim).name}"
    if name == NO_CLASS:
        return f"{claimed} has no StorageClass, so its volume cannot grow"
    if storage_class is None:
        return f"the StorageClass {name} of {claimed} is not there; make it, with allowVolumeExpansion: true"
    if storage_class.get("allowVolumeExpansion") is not True:
        return (
            f"the StorageClass {name} does not let volumes grow; set allowVolumeExpansion: true on it if its driver can"
        )
    return None


def template_size(database: Database, stateful_set: Object | None) -> str:
    """The size of the volumes that a live StatefulSet makes, which nothing but a new one can change; else the spec's."""
    templates = ((stateful_set or {}).get("spec") or {}).get("volumeClaimTemplates") or ()
    return _requested(templates[0]) if templates else str(database.spec.storage.size)


def handover(database: Database, claim: Object) -> Patch | None:
    """The patch that ties a claim to the Database, so that it goes with it, or that cuts all ties; None when it is so."""
    others = [owner for owner in meta.owners_of(claim) if owner.get("kind") not in {"StatefulSet", "Database"}]
    tied = database.spec.deletion_policy == "Delete"
    owners = [*others, meta.owner_reference(database.raw)] if tied else others
    if owners == list(meta.owners_of(claim)):
        return None
    return _guarded(claim, {"metadata": {"ownerReferences": owners}})


def _guarded(claim: Object, patch: Mapping[str, Any]) -> Patch:
    metadata = {**patch.get("metadata", {}), "resourceVersion": meta.resource_version(claim)}
    return {**patch, "metadata": metadata}


def _requested(claim: Mapping[str, Any]) -> str:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return str((resources.get("requests") or {}).get("storage") or "0")


def _capacity(claim: Object) -> str | None:
    return ((claim.get("status") or {}).get("capacity") or {}).get("storage")


def _is_less(one: str, other: str) -> bool:
    return parse_quantity(one) < parse_quantity(other)
