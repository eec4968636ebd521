"""What a raw object says of itself, for people: a Kubernetes object flows in, its summary and its health flow out.

The health is that of kstatus, so that it agrees with `kubectl wait`, Flux and Argo CD: Current, InProgress, Failed or
Terminating, with a text that says why. Pure functions: the debug endpoints use them on cached objects, the command on
objects that it read itself.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from konverge.model import meta
from konverge.model.conditions import STALLED
from konverge.model.resource import Object
from konverge.runtime.readiness import complaint

Status = Literal["Current", "InProgress", "Failed", "Terminating"]

_FAILED: Final = frozenset({STALLED, "Failed"})
_STUCK: Final = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"}
)
"""Reasons of a waiting container that time alone seldom cures."""


class Health(NamedTuple):
    """Where an object stands, and why, as far as it is not Current."""

    status: Status
    why: str = ""


def summarize(obj: Object) -> dict[str, Any]:
    """The object's metadata and status as `explain` shows them. Secrets and specs are left out."""
    metadata, status = obj["metadata"], _status(obj)
    health = health_of(obj)
    return {
        "uid": meta.uid_of(obj),
        "resourceVersion": meta.resource_version(obj),
        "generation": meta.generation_of(obj),
        "observedGeneration": status.get("observedGeneration"),
        "created": metadata.get("creationTimestamp"),
        "deleting": metadata.get("deletionTimestamp"),
        "finalizers": list(meta.finalizers_of(obj)),
        "owner": (owner := meta.controller_of(obj)) and f"{owner['kind']}/{owner['name']}",
        "phase": status.get("phase"),
        "phaseSince": status.get("phaseSince"),
        "conditions": [dict(condition) for condition in status.get("conditions") or ()],
        "health": health.status,
        "why": health.why,
    }


def summarize_child(obj: Object) -> dict[str, Any]:
    """One line on a child: its kind, name and health."""
    key, health = meta.key_of(obj), health_of(obj)
    return {
        "kind": obj.get("kind", ""),
        "namespace": key.namespace,
        "name": key.name,
        "health": health.status,
        "why": health.why,
    }


def health_of(obj: Object) -> Health:
    """Judge any object: by the rules of its kind where it is a known one, else by its conditions."""
    if meta.is_deleting(obj):
        held = ", ".join(meta.finalizers_of(obj))
        return Health("Terminating", f"waits for the finalizers {held}" if held else "")
    why = complaint(obj)
    if not why:
        return Health("Current")
    failure = _failure(_status(obj))
    return Health("Failed", failure) if failure else Health("InProgress", why)


def _status(obj: Object) -> Mapping[str, Any]:
    return obj.get("status") or {}


def _failure(status: Mapping[str, Any]) -> str:
    """What time alone will not cure; empty where there is no such thing."""
    conditions = status.get("conditions") or ()
    for condition in conditions:
        failed = condition.get("type") in _FAILED and condition.get("status") == "True"
        if failed or condition.get("reason") == "ProgressDeadlineExceeded":
            return _told(condition)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return f"container {container.get('name')}: {_told(waiting)}"
    if status.get("phase") in {"Failed", "Lost"}:
        return str(status.get("message") or status.get("reason") or f"phase {status['phase']}")
    return ""


def _told(condition: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (str(condition.get("reason") or ""), str(condition.get("message") or ""))))
