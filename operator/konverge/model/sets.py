"""Sets as JSON: a model and its dump flow in, the dump flows out with the items of sets in one order.

Two equal sets may give their items in different orders, and a set that was read back in the order of the other: a status
that holds one would be written anew with each reconcile.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel


def in_order(model: BaseModel, dumped: dict[str, Any]) -> dict[str, Any]:
    """`dumped`, which is the JSON of `model`, with the items of its sets sorted. What is in a field of type Any stays."""
    return dict(_ordered(model, dumped)) if _holds_sets(type(model)) else dumped


@lru_cache(maxsize=256)
def _holds_sets(model: type[BaseModel]) -> bool:
    return _mentions_sets(model.__pydantic_core_schema__)


def _mentions_sets(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        # A field may be called type, and its schema is a mapping.
        return schema.get("type") in ("set", "frozenset") or any(map(_mentions_sets, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_mentions_sets, schema))


def _ordered(value: Any, dumped: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(dumped, key=str)
    if isinstance(value, BaseModel) and isinstance(dumped, dict):
        names = {field.serialization_alias or name: name for name, field in type(value).model_fields.items()}
        return {
            key: _ordered(getattr(value, names[key], None), item) if key in names else item
            for key, item in dumped.items()
        }
    if isinstance(value, Mapping) and isinstance(dumped, dict):
        return {key: _ordered(value.get(key), item) for key, item in dumped.items()}
    if isinstance(value, list | tuple) and isinstance(dumped, list):
        return [_ordered(item, text) for item, text in zip(value, dumped, strict=True)]
    return dumped
