"""Server-side apply for the fake API server: who owns which field. Pure functions over JSON documents and path sets.

A manager's entry is the set of the leaf paths that it set. An apply merges its document, takes what it names (with a
conflict when another manager owns a different value and nothing is forced), and removes what this manager applied
before, names no more, and nobody else owns. Any other write takes ownership of the leaves that it changed.

What is simpler than on the real server: there is no schema. Lists merge by key only where the field's name is a known
associative list (`containers`, `env`, `conditions`, ...; in custom resources only `conditions`, `ownerReferences` and
`finalizers`); every other list is one atomic value. A null counts as not named. A map or list that an apply empties
goes away with its last member. Versions are not converted.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from konverge.testing.fake_json import JsonDict, copy_json

Item: TypeAlias = tuple[tuple[str, Any], ...]
"""A list item by its key fields: `(("name", "web"),)`; in a set the key is empty: `(("", "a"),)`."""
Path: TypeAlias = tuple[str | Item, ...]
Paths: TypeAlias = frozenset[Path]


class ManagerKey(NamedTuple):
    """Who wrote: `operation` is Apply or Update, `subresource` empty or `status`."""

    manager: str
    operation: str
    subresource: str = ""


class Managed(NamedTuple):
    """What one manager owns, and since when it is this set."""

    paths: Paths
    api_version: str
    time: str


Managers: TypeAlias = Mapping[ManagerKey, Managed]


class FieldConflicts(Exception):
    """Fields that other managers own with another value: (manager, dotted path)."""

    def __init__(self, conflicts: list[tuple[str, str]]) -> None:
        self.conflicts = conflicts
        super().__init__("; ".join(f"{path} of {manager}" for manager, path in conflicts))


_SET: Final = ("",)
_ANYWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "conditions": ("type",),
    "finalizers": _SET,
    "ownerReferences": ("uid",),
}
_BUILT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    **_ANYWHERE,
    "containers": ("name",),
    "env": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ports": ("containerPort", "port", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_UNOWNED_METADATA: Final = frozenset({
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName", "generation",
    "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid",
})  # fmt: skip


class Shape(NamedTuple):
    """What takes the place of a schema: which lists are associative."""

    list_keys: Mapping[str, tuple[str, ...]]

    def items(self, field: str | Item, items: Any) -> dict[Item, Any] | None:
        """The items by key, or None when the list is atomic."""
        keys = self.list_keys.get(field) if isinstance(field, str) else None
        if keys is None or not isinstance(items, list):
            return None
        if keys == _SET:
            return {(("", item),): item for item in items}
        if not all(isinstance(item, dict) and any(key in item for key in keys) for item in items):
            return None
        return {_item_key(item, keys): item for item in items}

    def leaves(self, value: Any) -> dict[Path, Any]:
        """What `value` holds, by path; a keyed item is itself an entry beside those of its fields."""
        found: dict[Path, Any] = {}
        self._gather(value, (), found)
        return found

    def _gather(self, value: Any, path: Path, found: dict[Path, Any]) -> None:
        if isinstance(value, dict) and value:
            for name, member in value.items():
                self._gather(member, (*path, name), found)
            return
        items = self.items(path[-1], value) if isinstance(value, list) and path else None
        if items is None:
            if path:
                found[path] = value
            return
        for key, item in items.items():
            found[*path, key] = item
            if isinstance(item, dict):
                self._gather(item, (*path, key), found)

    def at(self, value: Any, path: Path) -> Any:
        """The value at `path`, or `MISSING`."""
        field: str | Item = ""
        for element in path:
            members: Mapping[Any, Any] | None = value if isinstance(value, dict) else self.items(field, value)
            if members is None or element not in members:
                return MISSING
            value, field = members[element], element
        return value

    def overlay(self, live: Any, applied: Any, field: str | Item = "") -> Any:
        """`live` with what `applied` says on top."""
        if isinstance(live, dict) and isinstance(applied, dict):
            return live | {name: self.overlay(live.get(name), value, name) for name, value in applied.items()}
        before, after = self.items(field, live), self.items(field, applied)
        if before is None or after is None:
            return applied
        return list((before | {key: self.overlay(before.get(key), item) for key, item in after.items()}).values())


MISSING: Final = object()
BUILT_IN: Final = Shape(_BUILT_IN)
CUSTOM: Final = Shape(_ANYWHERE)


def apply(
    live: JsonDict,
    applied: JsonDict,
    managers: Managers,
    writer: ManagerKey,
    *,
    force: bool,
    shape: Shape,
    api_version: str,
    now: str,
) -> tuple[JsonDict, Managers]:
    """The object and the ownership after `writer` applied `applied` to `live`. Raises: FieldConflicts."""
    wanted = owned_view(_without_nulls(applied), writer.subresource)
    paths = frozenset(shape.leaves(wanted))
    others = {key: managed for key, managed in managers.items() if key != writer}
    result = shape.overlay(live, wanted)
    taken = [
        (key, path) for key, managed in others.items() for path in managed.paths if _replaced(shape, live, result, path)
    ]
    if taken and not force:
        raise FieldConflicts(sorted({(key.manager, dotted(path)) for key, path in taken}))
    before = managers[writer].paths if writer in managers else frozenset()
    kept = {path for managed in others.values() for path in managed.paths}
    result = _prune(result, before - paths, kept, paths, shape)
    owners = _entry(managers, writer, paths, api_version, now)
    for key in others:
        owners = _entry(owners, key, owners[key].paths - {path for _, path in taken}, api_version, now)
    return result, owners


def update(
    old: JsonDict, new: JsonDict, managers: Managers, writer: ManagerKey, *, shape: Shape, api_version: str, now: str
) -> Managers:
    """The ownership after a write that is no apply: `writer` owns what changed, nobody what went away."""
    before = shape.leaves(owned_view(old, writer.subresource))
    after = shape.leaves(owned_view(new, writer.subresource))
    changed = frozenset(
        path for path, value in after.items() if path not in before or _edited(path, before[path], value)
    )
    gone = frozenset(before) - frozenset(after)
    owners = managers
    for key, managed in managers.items():
        lost = gone if key == writer else gone | changed
        owners = _entry(owners, key, managed.paths - lost, managed.api_version, now)
    previous = owners[writer].paths if writer in owners else frozenset()
    return _entry(owners, writer, previous | changed, api_version, now)


def owned_view(obj: Mapping[str, Any], subresource: str) -> JsonDict:
    """The part of `obj` that has owners when it is written through `subresource`."""
    if subresource == "status":
        return {"status": obj["status"]} if "status" in obj else {}
    view = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind", "metadata"}}
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _UNOWNED_METADATA}
    return view | ({"metadata": metadata} if metadata else {})


def managed_fields(managers: Managers) -> list[JsonDict]:
    """`metadata.managedFields` as the API shows it."""
    return [
        {
            "manager": key.manager,
            "operation": key.operation,
            "apiVersion": managed.api_version,
            "time": managed.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": orjson.loads(_fields_v1(managed.paths)),
        }
        | ({"subresource": key.subresource} if key.subresource else {})
        for key, managed in managers.items()
    ]


def dotted(path: Path) -> str:
    """A path as the API's messages write it: `.spec.containers[name="web"].image`."""
    text = ""
    for element in path:
        if isinstance(element, str):
            text += f".{element}"
        else:
            inside = ",".join((f"{k}=" if k else "=") + orjson.dumps(v).decode() for k, v in element)
            text += f"[{inside}]"
    return text


