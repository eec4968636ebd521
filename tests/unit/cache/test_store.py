"""What a store holds after what it was told, and which changes it reports."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import pytest

from konverge.cache.store import OWNER_INDEX, Change, ChangeType, Store, split, strip_managed_fields
from konverge.model.meta import Key, resource_version
from konverge.model.resource import Object, Pod
from konverge.model.selectors import Selector
from tests.unit.cache.scripted import pod

ADDED, UPDATED, DELETED = ChangeType.ADDED, ChangeType.UPDATED, ChangeType.DELETED
A = Key("ns", "a")


def store_of(*objects: Object, **options: Any) -> Store:
    store = Store(Pod, **options)
    for obj in objects:
        store.put(obj)
    return store


def held(store: Store) -> dict[str, str]:
    return {key.name: resource_version(obj) for key, obj in store.snapshot().items()}


# Put


def test_a_new_object_is_added_and_shared_not_copied() -> None:
    store, obj = Store(Pod), pod("a")
    assert store.put(obj) == Change(ADDED, A, None, obj)
    assert store.get(A) is obj
    assert len(store) == 1


def test_a_newer_object_replaces_and_reports_both() -> None:
    old, new = pod("a", 9), pod("a", 10)
    assert store_of(old).put(new) == Change(UPDATED, A, old, new)


@pytest.mark.parametrize("version", [9, 10])
def test_what_is_not_newer_is_ignored(version: int) -> None:
    store = store_of(pod("a", 10))
    assert store.put(pod("a", version)) is None
    assert held(store) == {"a": "10"}


def test_versions_are_compared_as_numbers_of_any_length() -> None:
    store = store_of(pod("a", "99999999999999999999"))
    assert store.put(pod("a", "100000000000000000000")) is not None


def test_of_versions_that_are_no_numbers_the_last_one_told_wins() -> None:
    store = store_of(pod("a", "b1"))
    assert store.put(pod("a", "a1")) is not None
    assert store.put(pod("a", "a1")) is None
    assert store.remove(pod("a", "c1")) is not None


def test_objects_without_a_version_are_always_news_except_the_very_same_one() -> None:
    obj = pod("a", "")
    store = store_of(obj)
    assert store.put(obj) is None
    assert store.put(pod("a", "")) is not None


# Remove and tombstones


def test_a_removed_object_is_gone_and_what_was_held_is_reported() -> None:
    obj = pod("a", 1)
    store = store_of(obj)
    assert store.remove(pod("a", 2)) == Change(DELETED, A, obj, None)
    assert (store.get(A), len(store)) == (None, 0)


def test_removing_what_is_not_held_is_no_change() -> None:
    assert Store(Pod).remove(pod("a")) is None


def test_a_late_write_through_does_not_bring_a_deleted_object_back() -> None:
    store = store_of(pod("a", 1))
    store.remove(pod("a", 5))
    assert store.put(pod("a", 4)) is None
    assert store.put(pod("a", 5)) is None
    assert len(store) == 0


def test_a_write_through_that_comes_after_an_unseen_object_was_deleted_does_not_add_it() -> None:
    store = Store(Pod)
    store.remove(pod("a", 5))
    assert store.put(pod("a", 4)) is None


def test_an_object_made_anew_under_the_same_name_is_accepted() -> None:
    store = store_of(pod("a", 1, uid="first"))
    store.remove(pod("a", 5, uid="first"))
    change = store.put(pod("a", 6, uid="second"))
    assert change is not None
    assert change.type is ADDED


def test_a_newer_version_of_a_buried_object_is_real_it_came_back_into_the_selector() -> None:
    store = store_of(pod("a", 1))
    store.remove(pod("a", 5))
    assert store.put(pod("a", 7)) is not None


def test_a_tombstone_never_gets_older() -> None:
    store = store_of(pod("a", 1))
    store.remove(pod("a", 5))
    store.remove(pod("a", 3))
    assert store.put(pod("a", 4)) is None


def test_a_removal_older_than_what_is_held_is_ignored() -> None:
    store = store_of(pod("a", 7))
    assert store.remove(pod("a", 5)) is None
    assert held(store) == {"a": "7"}


def test_a_late_removal_of_the_first_object_spares_its_successor() -> None:
    store = store_of(pod("a", 9, uid="second"))
    assert store.remove(pod("a", 8, uid="first")) is None
    assert len(store) == 1


def test_without_uids_nothing_is_buried() -> None:
    store = store_of(pod("a", 1, uid=""))
    store.remove(pod("a", 5, uid=""))
    assert store.put(pod("a", 2, uid="")) is not None


def test_tombstones_are_bounded_and_the_oldest_goes_first() -> None:
    store = Store(Pod)
    for number in range(5000):
        store.remove(pod(f"pod-{number}", 10))
    assert len(store._tombstones) == 4096
    assert store.put(pod("pod-4999", 9)) is None
    assert store.put(pod("pod-0", 9)) is not None


# Made anew between two looks


def test_another_uid_is_told_as_a_deletion_and_an_addition() -> None:
    old, new = pod("a", 1, uid="first"), pod("a", 2, uid="second")
    change = store_of(old).put(new)
    assert change is not None
    assert split(change) == (Change(DELETED, A, old, None), Change(ADDED, A, None, new))


@pytest.mark.parametrize(
    "change",
    [
        Change(ADDED, A, None, pod("a")),
        Change(UPDATED, A, pod("a", 1), pod("a", 2)),
        Change(DELETED, A, pod("a"), None),
    ],
)
def test_any_other_change_stays_one(change: Change) -> None:
    assert split(change) == (change,)


def test_the_predecessor_is_buried_with_it() -> None:
    store = store_of(pod("a", 1, uid="first"), pod("a", 5, uid="second"))
    store.remove(pod("a", 6, uid="second"))
    assert store.put(pod("a", 4, uid="first")) is None


# Replace


def test_a_list_is_taken_over_as_the_difference() -> None:
    same, old, gone = pod("same", 1), pod("old", 2), pod("gone", 3)
    store = store_of(same, old, gone)
    newer, fresh = pod("old", 8), pod("fresh", 9)
    assert store.replace([pod("same", 1), newer, fresh], "10") == [
        Change(UPDATED, Key("ns", "old"), old, newer, initial=True),
        Change(ADDED, Key("ns", "fresh"), None, fresh, initial=True),
        Change(DELETED, Key("ns", "gone"), gone, None, initial=True),
    ]
    assert store.get(Key("ns", "same")) is same


def test_a_list_shows_an_object_made_anew_as_deletion_and_addition() -> None:
    store = store_of(pod("a", 1, uid="first"))
    assert [change.type for change in store.replace([pod("a", 2, uid="second")], "3")] == [DELETED, ADDED]


def test_what_was_written_after_the_list_was_taken_survives_it() -> None:
    store = store_of(pod("a", 7), pod("created", 8))
    assert store.replace([pod("a", 3)], "5") == []
    assert held(store) == {"a": "7", "created": "8"}


def test_what_a_list_shows_to_be_gone_stays_gone() -> None:
    store = store_of(pod("a", 1))
    store.replace([], "10")
    assert store.put(pod("a", 9)) is None
    assert store.put(pod("a", 11)) is not None


def test_a_write_s_late_answer_that_a_list_would_have_shown_is_ignored() -> None:
    """Made and deleted again before the list, which is all that the store ever heard."""
    store = Store(Pod)
    store.replace([], "10")
    assert store.wrote(pod("a", 9)) is None
    assert store.wrote(pod("b", 11)) is not None
    assert store.wrote(pod("b", 12)) is not None


def test_a_list_without_a_version_is_the_whole_truth() -> None:
    store = store_of(pod("a", 99))
    assert [change.type for change in store.replace([])] == [DELETED]


def test_a_rewound_history_is_believed_even_where_it_brings_back_the_dead() -> None:
    store = store_of(pod("a", 50), pod("gone", 51))
    store.remove(pod("dead", 60))
    store.replace([pod("a", 20), pod("dead", 21)], "30", force=True)
    assert held(store) == {"a": "20", "dead": "21"}
    assert store.put(pod("dead", 31)) is not None


# Indexes and lists


def app_of(obj: Object) -> Iterable[str]:
    labels = obj["metadata"].get("labels", {})
    return [labels["app"]] if "app" in labels else []


def names(objects: list[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def owned(name: str, version: int, uid: str, *, controller: bool = True) -> Object:
    return pod(name, version, ownerReferences=[{"uid": uid, "controller": controller}])


def test_children_are_found_by_the_uid_of_their_controller() -> None:
    store = store_of(owned("a", 1, "u"), owned("b", 1, "u"), owned("c", 1, "u", controller=False), pod("d"))
    assert names(store.by_index(OWNER_INDEX, "u")) == ["a", "b"]
    assert store.by_index(OWNER_INDEX, "nobody") == []


def test_an_index_follows_changes_and_deletions() -> None:
    store = store_of(owned("a", 1, "u"), owned("b", 1, "u"))
    store.put(owned("a", 2, "v"))
    store.remove(owned("b", 2, "u"))
    assert names(store.by_index(OWNER_INDEX, "u")) == []
    assert names(store.by_index(OWNER_INDEX, "v")) == ["a"]


def test_an_index_added_late_knows_what_is_held_already() -> None:
    store = store_of(pod("a", labels={"app": "web"}), pod("b"))
    store.add_index("app", app_of)
    store.put(pod("c", labels={"app": "web"}))
    assert names(store.by_index("app", "web")) == ["a", "c"]


def test_an_index_may_give_several_values_even_the_same_one_twice() -> None:
    store = Store(Pod)
    store.add_index("letters", lambda obj: obj["metadata"]["name"])
    store.put(pod("abba"))
    assert names(store.by_index("letters", "b")) == ["abba"]
    store.remove(pod("abba", 2))
    assert store.by_index("letters", "b") == []


def test_an_index_is_added_once() -> None:
    with pytest.raises(ValueError, match="'owner' exists already"):
        Store(Pod).add_index(OWNER_INDEX, app_of)


def test_asking_an_index_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"no index 'ap'; it has: owner\. Add it with add_index"):
        Store(Pod).by_index("ap", "web")


def test_lists_are_narrowed_by_namespace_and_selector() -> None:
    store = store_of(
        pod("a", labels={"app": "web"}), pod("b"), pod("c", namespace="other", uid="c2", labels={"app": "web"})
    )
    web = Selector.parse("app=web")
    assert names(store.list()) == ["a", "b", "c"]
    assert names(store.list("ns")) == ["a", "b"]
    assert names(store.list(selector=web)) == ["a", "c"]
    assert names(store.list("ns", web)) == ["a"]
    assert store.list("nowhere") == []


def test_a_snapshot_does_not_move_and_is_shared_until_something_changes() -> None:
    store = store_of(pod("a"))
    before = store.snapshot()
    assert store.snapshot() is before
    store.put(pod("b"))
    store.remove(pod("a", 2))
    assert list(before) == [A]
    assert list(store.snapshot()) == [Key("ns", "b")]
    assert isinstance(before, MappingProxyType)


# Transform


def test_managed_fields_are_stripped_and_the_caller_s_object_is_left_alone() -> None:
    obj = pod("a", managedFields=[{"manager": "kubectl"}], labels={"app": "web"})
    store = store_of(obj)
    kept = store.get(A)
    assert kept is not None
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["labels"] == {"app": "web"}
    assert "managedFields" in obj["metadata"]


def test_an_object_without_managed_fields_is_not_copied() -> None:
    obj = pod("a")
    assert strip_managed_fields(obj) is obj


def test_a_transform_of_one_s_own_decides_what_is_held() -> None:
    store = store_of({**pod("a"), "spec": {"large": True}}, transform=lambda obj: {"metadata": obj["metadata"]})
    assert store.get(A) == {"metadata": pod("a")["metadata"]}


# Bad objects: Replay 10, as far as the cache goes


class Complaints:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, obj: Any, error: Exception) -> None:
        self.heard.append(str(error))


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("text", "not an object but str"),
        (None, "not an object but NoneType"),
        ({}, "metadata is missing or no object"),
        ({"metadata": []}, "metadata is missing or no object"),
        ({"metadata": {}}, "metadata.name is missing or no text"),
        ({"metadata": {"name": 7}}, "metadata.name is missing or no text"),
        ({"metadata": {"name": ""}}, "metadata.name is missing or no text"),
    ],
)
def test_a_bad_object_is_set_aside_and_the_rest_goes_on(bad: Any, complaint: str) -> None:
    complaints = Complaints()
    store = Store(Pod, on_bad_object=complaints)
    store.replace([pod("a"), bad, pod("b")], "5")
    assert store.put(bad) is None
    assert store.remove(bad) is None
    assert held(store) == {"a": "1", "b": "1"}
    assert complaints.heard == [complaint]  # once, however often it comes


def refuse_bad(obj: Object) -> Object:
    if obj["metadata"].get("bad"):
        raise ValueError(obj["metadata"]["bad"])
    return obj


def test_a_transform_that_raises_sets_aside_that_object_only_and_keeps_what_was_held_of_it() -> None:
    complaints = Complaints()
    store = store_of(pod("a", 1), transform=refuse_bad, on_bad_object=complaints)
    assert store.replace([pod("a", 2, bad="no"), pod("b", 2)], "3")[0].key == Key("ns", "b")
    assert held(store) == {"a": "1", "b": "2"}
    assert complaints.heard == ["no"]


def test_it_is_reported_anew_for_another_reason_and_after_it_was_good_or_deleted() -> None:
    complaints = Complaints()
    store = Store(Pod, transform=refuse_bad, on_bad_object=complaints)
    store.put(pod("a", 1, bad="one"))
    store.put(pod("a", 2, bad="two"))
    store.put(pod("a", 3))
    store.put(pod("a", 4, bad="two"))
    store.remove(pod("a", 5))
    store.put(pod("a", 6, bad="two"))
    assert complaints.heard == ["one", "two", "two", "two"]


def test_an_index_function_that_raises_sets_the_object_aside() -> None:
    complaints = Complaints()
    store = Store(Pod, on_bad_object=complaints)
    store.add_index("app", lambda obj: [obj["metadata"]["labels"]["app"]])
    store.put(pod("a"))
    store.put(pod("b", labels={"app": "web"}))
    assert held(store) == {"b": "1"}
    assert complaints.heard == ["'labels'"]


def test_the_memory_of_bad_objects_is_bounded() -> None:
    complaints = Complaints()
    store = Store(Pod, transform=refuse_bad, on_bad_object=complaints)
    for number in range(5000):
        store.put(pod(f"pod-{number}", bad="no"))
    assert len(store._set_aside) == 4096


def test_a_hook_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def hook(obj: Any, error: Exception) -> None:
        raise RuntimeError("the hook is broken")

    store = Store(Pod, on_bad_object=hook)
    assert store.put({}) is None
    assert "the hook is broken" in caplog.text


def test_without_a_hook_a_bad_object_is_a_line_of_log(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(Pod)
    store.put({"metadata": {"namespace": "ns"}})
    store.put("text")  # type: ignore[arg-type]
    assert "an object is set aside: {'namespace': 'ns'}: metadata.name is missing" in caplog.text
    assert "an object is set aside: 'text': not an object but str" in caplog.text
