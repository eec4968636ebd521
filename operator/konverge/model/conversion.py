"""One object in another version of its kind: objects flow in, and a ConversionReview; the converted ones flow out.

Each version but the hub is a spoke, with two functions between its spec and the hub's, as static methods:

    class WebV1Alpha1(CustomResource[OldSpec, Status], hub=Web, version="v1alpha1"):
        @staticmethod
        def to_hub(spec: OldSpec) -> WebSpec: ...
        @staticmethod
        def from_hub(spec: WebSpec) -> OldSpec: ...

They may return the fields in a dict instead of a model: then bounds are left to the API server, so that a stored object
that breaks one stays readable. The status is carried over as it is, or by `status_to_hub` and `status_from_hub`.

Nothing is lost on the way there and back. After each step the way back is tried, and what it does not give back is kept
in an annotation of the result, with what stood in its place. On the real way back it is put there again, unless the
place holds something else by then: an edit in the other version goes before what was remembered. Without a loss there
is no annotation. Lists are remembered item by item where the model says by which key (`ListMap`), else as a whole.

Who may write an object may write the annotation too, and so put past the schema of another version what its author could
not write directly; the operator's models still refuse it, as with any object that is older than its schema.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, cast

from pydantic import BaseModel, ValidationError

from konverge.errors import ManifestError
from konverge.model import meta
from konverge.model.definition import ResourceClass, schema_of, versions_of
from konverge.model.leaves import Schema
from konverge.model.lenient import lenient, wire
from konverge.model.resource import Object
from konverge.model.schema import LIST_KEYS

ANNOTATION: Final = "konverge.dev/conversion-data"
"""What the object's present version cannot hold, as JSON, by the version that can."""

REVIEW: Final = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}

Json: TypeAlias = dict[str, Any]
Registry: TypeAlias = Mapping[tuple[str, str], ResourceClass]
"""Hubs by group and kind."""

_STANDARD: Final = ("observedGeneration", "conditions", "phase", "phaseSince")


class _Spoke(Protocol):
    @staticmethod
    def to_hub(spec: Any, /) -> BaseModel | Mapping[str, Any]: ...

    @staticmethod
    def from_hub(spec: Any, /) -> BaseModel | Mapping[str, Any]: ...


def registry_of(classes: Iterable[ResourceClass]) -> Registry:
    """Those of `classes` that have several versions, by hub."""
    hubs = {cls.hub or cls for cls in classes}
    return {(hub.resource.group, hub.resource.kind): hub for hub in hubs if hub.spokes}


def convert_review(review: Mapping[str, Any], registry: Registry) -> Json:
    """Answer a ConversionReview. One object that cannot be converted fails the review; the message names it.

    Raises: ManifestError when `review` is none.
    """
    request = review.get("request")
    if any(review.get(key) != value for key, value in REVIEW.items()) or not isinstance(request, Mapping):
        raise ManifestError(
            "ConversionReview", "", ["it is no apiextensions.k8s.io/v1 ConversionReview with a request"]
        )
    response: Json = {"uid": request.get("uid", "")}
    try:
        wanted = str(request["desiredAPIVersion"])
        response["convertedObjects"] = [_convert_any(obj, registry, wanted) for obj in request["objects"]]
        response["result"] = {"status": "Success"}
    except KeyError as error:
        response |= _failure(f"the ConversionReview has no {error}")
    except ManifestError as error:
        response |= _failure(str(error))
    return {**REVIEW, "response": response}


def convert(obj: Object, version: str, hub: ResourceClass) -> Json:
    """`obj` in `version`, through the hub. Of its metadata, only the annotation of ours may differ.

    Raises: ManifestError that names the object, the versions, and the field where it can be told.
    """
    classes = {each.resource.version: each for each in versions_of(hub)}
    present = str(obj["apiVersion"]).rpartition("/")[2]
    unknown = [each for each in (present, version) if each not in classes]
    if unknown:
        problem = f"there is no version {unknown[0]} of it; there are {', '.join(classes)}"
        raise ManifestError(hub.resource.kind, _name(obj), [problem])
    source, target, result = classes[present], classes[version], dict(obj)
    if source is not target:
        if source is not hub:
            result = _step(result, source, hub)
        if target is not hub:
            result = _step(result, hub, target)
    return result


def _convert_any(obj: Object, registry: Registry, wanted: str) -> Json:
    kind = str(obj["kind"])
    group, _, version = wanted.rpartition("/")
    hub = registry.get((group, kind))
    if hub is None or not str(obj["apiVersion"]).startswith(f"{group}/"):
        known = ", ".join(f"{kind} of {group}" for group, kind in registry) or "nothing"
        problem = f"{obj['apiVersion']} cannot be converted to {wanted}; this operator converts {known}"
        raise ManifestError(kind, _name(obj), [problem])
    return convert(obj, version, hub)


def _failure(message: str) -> Json:
    return {"convertedObjects": [], "result": {"status": "Failure", "message": message}}


