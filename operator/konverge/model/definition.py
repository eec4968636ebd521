"""CRDs as dicts: the class of a custom resource flows in, its CustomResourceDefinition flows out.

All versions that name the class as their hub stand in it. More than one calls for a webhook that converts; the stanza
names the Service and no `caBundle`, which is a cluster's and not the repository's.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from konverge.errors import ModelError
from konverge.model.cel import add_rule
from konverge.model.conditions import MAX_MESSAGE
from konverge.model.custom import Column, CustomResource
from konverge.model.fields import check_rule
from konverge.model.leaves import NO_LIST, Schema
from konverge.model.schema import LIST_KEYS, LIST_TYPE, PRESERVE, structural, walk

ResourceClass = type[CustomResource[Any, Any]]

MAX_SIZE: Final = 262_144
"""The bytes of JSON that fit into the annotation in which client-side `kubectl apply` keeps what it applied."""
_COLUMN_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "date"})
_STANDARD_COLUMNS: Final = (
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether all is as desired."),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', description="Why it is, or is not."),
    Column("Age", ".metadata.creationTimestamp", "date"),
)
_PHASE_COLUMN: Final = Column("Phase", ".status.phase", description="Where it stands.")
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")

MAX_SELECTABLE: Final = 8
CONVERT_PATH: Final = "/convert"


@dataclass(frozen=True, slots=True)
class ConversionService:
    """The Service in front of the operator's conversion webhook."""

    namespace: str = "konverge-system"
    name: str = "konverge-conversion"
    port: int = 443


DEFAULT_SERVICE: Final = ConversionService()

CONDITIONS: Final[Schema] = {
    "description": "What was observed of the object: Ready, Reconciling, Stalled and others.",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {
                "description": "What the condition is about, in CamelCase.",
                "type": "string",
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            },
            "status": {"description": "Whether it holds.", "type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {
                "description": "The metadata.generation for which it was set.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "lastTransitionTime": {
                "description": "When the status last changed.",
                "type": "string",
                "format": "date-time",
            },
            "reason": {
                "description": "Why, in one CamelCase word for programs.",
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {"description": "Why, in words for a person.", "type": "string", "maxLength": MAX_MESSAGE},
        },
    },
    LIST_TYPE: "map",
    LIST_KEYS: ["type"],
}
"""The list-map of `metav1.Condition` that every status has."""


def crd_of(cls: ResourceClass, service: ConversionService = DEFAULT_SERVICE) -> dict[str, Any]:
    """The CustomResourceDefinition of a resource class with all its versions; `service` is asked to convert.

    Raises: ModelError that names the class, the field, the rule and the way out.
    """
    hub = cls.hub or cls
    resource, options = hub.resource, hub.crd
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": options.singular,
    }
    names |= {"shortNames": list(options.short_names)} if options.short_names else {}
    names |= {"categories": list(options.categories)} if options.categories else {}
    stored = storage_class(hub)
    spec = {
        "group": resource.group,
        "names": names,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "versions": [_version(each, storage=each is stored) for each in versions_of(hub)],
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": spec | (_conversion(service) if hub.spokes else {}),
    }
    size = len(json.dumps(crd, separators=(",", ":")).encode())
    if size >= MAX_SIZE:
        raise ModelError(
            f"{hub.__name__}: its CRD is {size} bytes of JSON, and kubectl apply takes less than {MAX_SIZE}; "
            "shorten descriptions, or use dict[str, Any] for parts that others define"
        )
    return crd


def versions_of(cls: ResourceClass) -> tuple[ResourceClass, ...]:
    """All versions of a resource, the hub first."""
    hub = cls.hub or cls
    return (hub, *hub.spokes)


def storage_class(cls: ResourceClass) -> ResourceClass:
    """The version in which objects are stored: the hub, unless a spoke says so. Raises: ModelError when several do."""
    hub, *spokes = versions_of(cls)
    stored = [each for each in spokes if each.crd.stored]
    if len(stored) > 1:
        names = " and ".join(each.__name__ for each in stored)
        raise ModelError(f"{hub.__name__}: {names} are both stored=True; one version is stored")
    return stored[0] if stored else hub


def _conversion(service: ConversionService) -> dict[str, Any]:
    where = {"namespace": service.namespace, "name": service.name, "path": CONVERT_PATH, "port": service.port}
    webhook = {"clientConfig": {"service": where}, "conversionReviewVersions": ["v1"]}
    return {"conversion": {"strategy": "Webhook", "webhook": webhook}}


