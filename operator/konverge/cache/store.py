"""The objects of one resource as last seen, held in memory: objects flow in from the reflector and from our own writes,
`Change`s flow out, and reads cost no request.

Objects are shared, never copied and never changed in place. What comes late loses: an object whose resourceVersion is not
newer than the one held is ignored, and a tombstone remembers each deleted object, so that a write's late answer cannot
bring it back; an object of the same name but another uid is a new one and is accepted.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from konverge.cache.index import Index, IndexFunction
from konverge.cache.sharing import Sharing
from konverge.model.meta import (
    Key,
    controller_of,
    finalizers_of,
    is_deleting,
    is_newer,
    key_of,
    labels_of,
    resource_version,
    uid_of,
)
from konverge.model.resource import Object, ResourceType
from konverge.model.selectors import Selector

OWNER_INDEX: Final = "owner"
"""The index that every store has: the uid of the controlling owner."""

_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})

_MAPPING: Final = (dict, Mapping)
"""The first is what nearly all are; asking an abstract class costs ten times as much."""

_MAX_TOMBSTONES: Final = 4096
"""Enough for every write that can still be under way when its object goes; beyond, the oldest is forgotten."""

_FOR_GOOD: Final = ""
"""The version of a tombstone that no version comes after."""

_log = logging.getLogger(__name__)


class ChangeType(Enum):
    """What happened to an object."""

    ADDED = "ADDED"
    UPDATED = "UPDATED"
    DELETED = "DELETED"


class Change(NamedTuple):
    """One change of a store. `old` is what it held before, `new` what it holds now.

    `initial` tells that the object was met in a list or a replay, and not reported when it changed. In a replay, which
    everyone gets now and then, every object held comes as ADDED once more.
    """

    type: ChangeType
    key: Key
    old: Object | None
    new: Object | None
    initial: bool = False


Objects = list[Object]
Changes = list[Change]

Transform = Callable[[Object], Object]
"""Makes of an object as received the one to hold. Returns the same or a new object; must not change its argument."""

BadObjectHook = Callable[[Any, Exception], None]
"""Told of what cannot be held, and why: no mapping, no name, or a transform or index function that raised on it."""


def strip_managed_fields(obj: Object) -> Object:
    """`obj` without `metadata.managedFields`, which is a third of its bytes and which nobody here reads.

    A copy of the two levels concerned: the caller of a write holds the same object and may look at them.
    """
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {field: value for field, value in metadata.items() if field != "managedFields"}}


def metadata_of(obj: Object) -> Object:
    """`obj` with nothing but apiVersion, kind and metadata, of which managedFields is left out."""
    whole = strip_managed_fields(obj)
    return whole if whole.keys() <= _IDENTITY else {name: whole[name] for name in whole if name in _IDENTITY}


def leaving_out(fields: Iterable[str]) -> Transform:
    """A transform that takes these fields away, such as `spec.template`, and managedFields."""
    paths = [field.split(".") for field in fields]

    def lean(obj: Object) -> Object:
        obj = strip_managed_fields(obj)
        for path in paths:
            obj = _without(obj, path)
        return obj

    return lean


def _without(part: Any, path: Sequence[str]) -> Any:
    """A copy of `part` without the field at `path`, or `part` itself where there is none."""
    name, *rest = path
    if not isinstance(part, _MAPPING) or name not in part:
        return part
    if not rest:
        return {field: value for field, value in part.items() if field != name}
    return {**part, name: _without(part[name], rest)}


def log_bad_object(obj: Any, error: Exception) -> None:
    """The hook by default: one line of log."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    _log.error("an object is set aside: %r: %s", metadata or obj, error)


def split(change: Change) -> tuple[Change, ...]:
    """`change`, or for an object that was deleted and made anew between two looks, its DELETED and its ADDED."""
    if change.old is None or change.new is None or uid_of(change.old) == uid_of(change.new):
        return (change,)
    return (
        change._replace(type=ChangeType.DELETED, new=None),
        change._replace(type=ChangeType.ADDED, old=None),
    )


class _Admitted(NamedTuple):
    """An object that can be held: its key, what is held, and its values in each index."""

    key: Key
    obj: Object
    indexed: list[tuple[str, ...]]


