"""The state behind the fake API: objects, versions, history, watches, finalizers. No faults, no waiting.

Requests flow in from `fake.FakeApi` as plain calls that act at once, commits flow out to the watch streams. Everything
that goes in or out is copied, so that nobody holds the server's own objects.
"""

import base64
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from konverge.errors import ApiError
from konverge.model.conditions import timestamp
from konverge.model.meta import Key
from konverge.model.resource import Object, Pod, ResourceType
from konverge.model.selectors import Selector
from konverge.ports import Clock, Page, Scope, WatchEventType
from konverge.testing import fake_apply
from konverge.testing import fake_traits as say
from konverge.testing.fake_apply import ManagerKey, Managers
from konverge.testing.fake_faults import Faults, gone
from konverge.testing.fake_gc import FOREGROUND, ORPHAN, GarbageCollector
from konverge.testing.fake_json import JsonDict, copy_json
from konverge.testing.fake_objects import (
    Collection,
    Entry,
    Write,
    check_finalizers,
    check_preconditions,
    desired,
    field_conflict,
    key_for,
    new_metadata,
    same_owners,
    uid_differs,
    with_member,
)
from konverge.testing.fake_streams import Commit, Matcher, Stream, metadata_of
from konverge.testing.fake_traits import Traits

FIRST_VERSION: Final = 1000
"""The resourceVersion of the server's start; nothing can be watched from before it."""
_FINALIZER_OF: Final = {"Foreground": FOREGROUND, "Orphan": ORPHAN}

Admission = Callable[[str, ResourceType, JsonDict, Object | None], None]
"""`hook(verb, resource, new, old)`: may change `new` in place (defaults, normal forms) or raise an `ApiError`."""


