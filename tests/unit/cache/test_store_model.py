"""The store against a plain reference, under events and write-throughs that come late, twice or out of order.

The server's history is made up first: every object version it ever held, in order. The store is then told of versions in
any order; the reference looks at the history to say what may be held.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from konverge.cache.store import OWNER_INDEX, Change, ChangeType, Store
from konverge.model.meta import Key, key_of, labels_of, owners_of, resource_version
from konverge.model.resource import Object, Pod
from tests.unit.cache.scripted import pod

NAMES = st.sampled_from("abc")
OWNERS = st.sampled_from(["", "u", "v"])
LABELS = st.sampled_from(["", "web", "db"])


class StoreAgainstReference(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store(Pod)
        self.store.add_index("app", lambda obj: [labels_of(obj)["app"]] if "app" in labels_of(obj) else [])
        self.version = 0
        self.live: dict[Key, Object] = {}
        """What the server holds."""
        self.past: list[Object] = []
        """Every state that the server ever held: what a write may have returned."""
        self.mirror: dict[Key, Object] = {}
        """What a subscriber knows who applies each change."""
        self.told = 0
        """Up to which version the store knows everything."""
        self.events: list[tuple[bool, Object]] = []
        """What the watch has still to deliver: whether it is a deletion, and the object."""

    def note(self, changes: list[Change]) -> None:
        for change in changes:
            assert change.old == self.mirror.get(change.key)
            assert (change.type is ChangeType.ADDED) == (change.old is None)
            assert (change.type is ChangeType.DELETED) == (change.new is None)
            if change.new is None:
                del self.mirror[change.key]
            else:
                self.mirror[change.key] = change.new

    # The server

    @rule(name=NAMES, owner=OWNERS, label=LABELS)
    def server_writes(self, name: str, owner: str, label: str) -> None:
        self.version += 1
        held = self.live.get(Key("ns", name))
        uid = held["metadata"]["uid"] if held else f"{name}-{self.version}"
        owners = [{"uid": owner, "controller": True}] if owner else []
        obj = pod(name, self.version, uid=uid, ownerReferences=owners, labels={"app": label} if label else {})
        self.live[key_of(obj)] = obj
        self.past.append(obj)
        self.events.append((False, obj))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def server_deletes(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.live)))
        self.version += 1
        gone = self.live.pop(key)
        last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self.events.append((True, last))

    # What the store is told

    @precondition(lambda self: self.events)
    @rule()
    def the_watch_delivers(self) -> None:
        is_deletion, obj = self.events.pop(0)
        change = self.store.remove(obj) if is_deletion else self.store.put(obj)
        self.told = max(self.told, int(resource_version(obj)))
        self.note_one(change)

    @rule()
    def a_list_replaces_all(self) -> None:
        self.note(self.store.replace(list(self.live.values()), str(self.version)))
        self.events.clear()
        self.told = self.version

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def a_write_returns_late(self, data: st.DataObject) -> None:
        self.note_one(self.store.wrote(data.draw(st.sampled_from(self.past))))

    @precondition(lambda self: self.past)
    @rule()
    def a_write_returns_at_once(self) -> None:
        last = self.past[-1]
        self.note_one(self.store.wrote(last))
        if self.live.get(key_of(last)) == last:
            assert self.store.get(key_of(last)) == last, "read your writes"

    def note_one(self, change: Change | None) -> None:
        if change is None:
            return
        if change.old is not None and change.new is not None:
            assert int(resource_version(change.new)) > int(resource_version(change.old))
        self.note([change])

    # What holds at any time

    @invariant()
    def nothing_is_older_than_what_the_store_was_told(self) -> None:
        for key, obj in self.live.items():
            if int(resource_version(obj)) <= self.told:
                assert self.store.get(key) == obj

    @invariant()
    def nothing_deleted_is_held(self) -> None:
        for key in self.store.keys() - self.live.keys():
            # Then its deletion lies ahead: the watch has not delivered it yet.
            uid = self.store.snapshot()[key]["metadata"]["uid"]
            assert any(is_deletion and obj["metadata"]["uid"] == uid for is_deletion, obj in self.events)

    @invariant()
    def subscribers_know_what_is_held(self) -> None:
        assert self.mirror == dict(self.store.snapshot())

    @invariant()
    def indexes_say_what_a_search_would_say(self) -> None:
        objects = self.store.list()
        assert len(objects) == len(self.store)
        for owner in ("u", "v"):
            by_search = [obj for obj in objects if owner in [ref["uid"] for ref in owners_of(obj)]]
            by_index = self.store.by_index(OWNER_INDEX, owner)
            assert sorted(map(key_of, by_index)) == sorted(map(key_of, by_search))
        for label in ("web", "db"):
            by_search = [obj for obj in objects if labels_of(obj).get("app") == label]
            assert sorted(map(key_of, self.store.by_index("app", label))) == sorted(map(key_of, by_search))
        assert len(self.store.list("ns")) == len(objects)


TestStoreAgainstReference = StoreAgainstReference.TestCase
TestStoreAgainstReference.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