class Store:
    """The objects of `resource` by key, with indexes."""

    def __init__(
        self,
        resource: ResourceType,
        *,
        transform: Transform = strip_managed_fields,
        on_bad_object: BadObjectHook = log_bad_object,
    ) -> None:
        self.resource = resource
        self._transform = transform
        self._on_bad_object = on_bad_object
        self._objects: dict[Key, Object] = {}
        self._snapshot: Mapping[Key, Object] | None = None
        self._namespaces: dict[str, dict[Key, None]] = {}
        """The keys of each namespace, in the order in which they came."""
        self._sharing = Sharing()
        self._indexes: dict[str, Index] = {}
        self._tombstones: OrderedDict[str, str] = OrderedDict()
        """The uid of a deleted object to the resourceVersion at which it was gone, or `_FOR_GOOD`."""
        self._listed_at = ""
        """The resourceVersion of the last list."""
        self._set_aside: OrderedDict[str, str] = OrderedDict()
        """Identity of a bad object to the complaint that was reported."""
        self.add_index(OWNER_INDEX, _owner_uid)

    # Reading

    def get(self, key: Key) -> Object | None:
        """The object of that key, None when there is none."""
        return self._objects.get(key)

    def list(self, namespace: str | None = None, selector: Selector | None = None) -> Objects:
        """The objects of a namespace (None: of all) that `selector` matches (None: all)."""
        if namespace is None:
            found = list(self._objects.values())
        else:
            found = [self._objects[key] for key in self._namespaces.get(namespace, ())]
        return found if selector is None else [obj for obj in found if selector.matches(labels_of(obj))]

    def keys(self) -> AbstractSet[Key]:
        """The keys held: a live view."""
        return self._objects.keys()

    def __len__(self) -> int:
        return len(self._objects)

    def snapshot(self) -> Mapping[Key, Object]:
        """All objects as they are now, unmoved by later changes. Costs one shallow copy a change, at most."""
        if self._snapshot is None:
            self._snapshot = MappingProxyType(self._objects.copy())
        return self._snapshot

    # Indexes

    def add_index(self, name: str, fn: IndexFunction) -> None:
        """Keep objects findable under each value that `fn` gives for them, those already held too.

        `fn` must be pure. Raises: ValueError when the name is taken; what `fn` raises on an object already held.
        """
        if name in self._indexes:
            raise ValueError(f"store of {self.resource}: the index {name!r} exists already; choose another name")
        index = Index(fn)
        for key, obj in self._objects.items():
            index.put(key, index.values_of(obj))
        self._indexes[name] = index

    def by_index(self, name: str, value: str) -> Objects:
        """The objects for which the index's function gave `value`.

        Raises: KeyError naming the indexes that exist.
        """
        index = self._indexes.get(name)
        if index is None:
            known = ", ".join(sorted(self._indexes))
            raise KeyError(f"store of {self.resource} has no index {name!r}; it has: {known}. Add it with add_index")
        return [self._objects[key] for key in index.keys(value)]

    # Writing

    def put(self, obj: Object, *, initial: bool = False, force: bool = False) -> Change | None:
        """Hold `obj` if it is news; None when it is not, or when it is bad and was set aside.

        With `force` every other resourceVersion counts as news: the server's history was rewound. A change from one uid to
        another comes as UPDATED: see `split`.
        """
        if not self._set_aside and self._holds_version(obj):
            return None
        admitted = self._admit(obj)
        if admitted is None:
            return None
        key, obj, indexed = admitted
        version, held = resource_version(obj), self._objects.get(key)
        if held is not None and (held is obj or version == resource_version(held) != ""):
            return None
        if force:
            self._tombstones.pop(uid_of(obj), None)
        elif self._is_buried(obj, version) or (held is not None and _is_stale(version, resource_version(held))):
            return None
        if held is not None and uid_of(held) != uid_of(obj):
            # Gone by the time its successor was made: nothing of it may come back.
            self._bury(held, version)
        obj = self._sharing.share(obj)
        key = key_of(obj)  # of the shared texts
        self._objects[key] = obj
        if held is None:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        self._snapshot = None
        for index, values in zip(self._indexes.values(), indexed, strict=True):
            index.put(key, values)
        return Change(ChangeType.ADDED if held is None else ChangeType.UPDATED, key, held, obj, initial)

    def wrote(self, obj: Object) -> Change | None:
        """Hold `obj`, what a write returned, if it is news. A list since then would have shown it, if it were not gone."""
        if self.get(key_of(obj)) is None and _is_known(resource_version(obj), self._listed_at):
            return None
        return self.put(obj)

    def remove(self, obj: Object) -> Change | None:
        """Drop `obj`: the server reported it deleted. None when it is not held, or when what is held is newer."""
        try:
            key = _check(obj)
        except (TypeError, ValueError) as error:
            self._report(obj, error)
            return None
        version = resource_version(obj)
        self._set_aside.pop(_identity(obj), None)
        self._bury(obj, version)
        held = self._objects.get(key)
        if held is None or (uid_of(held) != uid_of(obj) != "") or _is_older(version, resource_version(held)):
            return None
        return self._drop(key, initial=False)

    def gone(self, obj: Object) -> Change | None:
        """Drop `obj`, however new what is held of it: it no longer exists, since a version that nobody told us.

        So every event of it that is still to come is old, but for those of a deletion that waits for a finalizer.
        """
        key, uid = key_of(obj), uid_of(obj)
        held = self._objects.get(key)
        if held is not None and uid_of(held) == uid and finalizers_of(held):
            return None
        self._bury(obj, _FOR_GOOD)
        return None if held is None or uid_of(held) != uid else self._drop(key, initial=False)

    def replace(self, objects: Iterable[Object], version: str = "", *, force: bool = False) -> Changes:
        """Hold exactly `objects`, a complete list at resourceVersion `version`: the changes that this makes.

        An object held that is newer than the list survives its absence there: it was written after the list was taken.
        """
        changes: Changes = []
        listed: set[Key] = set()
        for obj in objects:
            change = self.put(obj, initial=True, force=force)
            if change is not None:
                changes += split(change)
            key = key_or_none(obj)
            if key is not None:
                listed.add(key)
        return changes + self.retain(listed, "" if force else version)

    def retain(self, listed: AbstractSet[Key], version: str = "") -> Changes:
        """Drop what is not in `listed`, the keys of a complete list at resourceVersion `version` (empty: of any time)."""
        changes: Changes = []
        self._listed_at = version
        for key, held in [item for item in self._objects.items() if item[0] not in listed]:
            if version and _is_older(version, resource_version(held)):
                continue
            self._bury(held, version or resource_version(held))
            changes.append(self._drop(key, initial=True))
        return changes

    # Inside

    def _holds_version(self, obj: Any) -> bool:
        """Whether that very version is held: told of our own writes' events, before anything is made of them."""
        try:
            held = self._objects.get(key_of(obj))
            return held is not None and resource_version(obj) == resource_version(held) != ""
        except (TypeError, KeyError, AttributeError):  # a bad object: the admission says what is wrong with it
            return False

    def _admit(self, obj: Any) -> "_Admitted | None":
        """Key, object to hold and its values in each index; None when `obj` is bad, which is reported once."""
        try:
            key = _check(obj)
            held = self._transform(obj)
            indexed = [index.values_of(held) for index in self._indexes.values()]
        except Exception as error:  # noqa: BLE001 - transforms and index functions are the user's: one object, not all
            self._report(obj, error)
            return None
        if self._set_aside:
            self._set_aside.pop(_identity(obj), None)
        return _Admitted(key, held, indexed)

    def _report(self, obj: Any, error: Exception) -> None:
        identity = _identity(obj) if key_or_none(obj) is not None else repr(obj)[:256]
        if self._set_aside.get(identity) == str(error):
            return
        self._set_aside[identity] = str(error)
        if len(self._set_aside) > _MAX_TOMBSTONES:
            self._set_aside.popitem(last=False)
        try:
            self._on_bad_object(obj, error)
        except Exception:  # noqa: BLE001 - the hook is the user's: it must not stop the stream
            _log.exception("%s: the hook for bad objects raised", self.resource)

    def _drop(self, key: Key, *, initial: bool) -> Change:
        old = self._objects.pop(key)
        self._snapshot = None
        neighbours = self._namespaces[key.namespace]
        del neighbours[key]
        if not neighbours:
            del self._namespaces[key.namespace]
        for index in self._indexes.values():
            index.remove(key)
        return Change(ChangeType.DELETED, key, old, None, initial)

    def _is_buried(self, obj: Object, version: str) -> bool:
        gone_at = self._tombstones.get(uid_of(obj)) if self._tombstones else None
        if gone_at == _FOR_GOOD:
            return not is_deleting(obj)
        # A newer version of a buried uid is real: it left the scope's selector and came back.
        return gone_at is not None and not _is_older(gone_at, version)

    def _bury(self, obj: Object, version: str) -> None:
        uid = uid_of(obj)
        if not uid:  # nothing would tell a late answer from a new object
            return
        gone_at = self._tombstones.pop(uid, "")
        self._tombstones[uid] = gone_at if _is_older(version, gone_at) else version
        if len(self._tombstones) > _MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)


