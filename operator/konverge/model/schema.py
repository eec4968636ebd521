"""Models to structural schemas: a pydantic model flows in, the OpenAPI v3 of a CRD flows out.

The API server takes less than JSON schema and drops some of the rest silently. Every shape is either written in the
form that it takes, or refused here with the field, the rule and the way out, long before a person meets the server's
words. The property that holds: whatever the schema accepts, the model parses.
"""

import json
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Final, NoReturn

from pydantic import BaseModel, PydanticUserError

from konverge.errors import ModelError
from konverge.model.cel import VALIDATIONS, add_rule, cel_name, seal
from konverge.model.defaults import violation
from konverge.model.dialect import CHANGED, NULLABLE, REFUSED, TAGS, Dialect
from konverge.model.fields import IMMUTABLE
from konverge.model.leaves import (
    BOUNDS,
    Node,
    Schema,
    bounds_of,
    enum_of,
    number_of,
    pattern_of,
    refuse,
    string_of,
)

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"

_HANDLED: Final = frozenset({
    *BOUNDS, NULLABLE, CHANGED, TAGS, IMMUTABLE, "title", "description", "examples", "deprecated", "readOnly", "writeOnly", "default", "type",
    "format", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items",
    "uniqueItems", "properties", "required", "additionalProperties", "anyOf", "oneOf", "discriminator",
})  # fmt: skip


def structural(model: type[BaseModel], root: str, *, floats: bool = False) -> Schema:
    """The structural schema of `model`; errors name fields below `root`, such as `spec`.

    With `floats`, numbers with a fraction are allowed: they do not survive a round trip unchanged, so that a spec with
    them would never stop to differ from what was asked for.

    Raises: ModelError that names the field, the rule and the way out.
    """
    try:
        document = model.model_json_schema(by_alias=True, mode="validation", schema_generator=Dialect)
        schema = _Builder(document.pop("$defs", {}), floats=floats).convert(document, root, ())
        seal(schema, root)
    except (ModelError, PydanticUserError) as error:
        raise ModelError(f"{model.__name__}: {error}") from None
    return schema


