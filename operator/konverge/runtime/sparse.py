"""Desired state as it goes over the wire: mappings, and models of the `kubernetes` client, without what was never set.

A null or a zero value is a claim on its field: an apply that sent one would take the field from whoever sets it.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias

from pydantic import BaseModel

from konverge.model.resource import ResourceType, Secret


class ClientModel(Protocol):
    """A model of the `kubernetes` client up to version 36: a plain class, in which what was never set is None."""

    attribute_map: ClassVar[Mapping[str, str]]


Desired: TypeAlias = Mapping[str, Any] | BaseModel | ClientModel
"""What a child should hold: a sparse mapping, a pydantic model (the `kubernetes` client's from 37 on), or a `ClientModel`.

Models may stand inside mappings and lists too.
"""


def sparse(desired: Desired) -> dict[str, Any]:
    """`desired` as plain JSON under wire names. Raises: TypeError for what is no mapping and no model."""
    body = _plain(desired)
    if not isinstance(body, dict):
        raise TypeError(f"desired state is a mapping or a model, not {type(desired).__name__}")
    return body


def as_stored(resource: ResourceType, body: dict[str, Any]) -> dict[str, Any]:
    """`body` with a Secret's `stringData` as the `data` that the server makes of it.

    The server never shows `stringData` again, so nobody could tell whether it still holds; and an entry that is taken
    out of it would stay in `data`.
    """
    given = body.get("stringData")
    if resource != Secret or not isinstance(given, dict):
        return body
    encoded = {name: b64encode(str(text).encode()).decode() for name, text in given.items()}
    rest = {key: value for key, value in body.items() if key != "stringData"}
    return {**rest, "data": {**(body.get("data") or {}), **encoded}}


def _plain(value: Any) -> Any:
    # The concrete types first: nearly all are these, and an abstract class takes ten times as long to ask.
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - as above
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list) or (isinstance(value, Sequence) and not isinstance(value, bytes)):
        return [_plain(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    if isinstance(value, datetime):
        return value.isoformat()
    wire_names = getattr(type(value), "attribute_map", None)
    if isinstance(wire_names, Mapping):
        return {
            wire: _plain(item)
            for attribute, wire in wire_names.items()
            if (item := getattr(value, attribute)) is not None
        }
    raise TypeError(f"{type(value).__name__} cannot be sent: use mappings, lists, texts, numbers and models")