def _version(cls: ResourceClass, *, storage: bool) -> dict[str, Any]:
    _check_names(cls)
    schema = schema_of(cls)
    version: dict[str, Any] = {"name": cls.resource.version, "served": cls.crd.served, "storage": storage}
    version |= {"deprecated": True, "deprecationWarning": cls.crd.deprecated} if cls.crd.deprecated else {}
    version |= {
        "additionalPrinterColumns": [_column(cls, column, schema) for column in _columns(cls)],
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    if cls.crd.scale is not None:
        version["subresources"]["scale"] = _scale(cls, schema)
    if cls.crd.selectable:
        version["selectableFields"] = _selectable(cls, schema)
    return version


def schema_of(cls: ResourceClass) -> Schema:
    """The schema of one version, for whole objects. Raises: ModelError."""
    name = cls.__name__
    spec = structural(cls.spec_type, "spec")
    for rule in cls.crd.rules:
        try:
            check_rule(rule.rule, rule.message)
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
        add_rule(spec, rule.rule, rule.message)
    spec.setdefault("description", f"What the {name} should be.")
    root: Schema = {
        "description": " ".join((cls.__doc__ or f"A {name}.").split("\n\n")[0].split()),
        "type": "object",
        "properties": {
            "apiVersion": {"description": "The version of this schema.", "type": "string"},
            "kind": {"description": "The resource's kind.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _status(cls),
        },
    }
    if "required" in spec:
        root["required"] = ["spec"]
    else:
        # Without it the defaults and rules inside would not apply to an object that leaves the spec out.
        spec["default"] = {}
    return root


def _status(cls: ResourceClass) -> Schema:
    status = structural(cls.status_type, "status", floats=True)
    status.setdefault("description", f"What was observed of the {cls.__name__}.")
    fields = status["properties"]
    fields["observedGeneration"]["format"] = "int64"
    fields["conditions"] = CONDITIONS
    if cls.phases is None:
        del fields["phase"], fields["phaseSince"]
    else:
        fields["phase"]["enum"] = list(cls.phases.names)
        fields["phaseSince"] |= {"format": "date-time", **NO_LIST}
    # An object that nobody looked at yet must read as in progress: no status at all counts as ready for kstatus.
    status["default"] = {"observedGeneration": -1}
    return status


def _columns(cls: ResourceClass) -> list[Column]:
    own = list(cls.crd.columns)
    named = {column.name for column in own}
    standard = list(_STANDARD_COLUMNS)
    if cls.phases is not None and all(column.path != _PHASE_COLUMN.path for column in own):
        standard.insert(0, _PHASE_COLUMN)
    return own + [column for column in standard if column.name not in named]


def _column(cls: ResourceClass, column: Column, schema: Schema) -> dict[str, Any]:
    if column.type not in _COLUMN_TYPES:
        raise ModelError(
            f"{cls.__name__}: column {column.name}: type {column.type!r} is none of {', '.join(sorted(_COLUMN_TYPES))}"
        )
    _check_path(cls, f"column {column.name}", column.path, schema)
    result: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    result |= {"description": column.description} if column.description else {}
    return result | ({"priority": column.priority} if column.priority else {})


def _scale(cls: ResourceClass, schema: Schema) -> dict[str, str]:
    scale = cls.crd.scale
    assert scale is not None
    paths = {"specReplicasPath": scale.spec, "statusReplicasPath": scale.status}
    paths |= {"labelSelectorPath": scale.selector} if scale.selector else {}
    known = dict(walk(schema))
    for key, path in paths.items():
        _check_path(cls, f"scale: {key}", path, schema)
        wanted = "string" if key == "labelSelectorPath" else "integer"
        if known.get(path, {}).get("type") != wanted:
            raise ModelError(
                f"{cls.__name__}: scale: {path} must be of type {wanted}; declare that field, or name another path"
            )
    return paths


def _selectable(cls: ResourceClass, schema: Schema) -> list[dict[str, str]]:
    paths = cls.crd.selectable
    if len(paths) > MAX_SELECTABLE:
        raise ModelError(
            f"{cls.__name__}: {len(paths)} selectable fields, and the server takes {MAX_SELECTABLE}; use labels"
        )
    known = dict(walk(schema))
    for path in paths:
        _check_path(cls, "selectable", path, schema)
        if "[" in path or known.get(path, {}).get("type") not in {"string", "boolean", "integer"}:
            raise ModelError(
                f"{cls.__name__}: selectable: {path} must be a string, an integer or a boolean, outside of lists"
            )
    return [{"jsonPath": path} for path in paths]


def _check_path(cls: ResourceClass, what: str, path: str, schema: Schema) -> None:
    """Refuse a JSONPath whose plain beginning leads nowhere. Filters and indexes are left to the server."""
    current = schema
    for part in path.removeprefix(".").split("[")[0].split("."):
        if PRESERVE in current or "additionalProperties" in current or current is schema["properties"]["metadata"]:
            return
        if not path.startswith(".") or part not in current.get("properties", {}):
            known = ", ".join(current.get("properties", ())) or "nothing"
            raise ModelError(f"{cls.__name__}: {what}: {path} leads nowhere at {part!r}; known there: {known}")
        current = current["properties"][part]


def _check_names(cls: ResourceClass) -> None:
    resource = cls.resource
    if _VERSION.fullmatch(resource.version) is None:
        raise ModelError(f"{cls.__name__}: version {resource.version!r} must look like v1, v1beta1 or v1alpha1")
    for name in (
        resource.plural,
        cls.crd.singular,
        *cls.crd.short_names,
        *cls.crd.categories,
        *resource.group.split("."),
    ):
        if _DNS_LABEL.fullmatch(name) is None:
            raise ModelError(
                f"{cls.__name__}: {name!r} must be lower-case letters, digits and '-', and begin with a letter"
            )
