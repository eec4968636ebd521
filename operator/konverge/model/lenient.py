"""Objects that are stored already, and that today's model would refuse, as instances of it all the same.

A bound that was tightened does not reach back: the API server goes on to serve old objects. What has to read all of
them, as a conversion does, parses field by field here: a value that breaks a bound stays what it is, one of another
type stays plain JSON. Wire data flows in, models flow out, and the other way round.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

M = TypeVar("M", bound=BaseModel)


def lenient(model: type[M], value: Any) -> M:
    """`value` as a model; where it does not fit, as much of it as does. A required field that is missing stays so.

    Raises: ValidationError when it is no mapping.
    """
    try:
        return model.model_validate(value)
    except ValidationError:
        if not isinstance(value, Mapping):
            raise
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        for key in (field.alias, name):
            if key in value:
                found[name] = _fitted(_type_of(field), value[key])
                break
    return model.model_construct(**found)


def wire(model: BaseModel) -> dict[str, Any]:
    """The JSON of the fields that were set, without those that are None."""
    try:
        return model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True, warnings=False)
    except PydanticSerializationError:
        return {
            field.alias or name: _json(_type_of(field), value)
            for name, field in type(model).model_fields.items()
            if name in model.model_fields_set and (value := getattr(model, name)) is not None
        }


def _type_of(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _fitted(kind: Any, value: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        pass
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        arguments = tuple(each for each in arguments if each is not NoneType)
    if origin is Annotated or (origin in {Union, UnionType} and len(arguments) == 1):
        return _fitted(arguments[0], value)
    if origin is list and isinstance(value, list):
        return [_fitted(arguments[0], item) for item in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _fitted(arguments[1], item) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, Mapping):
        return lenient(kind, value)
    return value


def _json(kind: Any, value: Any) -> Any:
    if isinstance(value, BaseModel):
        return wire(value)
    if isinstance(value, list):
        return [_json(Any, item) for item in value]
    try:
        return TypeAdapter(kind).dump_python(value, mode="json", by_alias=True, warnings=False)
    except PydanticSerializationError:
        return value