class _Builder:
    """One walk over one JSON schema. `trail` holds the definitions that are open, so that recursion is seen."""

    def __init__(self, definitions: Mapping[str, Node], *, floats: bool) -> None:
        self._definitions, self._floats = definitions, floats

    def convert(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        node, trail = self._resolve(node, trail)
        if REFUSED in node:
            refuse(path, node[REFUSED])
        unknown = [key for key in node if key not in _HANDLED and not key.startswith("x-kubernetes-")]
        if unknown:
            self._refuse_keys(path, unknown)
        if "oneOf" in node:
            body = self._tagged_union(node, path, trail)
        elif "anyOf" in node:
            body = self._union(node, path, trail)
        elif "enum" in node or "const" in node:
            body = enum_of(node, path, floats=self._floats)
        elif "type" in node:
            body = self._typed(node, path, trail)
        else:
            body = {PRESERVE: True}
        notes = {key: value for key, value in node.items() if key.startswith("x-kubernetes-") or key == IMMUTABLE}
        result: Schema = {}
        if node.get("description"):
            result["description"] = cleandoc(node["description"])
        result |= body | notes
        if {VALIDATIONS, IMMUTABLE} & set(result) and not _is_typed(result):
            refuse(path, "a CEL rule needs a typed field", "give the field another type than Any")
        self._check_list_type(result, path)
        return result

    def _resolve(self, node: Node, trail: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        while "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[-1]
            beside = {key: value for key, value in node.items() if key != "$ref"}
            target = self._definitions[name]
            if name in trail:
                if target.get("type") != "object":
                    return {REFUSED: "a type that contains itself must be a model; write it as a Part"}, trail
                # Structural schemas are finite: below this the model alone checks.
                known = {key: target[key] for key in ("description",) if key in target}
                return {**known, "type": "object", PRESERVE: True, **beside}, trail
            node, trail = {**target, **beside}, (*trail, name)
        return node, trail

    def _refuse_keys(self, path: str, keys: list[str]) -> NoReturn:
        if "prefixItems" in keys:
            refuse(path, "a tuple's items have no names", "use a Part with named fields, or list[X] or tuple[X, ...]")
        refuse(path, f"{', '.join(keys)} cannot stand in a CRD", "say it with types, bounds or a Cel rule")

    def _typed(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        match node["type"]:
            case "object":
                return self._object(node, path, trail)
            case "array":
                return self._array(node, path, trail)
            case "string":
                return string_of(node, path)
            case "boolean":
                return {"type": "boolean"}
            case "integer" | "number":
                return number_of(node, path, floats=self._floats)
            case _:
                return refuse(path, f"nothing but {node['type']} fits", "give the field a type")

    def _array(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        items = self._value(node.get("items", {}), f"{path}[]", trail)
        kind = "set" if node.get("uniqueItems") else "atomic"
        return {"type": "array", "items": items, **bounds_of(node), LIST_TYPE: node.get(LIST_TYPE, kind)}

    def _value(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        """The schema of an item or of a map's value, which cannot be absent."""
        if self._resolve(node, trail)[0].get(NULLABLE):
            refuse(path, "None cannot stand in a list or map", "leave such entries out")
        return self.convert(node, path, trail)

    def _object(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        result: Schema = {"type": "object", **bounds_of(node)}
        required = list(node.get("required", ()))
        properties: dict[str, Schema] = {}
        for name, child in node.get("properties", {}).items():
            where = f"{path}.{name}"
            if name in required and self._resolve(child, trail)[0].get(NULLABLE):
                refuse(where, "it may be None and yet has no default", "write `= None` behind it")
            properties[name] = self.convert(child, where, trail)
            if "default" in child:
                self._default(properties[name], child, where)
        if properties:
            result["properties"] = properties
        if required:
            result["required"] = required
        rest = node.get("additionalProperties", False)
        if isinstance(rest, Mapping) and rest and not properties:
            result["additionalProperties"] = self._value(rest, f"{path}[]", trail)
        elif rest is not False or node.get(PRESERVE):
            result[PRESERVE] = True
        return result

    def _default(self, schema: Schema, node: Node, path: str) -> None:
        value = node["default"]
        if problem := violation(value, schema):
            refuse(path, f"the default does not fit: {problem}", "change the default or the bound")
        if read := node.get(CHANGED):
            refuse(path, f"the default is written as {value!r}, and read back: {read}", "change the default")
        schema["default"] = value

    def _union(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        branches = [self.convert(branch, path, trail) for branch in node["anyOf"]]
        types = {branch.get("type", "") for branch in branches}
        if len(types) == 1 and all("enum" in branch for branch in branches):
            return {"type": types.pop(), "enum": list(dict.fromkeys(v for branch in branches for v in branch["enum"]))}
        plain = not any("enum" in branch or "format" in branch for branch in branches)
        if types != {"integer", "string"} or len(branches) != len(types) or not plain:
            refuse(
                path,
                f"the server cannot tell {' from '.join(sorted(filter(None, types))) or 'the branches'} in a union",
                "use int | str, a union of models with Field(discriminator=...), or two fields",
            )
        beside = {
            key: value for branch in branches for key, value in branch.items() if key not in {"type", "description"}
        }
        beside |= bounds_of(node) | ({"pattern": pattern_of(node["pattern"], path)} if "pattern" in node else {})
        return {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}], **beside}

    def _tagged_union(self, node: Node, path: str, trail: tuple[str, ...]) -> Schema:
        parts = [self._resolve(branch, trail)[0] for branch in node["oneOf"]]
        if any(PRESERVE in part for part in parts):
            return {"type": "object", PRESERVE: True}  # a branch contains this union, and is cut here
        names = [node.get("discriminator", {}).get("propertyName"), *node.get(TAGS, ())]
        tag = next((name for name in names if all(name in part.get("properties", {}) for part in parts)), None)
        if not tag:
            refuse(path, "a union of models needs a field that tells them apart", "use Field(discriminator=...)")
        branches = [self.convert(branch, path, trail) for branch in node["oneOf"]]
        properties: dict[str, Schema] = {}
        for schema in branches:
            if schema.get("type") != "object" or "enum" not in schema.get("properties", {}).get(tag, {}):
                refuse(path, f"each branch must be a model with a Literal field {tag}", "flatten the union")
            if IMMUTABLE in schema:
                refuse(path, "one branch of the union is immutable", "put Immutable on the whole union")
            for name, field in schema["properties"].items():
                # A default would fill in the fields of the branches that were not chosen.
                bare = {key: value for key, value in field.items() if key != "default"}
                self._merge(properties, name, bare, path, is_tag=name == tag)
        closed = [part.get("additionalProperties") is False for part in parts]
        always = [name for name in properties if all(name in (tag, *each.get("required", ())) for each in branches)]
        result: Schema = {"type": "object", "properties": properties, "required": always}
        if any(PRESERVE in schema for schema in branches):
            if any(closed):
                refuse(path, "one branch allows more fields and another forbids them", "give both the same extra")
            result[PRESERVE] = True
        result["oneOf"] = [
            _branch(schema, tag, set(properties) if shut else set())
            for schema, shut in zip(branches, closed, strict=True)
        ]
        for schema in branches:
            _add_branch_rules(result, schema, tag)
        return result

    def _merge(self, properties: dict[str, Schema], name: str, field: Schema, path: str, *, is_tag: bool) -> None:
        known = properties.setdefault(name, field)
        if is_tag:
            known["enum"] = list(dict.fromkeys([*known["enum"], *field["enum"]]))
        elif _undescribed(known) != _undescribed(field):
            refuse(
                f"{path}.{name}", "two branches of the union give this field different schemas", "rename one of them"
            )

    def _check_list_type(self, schema: Schema, path: str) -> None:
        kind, items = schema.get(LIST_TYPE), schema.get("items", {})
        if kind is None:
            return
        if schema.get("type") != "array":
            refuse(path, f"the list type {kind} is for lists", "put the marker on the list")
        untyped = not {"type", INT_OR_STRING} & set(items)
        if kind == "set" and (untyped or items.get("type") in {"object", "array"}):
            refuse(path, "a set holds plain values only", "use a list with ListMap")
        for key in schema.get(LIST_KEYS, ()):
            field = items.get("properties", {}).get(key)
            if field is None:
                refuse(
                    path,
                    f"the key {key} is no field of the items",
                    f"name one of {', '.join(items.get('properties', ())) or 'a model'}",
                )
            if field.get("type") in {None, "object", "array"}:
                refuse(path, f"the key {key} is no plain value", "use a string or an integer as the key")
            if key not in items.get("required", ()) and "default" not in field:
                refuse(
                    f"{path}[].{key}", "it is a key of the list and optional", "make it required or give it a default"
                )


def _branch(schema: Schema, tag: str, fields: set[str]) -> Schema:
    """What tells one branch of a union: its tags, its required fields, and that there are none of the other `fields`."""
    required = list(dict.fromkeys([tag, *schema.get("required", ())]))
    result: Schema = {"properties": {tag: {"enum": schema["properties"][tag]["enum"]}}, "required": required}
    if strange := sorted(fields - set(schema["properties"])):
        result["not"] = {"anyOf": [{"required": [name]} for name in strange]}
    return result


def _is_typed(schema: Schema) -> bool:
    """Whether CEL has a type for it: not for what is anything, nor for lists and maps of that."""
    inside = schema.get("items", schema.get("additionalProperties"))
    return INT_OR_STRING in schema or ("type" in schema and (inside is None or _is_typed(inside)))


def _add_branch_rules(union: Schema, branch: Schema, tag: str) -> None:
    """Put the rules of a branch to the union, where they hold for its tags."""
    tags = (json.dumps(each, ensure_ascii=False) for each in branch["properties"][tag]["enum"])
    chosen = " || ".join(f"self.{cel_name(tag)} == {each}" for each in tags)
    for rule in branch.get(VALIDATIONS, ()):
        add_rule(union, f"!({chosen}) || ({rule['rule']})", rule["message"])


def _undescribed(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "description"}


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema below and with `schema`, each with its JSONPath (lists as `[]`)."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}[]")
