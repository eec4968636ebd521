"""Pydantic's JSON schema, bent to what a CRD can use: a model flows in, a JSON schema with notes flows out.

Pydantic reads its own models best, so that aliases, constraints and custom types are left to it. Changed is only what
it writes in a form that loses what `schema` must know: optional fields, defaults, one-value enums, naive times. What
cannot be expressed at all is noted in place instead of raised, so that the error can name the field.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema, to_jsonable_python

from konverge.errors import ModelError
from konverge.model.custom import Part, Spec, Status
from konverge.model.unsaid import unsaid
from konverge.model.written import changed, default_of

NULLABLE: Final = "x-konverge-nullable"
"""The note that None is allowed."""
REFUSED: Final = "x-konverge-refused"
"""The note that the type has no form in a CRD; its value says why and what to write instead."""
CHANGED: Final = "x-konverge-default-read"
"""The note beside a default of what the model makes of it when it reads it, where that is something else."""
TAGS: Final = "x-konverge-tags"
"""The note of the names by which pydantic looks for the tag of a discriminated union."""


class Dialect(GenerateJsonSchema):
    """The generator to pass to `model_json_schema`."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Keep fields in the order in which they are declared."""
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        """Titles say nothing that names do not."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Nothing to warn about: what is lost is refused later, by name."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Note what pydantic has no JSON schema for."""
        return {REFUSED: f"{error_info} has no JSON form; use strings, integers, booleans, lists and models"}

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Note what the JSON does not say."""
        result = super().generate_inner(schema)
        problem = unsaid(schema, result)
        return {**result, REFUSED: problem} if problem else result

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Note the possible names of the tag: pydantic misses it where the branches are not defined yet."""
        found = schema["discriminator"]
        paths = found if isinstance(found, list) else [found]
        names = [path[0] if isinstance(path, list) and len(path) == 1 else path for path in paths]
        return {**super().tagged_union_schema(schema), TAGS: [name for name in names if isinstance(name, str)]}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Note that None is allowed beside the schema, instead of a union with null."""
        return {**self.generate_inner(schema["schema"]), NULLABLE: True}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave defaults to `model_schema`, which knows the field and its serializer."""
        return self.generate_inner(schema["schema"])

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """Write an enum also for one value, and note None beside it."""
        values = [to_jsonable_python(value) for value in schema["expected"]]
        result: JsonSchemaValue = {"enum": [value for value in values if value is not None]}
        return {**result, NULLABLE: True} if None in values else result

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """Note a datetime that may be naive: the server refuses what it would be written as."""
        if schema.get("tz_constraint") != "aware":
            return {
                REFUSED: "a datetime without time zone fails the server's date-time format; use pydantic.AwareDatetime"
            }
        return super().datetime_schema(schema)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Note a bare timedelta: pydantic writes P1D where the server wants 24h."""
        return {
            REFUSED: "a timedelta is written in ISO 8601, unlike the server's 1h30m; use konverge.model.fields.Duration"
        }

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Note a Decimal: its pattern needs look-ahead."""
        return {REFUSED: "a Decimal needs a pattern that RE2 lacks; use konverge.model.fields.Quantity, int, or a str"}

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Note a complex number: pydantic describes it as any text."""
        return {REFUSED: "a complex number is any text to the server; use two fields"}

    def generator_schema(self, schema: core_schema.GeneratorSchema) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        """Note an Iterable: pydantic checks its items only when they are used."""
        return {REFUSED: "an Iterable is not checked when it is read; use list"}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Note a dataclass: its defaults would be lost."""
        return {REFUSED: f"{schema['cls'].__name__} is a dataclass; derive it from konverge.model.custom.Part"}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Note keys that are no plain strings: the server cannot check them."""
        keys = schema.get("keys_schema", {"type": "any"})
        if keys["type"] not in {"any", "str"} or set(keys) - {"type", "metadata", "ref"}:
            return {REFUSED: "the server cannot check the keys of a dict; use dict[str, ...], or a list with ListMap"}
        return super().dict_schema(schema)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the default of every field, in the form in which a person would write it in a manifest."""
        result = super().model_schema(schema)
        cls = cast(type[BaseModel], schema["cls"])
        if (schema.get("config") or {}).get("strict"):
            result[REFUSED] = "strict=True refuses the texts that JSON has for dates, enums and sets; leave it out"
        if cls in {Part, Spec, Status}:
            result.pop("description", None)  # it is for those who write operators
        properties = result.get("properties", {})
        if not schema.get("root_model"):
            seen: dict[str, str] = {}
            for name, field in cls.model_fields.items():
                wire = field.validation_alias or name
                properties[str(wire)] = {**properties.get(str(wire), {}), **_notes(cls, name, field, properties, seen)}
        for name, computed in cls.model_computed_fields.items():
            wire = computed.alias or name
            properties[wire] = {REFUSED: "a computed field is written and yet no field of the CRD; make it a property"}
        return result


def _notes(
    cls: type[BaseModel], name: str, field: FieldInfo, properties: Mapping[str, JsonSchemaValue], seen: dict[str, str]
) -> JsonSchemaValue:
    """The default of a field, or why it cannot be one. `seen` has the names on the wire so far, and whose they are."""
    wire = field.validation_alias or name
    if not isinstance(wire, str) or (field.serialization_alias or name) != wire:
        return {REFUSED: f"{name} has other names in and out; give it one alias"}
    if seen.setdefault(wire, name) != name:
        return {REFUSED: f"{seen[wire]} and {name} are both {wire} on the wire; rename one of them"}
    if field.exclude:
        return {REFUSED: "a field with exclude=True is read and never written; leave exclude out"}
    try:
        return {} if field.is_required() else _default(cls, name, field, properties.get(wire, {}))
    except ModelError as error:
        return {REFUSED: str(error)}


def _default(cls: type[BaseModel], name: str, field: FieldInfo, node: JsonSchemaValue) -> JsonSchemaValue:
    written = default_of(cls, name, field)
    if written is None:
        return {}
    if node.get(NULLABLE):
        raise ModelError(
            f"None cannot be written, for the server fills in {written!r} then; drop None, or default to it"
        )
    if written in ([], {}) and not isinstance(field.get_default(call_default_factory=True), BaseModel):
        few = node.get("minItems") or node.get("minProperties")
        if few:
            raise ModelError(f"the default is empty and min_length is {few}; make the field required, or optional")
        return {}
    return {"default": written, CHANGED: changed(cls, field, written)}