def _item_key(item: Mapping[str, Any], keys: tuple[str, ...]) -> Item:
    key = tuple((name, item[name]) for name in keys if name in item)
    if "protocol" in keys and "protocol" not in item:
        key += (("protocol", "TCP"),)
    return key


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value


def _edited(path: Path, old: Any, new: Any) -> bool:
    """Whether the leaf changed; a keyed item changes only by coming into being, its fields are leaves of their own."""
    return isinstance(path[-1], str) and bool(old != new)


def _replaced(shape: Shape, live: Any, result: Any, path: Path) -> bool:
    """Whether what an owner has at `path` was replaced, from above or below too; a map that only grew was not."""
    old, new = shape.at(live, path), shape.at(result, path)
    if old is MISSING or (isinstance(old, dict) and isinstance(new, dict)):
        return False
    return bool(old != new)


def _prune(obj: JsonDict, removed: Iterable[Path], kept: set[Path], named: Paths, shape: Shape) -> JsonDict:
    """`obj` without the `removed` paths that nobody keeps, nor names anything below."""
    result: JsonDict = copy_json(obj)
    holding = {path[:n] for path in kept | named for n in range(1, len(path) + 1)}
    for path in sorted(removed, key=len):
        if path not in holding and not _is_item_key(path):
            _delete(result, path, holding, shape)
        elif path not in holding and path[:-1] not in holding:
            _delete(result, path[:-1], holding, shape)
    return result


def _is_item_key(path: Path) -> bool:
    """Whether the path is that of a key field of a list item, which goes only with its item."""
    return len(path) > 1 and not isinstance(path[-2], str) and any(path[-1] == name for name, _ in path[-2])


def _delete(obj: Any, path: Path, holding: set[Path], shape: Shape) -> None:
    """Take `path` out of `obj`, in place, with each map or list that this leaves empty and nobody is `holding`."""
    for length in range(len(path), 0, -1):
        value, parent = shape.at(obj, path[:length]), shape.at(obj, path[: length - 1])
        if value is MISSING or (length < len(path) and (value not in ({}, []) or path[:length] in holding)):
            return
        last = path[length - 1]
        if isinstance(parent, dict):
            del parent[last]
        else:
            parent.remove(value)


def _entry(managers: Managers, key: ManagerKey, paths: Paths, api_version: str, now: str) -> Managers:
    """`managers` with that entry; unchanged paths keep their time, no paths means no entry."""
    previous = managers.get(key)
    if previous is not None and previous.paths == paths:
        return managers
    if paths:
        return {**managers, key: Managed(paths, api_version, now)}
    return {other: managed for other, managed in managers.items() if other != key}


@lru_cache(maxsize=4096)
def _fields_v1(paths: Paths) -> bytes:
    """The wire form of a set of paths, as text: most objects of a test share theirs."""
    tree: JsonDict = {}
    for path in sorted(paths, key=dotted):
        node = tree
        for element in path:
            node = node.setdefault(_field_name(element), {})
        if not isinstance(path[-1], str) and path[-1][0][0]:
            node.setdefault(".", {})
    return orjson.dumps(tree)


def _field_name(element: str | Item) -> str:
    if isinstance(element, str):
        return f"f:{element}"
    if not element[0][0]:
        return "v:" + orjson.dumps(element[0][1]).decode()
    return "k:" + orjson.dumps(dict(element), option=orjson.OPT_SORT_KEYS).decode()
