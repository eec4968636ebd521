"""What lies between two versions of an object, field by field: for logs, for `ctx.diff`, for people.

Two objects flow in, a list of differences flows out. The values of Secrets never do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from konverge.model import meta
from konverge.model.resource import Object, ResourceType, Secret

HASH_ANNOTATION: Final = "konverge.dev/desired-hash"
"""Where an apply notes what it applied."""
MASK: Final = "***"
_BOOKKEEPING: Final = frozenset({
    "managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink",
})  # fmt: skip
_SECRET_FIELDS: Final = ("data", "stringData")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs: `path` like `spec.template.spec.containers[name=web].image`; None where it is not there.

    The empty path stands for the whole object. Values of Secrets are masked on both sides.
    """

    path: str
    live: Any
    wanted: Any

    def __str__(self) -> str:
        return f"{self.path or 'object'}: {_shown(self.live)} -> {_shown(self.wanted)}"


def differences(resource: ResourceType, live: Object | None, wanted: Object) -> list[Difference]:
    """What would change if `live` (None: not there) became `wanted`, without status and the server's bookkeeping."""
    before = None if live is None else _without_bookkeeping(live)
    after = _without_bookkeeping(wanted)
    if resource != Secret:
        return list(_between(before, after, ""))
    found = _between(before if before is None else _hide(before), _hide(after), "")
    return [Difference(each.path, _mask(each.live), _mask(each.wanted)) for each in found]


def _between(live: Any, wanted: Any, path: str) -> Iterator[Difference]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in dict.fromkeys((*live, *wanted)):
            yield from _between(live.get(key), wanted.get(key), f"{path}.{key}" if path else str(key))
    elif _is_list(live) and _is_list(wanted):
        before, after = _by_item(live), _by_item(wanted)
        for item in dict.fromkeys((*before, *after)):
            yield from _between(before.get(item), after.get(item), f"{path}[{item}]")
    elif live != wanted:
        yield Difference(path, live, wanted)


def _by_item(items: Sequence[Any]) -> dict[str, Any]:
    """The items by what tells them apart: their names, where every one has its own, else their places."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {f"name={name}": item for name, item in zip(names, items, strict=True)}
    return {str(place): item for place, item in enumerate(items)}


def _without_bookkeeping(obj: Object) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    annotations = {key: value for key, value in meta.annotations_of(obj).items() if key != HASH_ANNOTATION}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


class _Hidden:
    """A value of a Secret: compared by what it is, shown as a mask."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hidden) and self._value == other._value

    __hash__ = None  # type: ignore[assignment]


def _hide(obj: Mapping[str, Any]) -> dict[str, Any]:
    """`obj` with the values of a Secret's entries hidden, their names not."""
    return {
        key: {name: _Hidden(entry) for name, entry in value.items()}
        if key in _SECRET_FIELDS and isinstance(value, Mapping)
        else value
        for key, value in obj.items()
    }


def _mask(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _mask(item) for key, item in value.items()}
    return MASK if isinstance(value, _Hidden) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
