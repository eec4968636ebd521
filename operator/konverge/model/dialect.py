"""Pydantic's JSON schema, bent to what a CRD can use: a model flows in, a JSON schema with notes flows out.

Pydantic reads its own models best, so that aliases, constraints and custom types are left to it. Changed is only what
it writes in a form that loses what `schema` must know: optional fields, defaults, one-value enums, naive times. What
cannot be expressed at all is noted in place instead of raised, so that the error can name the field.
"""

from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, PydanticUndefined, core_schema, to_jsonable_python

NULLABLE: Final = "x-konverge-nullable"
"""The note that None is allowed."""
REFUSED: Final = "x-konverge-refused"
"""The note that the type has no form in a CRD; its value says why and what to write instead."""


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
        properties = result.get("properties", {})
        for name, field in cls.model_fields.items():
            wire = field.validation_alias or name
            if not isinstance(wire, str) or (field.serialization_alias or name) != wire:
                properties.setdefault(str(wire), {})[REFUSED] = f"{name} has other names in and out; give it one alias"
            elif wire in properties and not field.is_required():
                properties[wire] = {**properties[wire], **_default(cls, name, field)}
        return result


def _default(cls: type[BaseModel], name: str, field: FieldInfo) -> dict[str, Any]:
    if field.default_factory_takes_validated_data:
        return {REFUSED: "the server's default is fixed and cannot follow other fields; make the field optional"}
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return {}
    if field.get_default(call_default_factory=True) != value:
        return {REFUSED: "default_factory gives another value each time; make the field optional and fill it in later"}
    if isinstance(value, BaseModel):
        # The rest are the nested fields' own defaults, which the server fills in itself.
        return {"default": value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)}
    return _plain_default(cls, name, value)


def _plain_default(cls: type[BaseModel], name: str, value: Any) -> dict[str, Any]:
    sample = cls.model_construct(None, **{name: value})
    try:
        dumped = sample.model_dump(mode="json", by_alias=True, include={name}, exclude_none=True, warnings="none")
    except (PydanticSerializationError, TypeError, ValueError) as error:
        return {REFUSED: f"the default {value!r} cannot be written as JSON ({error})"}
    encoded = next(iter(dumped.values()))
    if encoded in ([], {}):
        return {}
    return {"default": sorted(encoded, key=str) if isinstance(value, AbstractSet) else encoded}
