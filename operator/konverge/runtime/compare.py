"""Whether a live object already holds what is desired: compared by meaning, not by text.

The server rewrites what it is sent: "1000m" becomes "1", empty values vanish, defaults appear, an injected container joins
the list. None of that is a difference. What cannot be told apart by rule is told by `projection`: the live form of the
desired fields as it was right after an apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from konverge.model.quantity import same_quantity

_QUANTITY_PARENTS: Final = frozenset({"requests", "limits", "capacity", "hard", "allocatable", "overhead"})
_MAPPING: Final = (dict, Mapping)
"""The first is what nearly all are; asking an abstract class costs ten times as much."""
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "divisor", "storage"})


def holds(live: Any, desired: Any, *, parent: str = "", field: str = "") -> bool:
    """Whether `live` has every field of `desired` with the same meaning; what `live` has beyond it does not matter.

    `parent` and `field` are the last two steps of the path, by which quantities are known.
    """
    if isinstance(desired, str) and live == desired:  # most values, and the quickest to tell
        return True
    if live is None:
        return _is_empty(desired)
    if isinstance(desired, _MAPPING):
        return isinstance(live, _MAPPING) and all(
            holds(live.get(key), value, parent=field, field=str(key)) for key, value in desired.items()
        )
    if _is_list(desired):
        return _is_list(live) and _list_holds(live, desired, field)
    if live == desired and isinstance(live, bool) == isinstance(desired, bool):
        return True
    return _may_be_quantity(parent, field) and _same_quantity(live, desired)


def projection(live: Any, desired: Any) -> Any:
    """The part of `live` that `desired` speaks of, in the shape of `desired`."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: projection(live.get(key), value) for key, value in desired.items()}
    if _is_list(desired) and _is_list(live):
        by_name = _by_name(live)
        if by_name is not None and _by_name(desired) is not None:
            return [projection(by_name.get(item["name"]), item) for item in desired]
        return (
            list(live) if len(live) != len(desired) else [projection(*pair) for pair in zip(live, desired, strict=True)]
        )
    return live


def _list_holds(live: Sequence[Any], desired: Sequence[Any], field: str) -> bool:
    live_by_name, desired_by_name = _by_name(live), _by_name(desired)
    if live_by_name is not None and desired_by_name is not None:
        return all(holds(live_by_name.get(name), item, field=field) for name, item in desired_by_name.items())
    if field == "finalizers":
        return set(desired) <= set(live)
    if field == "ownerReferences":
        live_by_uid = {item.get("uid"): item for item in live}
        return all(holds(live_by_uid.get(item.get("uid")), item, field=field) for item in desired)
    return len(live) == len(desired) and all(
        holds(have, want, field=field) for have, want in zip(live, desired, strict=True)
    )


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    """The items by name, for a list whose items all have a name of their own: the server merges such lists by it."""
    named = {item["name"]: item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)}
    return named if named and len(named) == len(items) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (not isinstance(value, str | bytes) and isinstance(value, Sequence))


def _is_empty(value: Any) -> bool:
    """Whether a field of that value is one that the server may leave out of its answer."""
    if isinstance(value, Mapping):
        return all(_is_empty(item) for item in value.values())
    return value is None or value in ("", [])


def _may_be_quantity(parent: str, field: str) -> bool:
    return parent in _QUANTITY_PARENTS or field in _QUANTITY_FIELDS


def _same_quantity(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    try:
        return same_quantity(one, other)
    except (ValueError, TypeError):
        return False