def key_or_none(obj: Any) -> Key | None:
    """The key of `obj`, None when it has none or is no object at all."""
    try:
        return _check(obj)
    except (TypeError, ValueError):
        return None


def _check(obj: Any) -> Key:
    """The key of `obj`. Raises: TypeError or ValueError saying what it lacks."""
    if not isinstance(obj, _MAPPING):
        raise TypeError(f"not an object but {type(obj).__name__}")
    metadata = obj.get("metadata")
    if not isinstance(metadata, _MAPPING):
        raise TypeError("metadata is missing or no object")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ValueError("metadata.name is missing or no text")
    return key_of(obj)


def _identity(obj: Object) -> str:
    """The uid, or the key where a source gives none."""
    return uid_of(obj) or str(key_of(obj))


def _is_older(version: str, than: str) -> bool:
    """Whether both are numbers and `version` is the smaller: unlike `is_newer` it never guesses."""
    return version.isdecimal() and than.isdecimal() and is_newer(than, version)


def _is_known(version: str, at: str) -> bool:
    """Whether both are numbers and who saw everything up to `at` saw `version`."""
    return version.isdecimal() and at.isdecimal() and not is_newer(version, at)


def _is_stale(version: str, held: str) -> bool:
    """Whether `version` brings nothing over `held`. An object without a version always counts as news."""
    return version != "" and not is_newer(version, held)


def _owner_uid(obj: Object) -> Iterable[str]:
    owner = controller_of(obj)
    return (str(owner["uid"]),) if owner else ()
