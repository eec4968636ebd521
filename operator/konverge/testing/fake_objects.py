"""What the fake API server stores, and the small steps that bring a document into the form that may be stored."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from konverge.errors import ApiError
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.testing import fake_apply
from konverge.testing.fake_apply import ManagerKey, Managers
from konverge.testing.fake_json import JsonDict, copy_json
from konverge.testing.fake_streams import Commit, Stream
from konverge.testing.fake_traits import Traits, bad_request, conflict, invalid, modified

SERVERS_OWN: Final = (
    "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
    "resourceVersion",
)  # fmt: skip
"""The metadata that no client can change."""


class Entry(NamedTuple):
    """A stored object, without managedFields, and who owns its fields."""

    obj: JsonDict
    managers: Managers

    def shown(self) -> JsonDict:
        """The object as the API shows it, copied."""
        obj: JsonDict = copy_json(self.obj)
        if self.managers:
            obj["metadata"]["managedFields"] = fake_apply.managed_fields(self.managers)
        return obj


class Write(NamedTuple):
    """How a write is done: by whom, through which subresource, and whether only for show."""

    manager: str
    subresource: str = ""
    dry_run: bool = False


@dataclass
class Collection:
    """All objects of one resource, its recent history, and its open watches in the order of their opening."""

    resource: ResourceType
    traits: Traits
    history: int
    entries: dict[Key, Entry] = field(default_factory=dict)
    log: deque[Commit] = field(default_factory=deque)
    forgotten: int = 0
    streams: dict[Stream, None] = field(default_factory=dict)
    served: bool = True

    @property
    def shape(self) -> fake_apply.Shape:
        """Which lists are associative."""
        return fake_apply.BUILT_IN if self.traits.builtin else fake_apply.CUSTOM

    def publish(self, commit: Commit) -> None:
        """Add to the history, forgetting what is beyond the window, and tell the watches."""
        self.log.append(commit)
        while len(self.log) > self.history:
            self.forgotten = self.log.popleft().version
        for stream in self.streams:
            stream.push(commit)

    def forget(self, version: int) -> None:
        """Compact: nothing before `version` can be watched from any more."""
        self.log.clear()
        self.forgotten = version


def key_for(resource: ResourceType, obj: Object, namespace: str | None, name: str = "") -> Key:
    """The key of a document in a request for `namespace` and, where given, `name`. Raises: BadRequest."""
    metadata = obj.get("metadata") or {}
    for field_name, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field_name, wanted) != wanted:
            raise bad_request(f"{field_name} {obj[field_name]} does not match the request's {wanted}")
    if name and metadata.get("name") != name:
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})"
        )
    if not resource.namespaced:
        return Key("", metadata["name"])
    inside = metadata.get("namespace") or namespace
    if not inside:
        raise bad_request("an empty namespace may not be set during creation")
    if namespace and inside != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return Key(inside, metadata["name"])


def check_preconditions(resource: ResourceType, key: Key, live: Object, new: Object, *, whole: bool) -> None:
    """Raises: Conflict when the resourceVersion in `new`, or in a `whole` document the uid, is not the live object's.

    In a patch, another uid is not a precondition that fails, but the change of a field that cannot be: Invalid.
    """
    asked, have = new.get("metadata") or {}, live.get("metadata") or {}
    if asked.get("uid") and asked["uid"] != have.get("uid"):
        if whole:
            raise conflict(resource, key.name, uid_differs(asked["uid"], live))
        raise invalid(resource, key.name, f'metadata.uid: Invalid value: "{asked["uid"]}": field is immutable')
    if asked.get("resourceVersion") and asked["resourceVersion"] != have.get("resourceVersion"):
        raise modified(resource, key.name)


def check_finalizers(resource: ResourceType, key: Key, old: Object, new: Object) -> None:
    """Raises: Invalid when a deleting object would get a new finalizer."""
    added = set(new["metadata"].get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
    if added and "deletionTimestamp" in old["metadata"]:
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        raise invalid(resource, key.name, f"metadata.finalizers: Forbidden: {why} {sorted(added)}")


def uid_differs(asked: str, live: Object) -> str:
    """The words for a failed uid precondition."""
    have = (live.get("metadata") or {}).get("uid", "")
    return f"Precondition failed: UID in precondition: {asked}, UID in object meta: {have}"


def field_conflict(conflicts: fake_apply.FieldConflicts) -> ApiError:
    """The 409 of an apply that was not forced."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": path}
        for manager, path in conflicts.conflicts
    ]
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}: {listed}"
    return ApiError.of(409, "Conflict", message, details={"causes": causes})


def with_member(obj: Object, name: str, value: Any) -> JsonDict:
    """`obj` with that member, or without it when the value is None."""
    rest = {key: member for key, member in obj.items() if key != name}
    return rest if value is None else rest | {name: copy_json(value)}


def new_metadata(given: Mapping[str, Any], kept: Mapping[str, Any]) -> JsonDict:
    """What a client gave, less what is empty or not its to give, with the server's own fields from `kept`."""
    mine = {name: value for name, value in given.items() if name not in {*SERVERS_OWN, "managedFields"} and value}
    return mine | {name: kept[name] for name in SERVERS_OWN if name in kept}


def desired(obj: Object) -> JsonDict:
    """What the generation counts: all but metadata and status."""
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}


def same_owners(one: Managers, other: Managers) -> bool:
    """Whether everybody owns the same, whenever it was written down."""
    return _paths(one) == _paths(other)


def _paths(managers: Managers) -> dict[ManagerKey, fake_apply.Paths]:
    return {key: managed.paths for key, managed in managers.items()}
