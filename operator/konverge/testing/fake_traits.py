"""What the fake API server knows of a resource without a schema, and how it words its refusals."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from konverge.errors import ApiError
from konverge.model import resource as builtin
from konverge.model.resource import ResourceType


class Traits(NamedTuple):
    """`status`: it has a status subresource; `generation`: it counts spec changes; `builtin`: no custom resource.

    `unconditional`: a replace without resourceVersion is accepted.
    """

    status: bool = True
    generation: bool = True
    builtin: bool = False
    unconditional: bool = False


_NO_STATUS: Final = frozenset({
    builtin.ConfigMap, builtin.Secret, builtin.ServiceAccount, builtin.Event, builtin.Lease, builtin.PriorityClass,
    builtin.Role, builtin.RoleBinding, builtin.StorageClass, builtin.NetworkPolicy, builtin.CSIDriver, builtin.CSINode,
    builtin.CSIStorageCapacity,
})  # fmt: skip
_NO_GENERATION: Final = frozenset({
    builtin.ConfigMap, builtin.Secret, builtin.ServiceAccount, builtin.Event, builtin.Lease, builtin.Namespace,
    builtin.Node, builtin.PersistentVolume, builtin.PersistentVolumeClaim, builtin.Role, builtin.RoleBinding,
    builtin.Service, builtin.StorageClass, builtin.CSIDriver, builtin.CSINode, builtin.CSIStorageCapacity,
    builtin.VolumeAttachment,
})  # fmt: skip
_BUILT_IN: Final = frozenset(value for value in vars(builtin).values() if isinstance(value, ResourceType))
_GUARDED: Final = frozenset({builtin.Lease, builtin.CustomResourceDefinition})

_FIELDS: Final[Mapping[ResourceType, frozenset[str]]] = {
    builtin.Pod: frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    builtin.Node: frozenset({"spec.unschedulable"}),
    builtin.Namespace: frozenset({"status.phase"}),
    builtin.Secret: frozenset({"type"}),
    builtin.Job: frozenset({"status.successful"}),
    builtin.Event: frozenset({"reason", "type", "reportingController", "regarding.kind", "regarding.name", "regarding.uid"}),
}  # fmt: skip

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
MAX_NAME: Final = 253


def traits_of(resource: ResourceType) -> Traits:
    """The traits of a built-in resource as on the real server; of a custom one those of a CRD with a status."""
    if resource not in _BUILT_IN:
        return Traits()
    return Traits(resource not in _NO_STATUS, resource not in _NO_GENERATION, True, resource not in _GUARDED)


def field_matcher(resource: ResourceType, selector: str) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate for a field selector such as `spec.nodeName=,status.phase!=Failed`. Raises: BadRequest."""
    terms: list[tuple[list[str], str, bool]] = []
    for term in filter(None, selector.split(",")):
        path, operator, value = re.split(r"(!=|==?)", term, maxsplit=1) if "=" in term else (term, "", "")
        known = {"metadata.name", "metadata.namespace"} | _FIELDS.get(resource, frozenset())
        if not operator:
            raise ApiError.of(400, "BadRequest", f"invalid selector: '{selector}'; can't understand '{term}'")
        if path not in known:
            raise ApiError.of(400, "BadRequest", f"field label not supported: {path}")
        terms.append((path.split("."), value, operator != "!="))

    def matches(obj: Mapping[str, Any]) -> bool:
        return all((_text_at(obj, path) == value) is wanted for path, value, wanted in terms)

    return matches


def _text_at(obj: Any, path: list[str]) -> str:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    if isinstance(obj, bool):
        return str(obj).lower()
    return "" if obj is None else str(obj)


def check_name(resource: ResourceType, name: str) -> None:
    """Raises: Invalid when the name cannot be an object's."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        raise invalid(resource, name, f'metadata.name: Invalid value: "{name}": {rule}')


def details(resource: ResourceType, name: str) -> dict[str, Any]:
    """The `details` of a Status about one object."""
    return {"name": name, "group": resource.group, "kind": resource.plural}


def not_found(resource: ResourceType, name: str) -> ApiError:
    """404 for an object."""
    return ApiError.of(404, "NotFound", f'{resource.name} "{name}" not found', details=details(resource, name))


def not_served() -> ApiError:
    """404 for a resource or subresource that is not there."""
    return ApiError.of(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: ResourceType, name: str) -> ApiError:
    """409 on create."""
    message = f'{resource.name} "{name}" already exists'
    return ApiError.of(409, "AlreadyExists", message, details=details(resource, name))


def conflict(resource: ResourceType, name: str, why: str) -> ApiError:
    """409 on a write."""
    message = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return ApiError.of(409, "Conflict", message, details=details(resource, name))


def modified(resource: ResourceType, name: str) -> ApiError:
    """409 because the resourceVersion is not the present one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(resource: ResourceType, name: str, problem: str) -> ApiError:
    """422 by validation."""
    full = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ApiError.of(422, "Invalid", f'{full} "{name}" is invalid: {problem}', details=details(resource, name))


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError.of(400, "BadRequest", message)
