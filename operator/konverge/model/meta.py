"""Reading `metadata` off raw objects: names, owners, finalizers, versions. Pure functions over parsed JSON."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from konverge.model.resource import Object


class Key(NamedTuple):
    """The identity of an object within its resource; `namespace` is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Object) -> Key:
    """Namespace and name of `obj`."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def resource_version(obj: Object) -> str:
    """`metadata.resourceVersion`, empty when the object has none yet."""
    return str(obj["metadata"].get("resourceVersion") or "")


def is_newer(version: str, than: str) -> bool:
    """Whether resourceVersion `version` came later than `than`.

    Since Kubernetes 1.35 resourceVersions are specified to be comparable as integers of any length (KEP-5504); longer
    is larger, equal lengths compare as text. A version that is no number is taken as newer: the server sent it last.
    """
    if not (version.isdecimal() and than.isdecimal()):
        return version != than
    return (len(version), version) > (len(than), than)


def uid_of(obj: Object) -> str:
    """`metadata.uid`, empty when the object was not yet created."""
    return str(obj["metadata"].get("uid") or "")


def generation_of(obj: Object) -> int:
    """`metadata.generation`, 0 where the resource keeps none."""
    return int(obj["metadata"].get("generation") or 0)


def labels_of(obj: Object) -> Mapping[str, str]:
    """`metadata.labels`, never None."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> Mapping[str, str]:
    """`metadata.annotations`, never None."""
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Object) -> tuple[str, ...]:
    """`metadata.finalizers` in the server's order."""
    return tuple(obj["metadata"].get("finalizers") or ())


def is_deleting(obj: Object) -> bool:
    """Whether deletion was asked for: `metadata.deletionTimestamp` is set."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def owners_of(obj: Object) -> Iterator[Mapping[str, Any]]:
    """The owner references."""
    yield from obj["metadata"].get("ownerReferences") or ()


def controller_of(obj: Object) -> Mapping[str, Any] | None:
    """The one owner reference with `controller: true`, if any."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def owner_reference(owner: Object) -> dict[str, Any]:
    """The controlling owner reference that a child of `owner` carries."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
