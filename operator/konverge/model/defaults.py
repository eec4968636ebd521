"""Whether a default fits its own schema: the server refuses a CRD in which one does not, pydantic does not look."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge.model.patterns import matches

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def violation(value: Any, schema: Schema) -> str:
    """What of `schema` the JSON `value` breaks, in a few words; empty when it fits."""
    if not _has_type(value, schema):
        return f"{value!r} is no {schema.get('type', 'integer or string')}"
    if "enum" in schema:
        return "" if value in schema["enum"] else f"{value!r} is not one of {', '.join(map(str, schema['enum']))}"
    match value:
        case str():
            return _string(value, schema)
        case list():
            return _list(value, schema)
        case dict():
            return _object(value, schema)
        case _:
            return _number(value, schema)


def _string(value: str, schema: Schema) -> str:
    if "pattern" in schema and not matches(schema["pattern"], value):
        return f"{value!r} does not match {schema['pattern']}"
    return _outside(len(value), schema, "minLength", "maxLength", "characters")


def _has_type(value: Any, schema: Schema) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    if "type" not in schema:
        return True
    if isinstance(value, bool):
        return bool(schema["type"] == "boolean")
    return isinstance(value, _TYPES[schema["type"]])


def _outside(length: int, schema: Schema, low: str, high: str, of: str) -> str:
    if length < schema.get(low, 0):
        return f"{length} {of} are less than {schema[low]}"
    if high in schema and length > schema[high]:
        return f"{length} {of} are more than {schema[high]}"
    return ""


def _list(value: list[Any], schema: Schema) -> str:
    each = (violation(item, schema.get("items", {})) for item in value)
    return _outside(len(value), schema, "minItems", "maxItems", "items") or next(filter(None, each), "")


def _object(value: dict[str, Any], schema: Schema) -> str:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"it lacks {', '.join(missing)}"
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        child = properties.get(name, rest)
        if child is not None and (problem := violation(item, child)):
            return f"{name}: {problem}"
    return _outside(len(value), schema, "minProperties", "maxProperties", "entries")


def _number(value: float, schema: Schema) -> str:
    bounds: tuple[tuple[str, str, Callable[[float, float], bool], str], ...] = (
        ("minimum", "exclusiveMinimum", lambda a, b: a > b, "more"),
        ("maximum", "exclusiveMaximum", lambda a, b: a < b, "less"),
    )
    for key, exclusive, holds, word in bounds:
        if key in schema:
            bound, strict = schema[key], schema.get(exclusive, False)
            if not (holds(value, bound) or (value == bound and not strict)):
                return f"{value} must be {word} than {'' if strict else 'or equal to '}{bound}"
    if "multipleOf" in schema and value % schema["multipleOf"]:
        return f"{value} is no multiple of {schema['multipleOf']}"
    return ""