def _step(obj: Json, source: ResourceClass, target: ResourceClass) -> Json:
    """One step between the hub and a spoke."""
    before = {part: obj[part] for part in ("spec", "status") if obj.get(part) is not None}
    kept = _kept(obj)
    name = f"{source.resource.version} to {target.resource.version}"
    try:
        after = _translated(before, source, target)
        for entry in kept.pop(target.resource.version, ()):
            _restore(after, entry)
        back = _translated(after, target, source)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = [
            f"{name}: {_where(error.title, problem['loc'], source, target)}: {problem['msg']}" for problem in details
        ]
        raise ManifestError(source.resource.kind, _name(obj), problems) from error
    except Exception as error:
        problem = f"{name}: the conversion raised {type(error).__name__}: {error}"
        raise ManifestError(source.resource.kind, _name(obj), [problem]) from error
    schema = _schema(source)  # type: ignore[arg-type]  # mypy does not see that a generic class has a hash
    kept[source.resource.version] = list(_lost(back, before, schema, ()))
    metadata = _annotated(obj["metadata"], {version: entries for version, entries in kept.items() if entries})
    rest = {key: value for key, value in obj.items() if key not in before}
    return {**rest, "apiVersion": target.resource.api_version, "metadata": metadata, **after}


@lru_cache
def _schema(cls: ResourceClass) -> Schema:
    return schema_of(cls)


def _translated(parts: Json, source: ResourceClass, target: ResourceClass) -> Json:
    spoke, to, status_name = (
        (source, "to_hub", "status_to_hub") if source.hub else (target, "from_hub", "status_from_hub")
    )
    hooks = cast("type[_Spoke]", spoke)
    function = hooks.to_hub if to == "to_hub" else hooks.from_hub
    spec = _fields(function(lenient(source.spec_type, parts.get("spec", {}))), target.spec_type)
    result: Json = {"spec": spec} if spec or "spec" in parts else {}
    if "status" in parts:
        status_function = getattr(spoke, status_name, None)
        status = deepcopy(parts["status"])
        if status_function is not None:
            own = _fields(status_function(lenient(source.status_type, status)), target.status_type)
            status = own | {key: status[key] for key in _STANDARD if key in status}
        result["status"] = status
    return result


def _fields(result: BaseModel | Mapping[str, Any], model: type[BaseModel]) -> Json:
    return wire(result if isinstance(result, BaseModel) else lenient(model, result))


def _where(model: str, loc: Sequence[object], *versions: ResourceClass) -> str:
    """The field that a model refused; below the model's name where it is only a part of a spec or status."""
    roots = {each.spec_type.__name__: "spec" for each in versions} | {
        each.status_type.__name__: "status" for each in versions
    }
    return ".".join([roots.get(model, model), *map(str, loc)])


def _name(obj: Object) -> str:
    """What to call an object that may not have its name yet."""
    metadata = obj.get("metadata", {})
    return str(meta.key_of(obj)) if "name" in metadata else f"{metadata.get('generateName', '')}(new)"


def _lost(back: Any, old: Any, schema: Schema, path: tuple[Any, ...]) -> Iterator[Json]:
    """What must change in `back` to make it `old`: at each path, what it `was` and which `value` it should have."""
    if isinstance(back, Mapping) and isinstance(old, Mapping):
        for key in sorted({*back, *old}):
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            if key not in old:
                yield {"path": [*path, key], "was": back[key]}
            elif key not in back:
                yield {"path": [*path, key], "value": old[key]}
            else:
                yield from _lost(back[key], old[key], inner, (*path, key))
    elif (keys := _item_keys(back, schema)) and keys == _item_keys(old, schema):
        for key, one, other in zip(keys, back, old, strict=True):
            yield from _lost(
                one, other, schema.get("items", {}), (*path, dict(zip(schema[LIST_KEYS], key, strict=True)))
            )
    elif not _same(back, old):
        yield {"path": [*path], "was": back, "value": old}


def _item_keys(items: Any, schema: Schema) -> list[tuple[Any, ...]]:
    """What identifies each item of a list with keys; empty when there is no telling."""
    names = schema.get(LIST_KEYS)
    if not names or not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return []
    keys = [tuple(item.get(name) for name in names) for item in items]
    return keys if len({_text(key) for key in keys}) == len(keys) else []


def _restore(parts: Json, entry: Any) -> None:
    """Put back what `entry` remembers, where `parts` still holds what stood in its place."""
    match entry:
        case {"path": [*above, str(last)]}:
            holder = _holder(parts, above)
        case _:
            return
    if holder is None or not _same(entry.get("was"), holder.get(last)):
        return
    if "value" in entry:
        holder[last] = entry["value"]
    else:
        holder.pop(last, None)


def _holder(parts: Json, path: Sequence[Any]) -> Json | None:
    """The object at `path`, None when there is none any more."""
    at: Any = parts
    for step in path:
        if isinstance(step, str) and isinstance(at, dict):
            at = at.get(step)
        elif isinstance(step, dict) and isinstance(at, list):
            at = next((item for item in at if isinstance(item, dict) and step.items() <= item.items()), None)
        else:
            return None
    return at if isinstance(at, dict) else None


def _kept(obj: Object) -> dict[str, list[Any]]:
    """The annotation's content; empty when there is none, or none that was written here."""
    try:
        content = json.loads(meta.annotations_of(obj).get(ANNOTATION, "{}"))
    except json.JSONDecodeError:
        return {}
    if not isinstance(content, dict):
        return {}
    return {version: entries for version, entries in content.items() if isinstance(entries, list)}


def _annotated(metadata: Mapping[str, Any], kept: Mapping[str, Any]) -> Json:
    """The metadata with the annotation as it has to be."""
    annotations = dict(metadata.get("annotations") or {})
    if not kept and ANNOTATION not in annotations:
        return dict(metadata)
    annotations.pop(ANNOTATION, None)
    annotations |= {ANNOTATION: _text(kept)} if kept else {}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return rest | ({"annotations": annotations} if annotations else {})


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: unlike in Python, 1 is neither true nor 1.0."""
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
