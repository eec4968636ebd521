"""Who owns which fields: in, an object with its managedFields; out, the paths that each field manager has."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]


def owned(obj: Mapping[str, Any]) -> dict[str, set[Path]]:
    """The leaves of each manager's fields, as paths in the words of `fieldsV1`."""
    found: dict[str, set[Path]] = {}
    for entry in obj["metadata"].get("managedFields") or []:
        found.setdefault(entry["manager"], set()).update(_leaves(entry["fieldsV1"], ()))
    return found


def shared(obj: Mapping[str, Any], manager: str) -> dict[str, set[Path]]:
    """What `manager` and another own both, by that other. Raises: AssertionError where `manager` owns nothing."""
    managers = owned(obj)
    mine = managers.pop(manager, set())
    assert mine, f"{manager} owns nothing of {obj['kind']} {obj['metadata']['name']}, which {sorted(managers)} own"
    return {other: both for other, fields in managers.items() if (both := mine & fields)}


def _leaves(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for key, below in fields.items():
        if below:
            yield from _leaves(below, (*path, key))
        else:
            yield (*path, key)
