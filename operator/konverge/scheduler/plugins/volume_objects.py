"""What the volume plugins read off claims, volumes and classes, and the words for what is missing."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from konverge.model import meta
from konverge.model.quantity import parse_quantity
from konverge.model.resource import Object, PersistentVolumeClaim, StorageClass
from konverge.scheduler.claims import UsedClaim
from konverge.scheduler.events import ReadChange
from konverge.scheduler.handle import Lister
from konverge.scheduler.podinfo import PodInfo

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes people make."""

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_WAITS: Final = "WaitForFirstConsumer"


def spec_of(obj: Object) -> Mapping[str, Any]:
    """`spec`, never None."""
    return obj.get("spec") or {}


def class_of(obj: Object) -> str:
    """The name of the StorageClass of a claim or volume, empty for none."""
    return str(meta.annotations_of(obj).get(_BETA_CLASS, spec_of(obj).get("storageClassName") or ""))


def volume_name(claim: Object) -> str:
    """The volume that the claim is bound to, or is to be bound to; empty for none."""
    return str(spec_of(claim).get("volumeName") or "")


def fully_bound(claim: Object) -> bool:
    """Whether the claim has its volume, in both directions."""
    return bool(volume_name(claim)) and BIND_COMPLETED in meta.annotations_of(claim)


def asked_of(claim: Object) -> Fraction:
    """The bytes that the claim asks for."""
    return parse_quantity(((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage") or 0)


def capacity_of(volume: Object) -> Fraction:
    """The bytes that the volume has."""
    return parse_quantity((spec_of(volume).get("capacity") or {}).get("storage") or 0)


def mode_of(obj: Object) -> str:
    """The volume mode of a claim or volume."""
    return str(spec_of(obj).get("volumeMode") or "Filesystem")


def attributes_class_of(obj: Object) -> str:
    """The name of the VolumeAttributesClass of a claim or volume, empty for none."""
    return str(spec_of(obj).get("volumeAttributesClassName") or "")


def modes_of(obj: Object) -> frozenset[str]:
    """The access modes that a claim asks for, or that a volume has."""
    return frozenset(spec_of(obj).get("accessModes") or ())


def promised_to(volume: Object) -> meta.Key | None:
    """The claim that the volume is bound or promised to, if any."""
    ref = spec_of(volume).get("claimRef")
    return meta.Key(ref.get("namespace") or "", ref.get("name") or "") if ref else None


def is_available(volume: Object) -> bool:
    """Whether a claim could take the volume, to which none has a promise."""
    return (volume.get("status") or {}).get("phase") == "Available" and not meta.is_deleting(volume)


def can_hold(volume: Object, claim: Object) -> bool:
    """Whether the volume is of the claim's kind and large enough."""
    return (
        class_of(volume) == class_of(claim)
        and not meta.is_deleting(volume)
        and capacity_of(volume) >= asked_of(claim)
        and mode_of(volume) == mode_of(claim)
        and attributes_class_of(volume) == attributes_class_of(claim)
    )


def waits_for_consumer(claim: Object, lister: Lister) -> bool:
    """Whether the claim's volume is chosen or made only once its first pod has a node."""
    name = class_of(claim)
    found = lister.get(StorageClass, name) if name else None
    return found is not None and waits(found)


def waits(storage_class: Object) -> bool:
    """Whether the volumes of a class are chosen or made so."""
    return storage_class.get("volumeBindingMode") == _WAITS


def is_meant_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is bound, or promised, to that very claim."""
    ref = spec_of(volume).get("claimRef")
    if not ref:
        return False
    key = meta.key_of(claim)
    same = (ref.get("namespace"), ref.get("name")) == (key.namespace, key.name)
    return same and ref.get("uid", meta.uid_of(claim)) in {"", meta.uid_of(claim)}


def not_found(kind: str, name: str) -> str:
    """The API server's words for an object that is not there; `kind` is in lower case."""
    return f'{kind} "{name}" not found'


def find_claim(used: UsedClaim, pod: PodInfo, lister: Lister) -> Object | None:
    """The claim that a pod uses, if it is there."""
    return lister.get(PersistentVolumeClaim, used.name, pod.namespace)


def concerns(cause: ReadChange, pod: PodInfo) -> bool:
    """Whether the claim that came or changed is one of the pod's."""
    if cause.new is None:
        return False
    key = meta.key_of(cause.new)
    return key.namespace == pod.namespace and any(used.name == key.name for used in pod.claims)


def foreign(used: UsedClaim, claim: Object, pod: PodInfo) -> str:
    """What is wrong with the claim of an ephemeral volume that was not made for the pod; empty where nothing is."""
    if not used.ephemeral or (meta.controller_of(claim) or {}).get("uid") == pod.uid:
        return ""
    return f"PVC {pod.namespace}/{used.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
