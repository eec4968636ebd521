"""The garbage collector of the fake API server: what owner references mean when owners go, a while later.

It hears of every commit and removal, looks at the objects concerned after a random delay, as the real one in
kube-controller-manager does, and acts through the server's own deletes and updates.
"""

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from konverge.model.meta import Key
from konverge.model.resource import ResourceType
from konverge.testing.fake_json import JsonDict, copy_json
from konverge.testing.fake_objects import Collection, with_member

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class Host(Protocol):
    """What the collector needs of the server."""

    def collection(self, resource: ResourceType, *, must_serve: bool = True) -> Collection:
        """The collection of a resource."""
        ...

    def collections(self) -> Iterable[Collection]:
        """All of them."""
        ...

    def delete(self, resource: ResourceType, key: Key, uid: str, propagation: str) -> Any:
        """Delete, or mark for deletion."""
        ...

    def store(self, collection: Collection, key: Key, obj: JsonDict, manager: str) -> Any:
        """Update an object."""
        ...


class GarbageCollector:
    """Deletes what lost all its owners; serves deletes with propagation Foreground and Orphan."""

    def __init__(self, host: Host, chance: random.Random, delay: tuple[float, float]) -> None:
        self._host, self._random, self._delay = host, chance, delay
        self._children: dict[str, set[tuple[ResourceType, Key]]] = {}
        self._uids: set[str] = set()

    def committed(self, resource: ResourceType, key: Key, metadata: Mapping[str, Any]) -> None:
        """An object was created or changed."""
        self._uids.add(metadata["uid"])
        owners = _owner_uids(metadata)
        for uid in owners:
            self._children.setdefault(uid, set()).add((resource, key))
        if any(uid not in self._uids for uid in owners):
            self.visit_later(resource, key)

    def removed(self, metadata: Mapping[str, Any]) -> None:
        """An object is gone: its dependents may go, and an owner may have waited for this."""
        self._uids.discard(metadata["uid"])
        for child in list(self._dependents(metadata["uid"])):
            self.visit_later(*child)
        waited = set(_owner_uids(metadata))
        for collection in self._host.collections() if waited else ():
            for key, entry in collection.entries.items():
                if entry.obj["metadata"]["uid"] in waited:
                    self.visit_later(collection.resource, key)

    def visit_later(self, resource: ResourceType, key: Key) -> None:
        """Look at an object a while from now."""
        delay = self._random.uniform(*self._delay)
        asyncio.get_running_loop().call_later(delay, self._visit, resource, key)

    def _visit(self, resource: ResourceType, key: Key) -> None:
        collection = self._host.collection(resource, must_serve=False)
        entry = collection.entries.get(key)
        if entry is None:
            return
        metadata = entry.obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if "deletionTimestamp" not in metadata:
            owners = _owner_uids(metadata)
            if owners and not any(uid in self._uids for uid in owners):
                self._host.delete(resource, key, metadata["uid"], "Background")
        elif FOREGROUND in finalizers:
            self._foreground(collection, key, metadata["uid"])
        elif ORPHAN in finalizers:
            for child, child_key in list(self._dependents(metadata["uid"])):
                self._disown(self._host.collection(child), child_key, metadata["uid"])
            self._drop_finalizer(collection, key, ORPHAN)

    def _foreground(self, collection: Collection, key: Key, uid: str) -> None:
        """Dependents first; the last of them to go brings the collector here again."""
        dependents = list(self._dependents(uid))
        for child, child_key in dependents:
            metadata = self._host.collection(child).entries[child_key].obj["metadata"]
            if "deletionTimestamp" not in metadata:
                below = any(self._dependents(metadata["uid"]))
                self._host.delete(child, child_key, "", "Foreground" if below else "Background")
        if not dependents:
            self._drop_finalizer(collection, key, FOREGROUND)

    def _dependents(self, uid: str) -> Iterator[tuple[ResourceType, Key]]:
        for resource, key in sorted(self._children.get(uid, ()), key=lambda child: (child[0].name, child[1])):
            entry = self._host.collection(resource, must_serve=False).entries.get(key)
            if entry is not None and uid in _owner_uids(entry.obj["metadata"]):
                yield resource, key

    def _drop_finalizer(self, collection: Collection, key: Key, name: str) -> None:
        obj: JsonDict = copy_json(collection.entries[key].obj)
        obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != name]
        self._host.store(collection, key, obj, "garbage-collector")

    def _disown(self, collection: Collection, key: Key, uid: str) -> None:
        obj: JsonDict = copy_json(collection.entries[key].obj)
        owners = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
        obj["metadata"] = with_member(obj["metadata"], "ownerReferences", owners or None)
        self._host.store(collection, key, obj, "garbage-collector")


def _owner_uids(metadata: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in metadata.get("ownerReferences") or []]
