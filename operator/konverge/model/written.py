"""Defaults as a person would write them in a manifest: a field of a model flows in, JSON flows out, or why there is none.

The server fills defaults in as text, and the model reads them from there. So what is written is read back: a default that
does not come back as itself would mean one thing to the server and another to the model.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, get_origin

from pydantic import BaseModel, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_jsonable_python

from konverge.errors import ModelError


def default_of(cls: type[BaseModel], name: str, field: FieldInfo) -> Any:
    """The default in JSON; None where there is none to write. Raises: ModelError that says why it cannot be one."""
    if field.default_factory_takes_validated_data:
        raise ModelError("the server's default is fixed and cannot follow other fields; make the field optional")
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return None
    if field.get_default(call_default_factory=True) != value:
        raise ModelError("default_factory gives another value each time; make the field optional and fill it in later")
    return _sparse(value) if isinstance(value, BaseModel) else _plain(cls, name, value)


def changed(cls: type[BaseModel], field: FieldInfo, written: Any) -> str:
    """What the model makes of a default that it reads, where that is not the default; empty where it is.

    A default that does not fit its type is for others to tell.
    """
    value = field.get_default(call_default_factory=True)
    definitions: dict[str, Any] = {"field": (field.annotation, field)}
    reader = create_model("Reader", __config__=cls.model_config, **definitions)
    wire = reader.model_fields["field"].alias or "field"
    try:
        (read,) = dict(reader.model_validate({wire: written}, by_alias=True, by_name=False)).values()
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"]
    return "" if read == value else repr(read)


def _sparse(value: BaseModel) -> dict[str, Any]:
    """Without the nested fields' own defaults, which the server fills in itself."""
    written = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    _restore_literals(value, written)
    return written


def _restore_literals(value: Any, written: Any) -> None:
    """Say literals also where they are the default: in a union they tell the branch, and the server has no default there."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            wire, inner = field.alias or name, getattr(value, name, None)
            if get_origin(field.annotation) is Literal and inner is not None:
                written.setdefault(wire, to_jsonable_python(inner))
            elif wire in written:
                _restore_literals(inner, written[wire])
    elif isinstance(value, Mapping) and isinstance(written, dict):
        for key, inner in value.items():
            _restore_literals(inner, written.get(key))
    elif isinstance(value, list | tuple):
        for inner, text in zip(value, written, strict=True):
            _restore_literals(inner, text)


def _plain(cls: type[BaseModel], name: str, value: Any) -> Any:
    sample = cls.model_construct(None, **{name: value})
    try:
        dumped = sample.model_dump(mode="json", by_alias=True, include={name}, exclude_none=True, warnings="none")
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise ModelError(f"the default {value!r} cannot be written as JSON ({error})") from None
    encoded = next(iter(dumped.values()))
    return sorted(encoded, key=str) if isinstance(value, AbstractSet) else encoded