class FakeServer:
    """See `fake.FakeApi`, which is how clients reach it."""

    def __init__(
        self,
        clock: Clock,
        chance: random.Random,
        *,
        history: int = 1000,
        collection_delay: tuple[float, float] = (0.01, 0.5),
    ) -> None:
        self.clock, self.random, self.history = clock, chance, history
        self.version = FIRST_VERSION
        self.admission: list[Admission] = []
        self.gives_initial_events = True
        self._collections: dict[ResourceType, Collection] = {}
        self._collector = GarbageCollector(self, chance, collection_delay)
        self._tokens: dict[str, tuple[int, list[Entry]]] = {}

    def collection(self, resource: ResourceType, *, must_serve: bool = True) -> Collection:
        """The collection, made on first use. Raises: NotFound when the resource is uninstalled."""
        found = self._collections.get(resource)
        if found is None:
            found = Collection(resource, say.traits_of(resource), self.history, forgotten=FIRST_VERSION)
            self._collections[resource] = found
        if must_serve and not found.served:
            raise say.not_served()
        return found

    def collections(self) -> Iterator[Collection]:
        """Every collection used so far."""
        yield from self._collections.values()

    def get(self, resource: ResourceType, key: Key) -> JsonDict:
        """Raises: NotFound."""
        return self._entry(self.collection(resource), key).shown()

    def matcher(self, resource: ResourceType, scope: Scope) -> Matcher:
        """The predicate of a scope. Raises: BadRequest."""
        fields = say.field_matcher(resource, scope.field_selector)
        try:
            labels = Selector.parse(scope.label_selector)
        except ValueError as error:
            raise say.bad_request(str(error)) from error
        namespace = scope.namespace if resource.namespaced else None

        def matches(obj: Object) -> bool:
            metadata = obj["metadata"]
            inside = not namespace or metadata.get("namespace") == namespace
            return inside and labels.matches(metadata.get("labels")) and fields(obj)

        return matches

    def list(self, resource: ResourceType, scope: Scope, limit: int, token: str, version: str) -> Page:
        """One page of a snapshot that stays as it is while its tokens last. Raises: Gone; BadRequest."""
        collection = self.collection(resource)
        if token:
            at, rest = self._tokens.get(token, (-1, []))
            if at < collection.forgotten:
                raise gone("The provided continue parameter is too old to display a consistent list result.")
        else:
            self._check_reached(version)
            matches = self.matcher(resource, scope)
            at = self.version
            rest = [collection.entries[key] for key in sorted(collection.entries)]
            rest = [entry for entry in rest if matches(entry.obj)]
        items, rest = (rest[:limit], rest[limit:]) if limit > 0 else (rest, [])
        following = ""
        if rest:
            following = base64.urlsafe_b64encode(f"{at}:{len(self._tokens)}".encode()).decode()
            self._tokens[following] = (at, rest)
        shown = [entry.shown() for entry in items]
        return Page([metadata_of(obj) for obj in shown] if scope.metadata_only else shown, str(at), following)

    def open_stream(
        self, resource: ResourceType, scope: Scope, version: str, faults: Faults, *, initial_events: bool = False
    ) -> Stream:
        """A watch of what comes after `version`; without one, or 0, of all there is and what comes.

        Raises: Gone; Invalid for `initial_events` where the server gives none.
        """
        collection = self.collection(resource)
        self._check_reached(version)
        if initial_events and not self.gives_initial_events:
            why = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise say.invalid(resource, "", why)
        stream = Stream(resource, scope, self.matcher(resource, scope), faults, lambda: self.version)
        if version in {"", "0"} or initial_events:
            for _, entry in sorted(collection.entries.items()):
                stream.push(Commit(self.version, "ADDED", None, entry.shown()))
            if initial_events:
                stream.push_end_of_initial_events()
        else:
            if int(version) < collection.forgotten:
                raise gone(f"too old resource version: {version} ({collection.forgotten})")
            for commit in collection.log:
                if commit.version > int(version):
                    stream.push(commit)
        collection.streams[stream] = None
        return stream

    def close_stream(self, stream: Stream) -> None:
        """The client left."""
        self.collection(stream.resource, must_serve=False).streams.pop(stream, None)

    def create(self, resource: ResourceType, body: Object, namespace: str | None, write: Write) -> JsonDict:
        """Raises: AlreadyExists; Invalid; BadRequest."""
        collection = self.collection(resource)
        obj: JsonDict = copy_json(body)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise say.bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            letters = "bcdfghjklmnpqrstvwxz2456789"
            metadata["name"] = metadata["generateName"] + "".join(self.random.choice(letters) for _ in range(5))
        if not metadata.get("name"):
            raise say.invalid(resource, "", "metadata.name: Required value: name or generateName is required")
        say.check_name(resource, metadata["name"])
        key = key_for(resource, obj, namespace)
        if key in collection.entries:
            raise say.already_exists(resource, key.name)
        if collection.traits.status:
            obj.pop("status", None)
        return self._insert(collection, key, obj, {}, ManagerKey(write.manager, "Update"), write.dry_run)

    def apply(
        self, resource: ResourceType, key: Key, body: Object, write: Write, *, force: bool
    ) -> tuple[JsonDict, bool]:
        """Server-side apply. Returns the object and whether anything changed. Raises: Conflict; NotFound; BadRequest."""
        collection = self.collection(resource)
        applied: JsonDict = copy_json(body)
        if applied.get("apiVersion") != resource.api_version or applied.get("kind") != resource.kind:
            raise say.bad_request(
                f"the applied document must say apiVersion {resource.api_version} and kind {resource.kind}"
            )
        self._check_subresource(collection, write.subresource)
        key_for(resource, {"metadata": {"name": key.name} | applied.get("metadata", {})}, key.namespace, key.name)
        entry = collection.entries.get(key)
        if entry is None and write.subresource:
            raise say.not_found(resource, key.name)
        writer = ManagerKey(write.manager, "Apply", write.subresource)
        live = entry.obj if entry else {}
        check_preconditions(resource, key, live, applied, whole=False)
        if not write.subresource and collection.traits.status:
            applied.pop("status", None)
        try:
            merged, managers = fake_apply.apply(
                live,
                applied,
                entry.managers if entry else {},
                writer,
                force=force,
                shape=collection.shape,
                api_version=resource.api_version,
                now=self._stamp(),
            )
        except fake_apply.FieldConflicts as conflicts:
            raise field_conflict(conflicts) from conflicts
        if entry is None:
            merged = {"apiVersion": resource.api_version, "kind": resource.kind} | merged
            say.check_name(resource, key.name)
            return self._insert(collection, key, merged, managers, writer, write.dry_run), not write.dry_run
        return self._change(collection, key, merged, write, managers)

    def update(
        self, resource: ResourceType, key: Key, write: Write, change: Callable[[JsonDict], Any], *, whole: bool
    ) -> tuple[JsonDict, bool]:
        """A replace or patch: `change` makes the new document from a copy of the old. Raises: any ApiError.

        `whole`: the document is the caller's own, so that a missing resourceVersion is its own choice.
        """
        collection = self.collection(resource)
        self._check_subresource(collection, write.subresource)
        entry = self._entry(collection, key)
        new: JsonDict = copy_json(change(entry.shown()))
        key_for(resource, new, key.namespace, key.name)
        if whole and not new["metadata"].get("resourceVersion") and not collection.traits.unconditional:
            raise say.invalid(
                resource, key.name, "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )
        check_preconditions(resource, key, entry.obj, new, whole=whole)
        return self._change(collection, key, new, write, None)

    def delete(self, resource: ResourceType, key: Key, uid: str, propagation: str) -> JsonDict:
        """Delete, or mark for deletion while finalizers stand. Raises: NotFound; Conflict."""
        collection = self.collection(resource)
        entry = self._entry(collection, key)
        if uid and uid != entry.obj["metadata"]["uid"]:
            raise say.conflict(resource, key.name, uid_differs(uid, entry.obj))
        obj: JsonDict = copy_json(entry.obj)
        metadata = obj["metadata"]
        finalizers = [f for f in metadata.get("finalizers") or [] if f not in {FOREGROUND, ORPHAN}]
        finalizers += [_FINALIZER_OF[propagation]] if propagation in _FINALIZER_OF else []
        if not finalizers:
            return self._remove(collection, key)
        metadata["finalizers"] = finalizers
        if "deletionTimestamp" not in metadata:
            metadata |= {"deletionTimestamp": self._stamp(), "deletionGracePeriodSeconds": 0}
            if "generation" in metadata:
                metadata["generation"] += 1
        if obj != entry.obj:
            self._commit(collection, key, "MODIFIED", Entry(obj, entry.managers))
        self._collector.visit_later(resource, key)
        return collection.entries[key].shown()

    def bind(self, key: Key, binding: Object, write: Write) -> None:
        """The pods/binding subresource. Raises: NotFound; Conflict; Invalid."""
        collection = self.collection(Pod)
        if (binding.get("metadata") or {}).get("name", key.name) != key.name:
            raise say.bad_request("name in URL does not match name in Binding object")
        obj: JsonDict = copy_json(self._entry(collection, key).obj)
        target = binding.get("target") or {}
        if target.get("kind") not in {None, "", "Node"} or not target.get("name"):
            raise say.invalid(Pod, key.name, "target: Required value: the name of a Node")
        uid, metadata, spec = (binding.get("metadata") or {}).get("uid"), obj["metadata"], obj.setdefault("spec", {})
        refusal = ""
        if uid and uid != metadata["uid"]:
            refusal = uid_differs(uid, obj)
        elif "deletionTimestamp" in metadata:
            refusal = f"pod {key.name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            refusal = f'pod {key.name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            refusal = f"pod {key.name} has non-empty .spec.schedulingGates"
        if refusal:
            why = f'Operation cannot be fulfilled on pods/binding "{key.name}": {refusal}'
            raise ApiError.of(409, "Conflict", why, details=say.details(Pod, key.name))
        spec["nodeName"] = target["name"]
        annotations = (binding.get("metadata") or {}).get("annotations")
        if annotations:
            metadata["annotations"] = (metadata.get("annotations") or {}) | annotations
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._stamp(),
        }
        status = obj.setdefault("status", {})
        others = [c for c in status.get("conditions") or [] if c.get("type") != "PodScheduled"]
        status["conditions"] = [*others, scheduled]
        self._store_update(collection, key, obj, ManagerKey(write.manager, "Update", "binding"), None)

    def store(self, collection: Collection, key: Key, obj: JsonDict, manager: str) -> tuple[JsonDict, bool]:
        """Update an object without more ado, as the garbage collector does."""
        return self._store_update(collection, key, obj, ManagerKey(manager, "Update"), None)

    def uninstall(self, resource: ResourceType) -> None:
        """As when a CRD is deleted: its objects go, its watches end, and every call is a 404."""
        collection = self.collection(resource, must_serve=False)
        for key in list(collection.entries):
            self._remove(collection, key)
        collection.served = False
        for stream in list(collection.streams):
            stream.end()

    def install(self, resource: ResourceType, traits: Traits | None = None) -> None:
        """Serve `resource` (again), with other traits than those assumed if given."""
        collection = self.collection(resource, must_serve=False)
        collection.served, collection.traits = True, traits or collection.traits

    def compact(self) -> None:
        """Forget all history: watches from before now, and continue tokens, are Gone."""
        self.version += 1
        for collection in self._collections.values():
            collection.forget(self.version)

    def _insert(
        self, collection: Collection, key: Key, obj: JsonDict, managers: Managers, writer: ManagerKey, dry_run: bool
    ) -> JsonDict:
        resource = collection.resource
        own: JsonDict = {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
        own |= {"uid": str(uuid.UUID(int=self.random.getrandbits(128), version=4)), "creationTimestamp": self._stamp()}
        if collection.traits.generation:
            own["generation"] = 1
        metadata = new_metadata(obj.get("metadata") or {}, own)
        obj = {"apiVersion": resource.api_version, "kind": resource.kind} | obj | {"metadata": metadata}
        if resource == Pod:
            obj.setdefault("spec", {}).setdefault("schedulerName", "default-scheduler")
            obj["status"] = {"phase": "Pending"}
        self._admit("create", resource, obj, None)
        if not managers:
            managers = fake_apply.update(
                {}, obj, {}, writer, shape=collection.shape, api_version=resource.api_version, now=self._stamp()
            )
        if dry_run:
            return Entry(obj, managers).shown()
        self._commit(collection, key, "ADDED", Entry(obj, managers))
        return collection.entries[key].shown()

    def _change(
        self, collection: Collection, key: Key, new: JsonDict, write: Write, managers: Managers | None
    ) -> tuple[JsonDict, bool]:
        """Bring `new` into the form that may be stored over the old object, and store it."""
        old = collection.entries[key].obj
        if write.subresource == "status":
            new = with_member(copy_json(old), "status", new.get("status"))
        else:
            metadata = new_metadata(new.get("metadata") or {}, old["metadata"])
            new = new | {"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata}
            if collection.traits.status:
                new = with_member(new, "status", old.get("status"))
            check_finalizers(collection.resource, key, old, new)
        self._admit("update", collection.resource, new, old)
        if collection.traits.generation and not write.subresource and desired(new) != desired(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        writer = ManagerKey(write.manager, "Update", write.subresource)
        if write.dry_run:
            return Entry(new, managers or collection.entries[key].managers).shown(), False
        return self._store_update(collection, key, new, writer, managers)

    def _store_update(
        self, collection: Collection, key: Key, new: JsonDict, writer: ManagerKey, managers: Managers | None
    ) -> tuple[JsonDict, bool]:
        """Commit, unless nothing differs; a deleting object that lost its last finalizer goes away."""
        old = collection.entries[key]
        if managers is None:
            managers = fake_apply.update(
                old.obj,
                new,
                old.managers,
                writer,
                shape=collection.shape,
                api_version=collection.resource.api_version,
                now=self._stamp(),
            )
        if new == old.obj and same_owners(managers, old.managers):
            return old.shown(), False
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            collection.entries[key] = Entry(new, managers)
            return self._remove(collection, key), True
        self._commit(collection, key, "MODIFIED", Entry(new, managers))
        return collection.entries[key].shown(), True

    def _commit(self, collection: Collection, key: Key, change: WatchEventType, entry: Entry) -> None:
        self.version += 1
        metadata = entry.obj["metadata"] | {"resourceVersion": str(self.version)}
        entry = Entry(entry.obj | {"metadata": metadata}, entry.managers)
        before = collection.entries.get(key)
        collection.entries[key] = entry
        collection.publish(Commit(self.version, change, before and before.obj, entry.shown()))
        self._collector.committed(collection.resource, key, entry.obj["metadata"])

    def _remove(self, collection: Collection, key: Key) -> JsonDict:
        entry = collection.entries.pop(key)
        self.version += 1
        last: JsonDict = copy_json(entry.shown())
        last["metadata"]["resourceVersion"] = str(self.version)
        collection.publish(Commit(self.version, "DELETED", entry.obj, last))
        self._collector.removed(last["metadata"])
        return last

    def _admit(self, verb: str, resource: ResourceType, new: JsonDict, old: Object | None) -> None:
        for hook in self.admission:
            hook(verb, resource, new, old)

    def _entry(self, collection: Collection, key: Key) -> Entry:
        entry = collection.entries.get(key)
        if entry is None:
            raise say.not_found(collection.resource, key.name)
        return entry

    def _check_subresource(self, collection: Collection, subresource: str) -> None:
        if subresource and not (subresource == "status" and collection.traits.status):
            raise say.not_served()

    def _check_reached(self, version: str) -> None:
        if version and not version.isdecimal():
            raise say.bad_request(f'invalid resource version "{version}"')
        if version and int(version) > self.version:
            raise ApiError.of(504, "Timeout", f"Too large resource version: {version}, current: {self.version}")

    def _stamp(self) -> str:
        return timestamp(self.clock.now())
