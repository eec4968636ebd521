"""What held objects share, and that nobody can tell."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.cache import sharing
from konverge.cache.sharing import Sharing
from konverge.cache.store import Store
from konverge.model.meta import Key
from konverge.model.resource import Object, Pod

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.sampled_from(["name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp"])


def parsed(name: str, **status: Any) -> Any:
    """A pod as it comes off the wire: no text is the same object as another."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "6c29"}
    metadata = {"name": name, "namespace": "prod", "labels": {"app": "web"}, "ownerReferences": [owner]}
    return orjson.loads(orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}))


def test_what_two_objects_have_in_common_is_kept_once() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Running", "message": "all is well"}
    shared = Sharing()
    a, b = (shared.share(parsed(name, conditions=[dict(condition)])) for name in "ab")
    assert a["metadata"]["namespace"] is b["metadata"]["namespace"]
    assert a["metadata"]["labels"] is b["metadata"]["labels"]
    assert a["metadata"]["ownerReferences"][0]["uid"] is b["metadata"]["ownerReferences"][0]["uid"]
    assert a["status"]["conditions"][0]["message"] is b["status"]["conditions"][0]["message"]


def test_a_child_and_its_owner_share_name_and_uid() -> None:
    shared = Sharing()
    owner = shared.share(orjson.loads(b'{"metadata": {"name": "web", "uid": "6c29"}}'))
    child = shared.share(parsed("a"))
    assert child["metadata"]["ownerReferences"][0]["uid"] is owner["metadata"]["uid"]


@given(metadata=st.dictionaries(PARTS | st.text(max_size=3), JSON), status=JSON)
def test_nothing_looks_different_whatever_its_shape(metadata: dict[str, Any], status: Any) -> None:
    obj: Object = {"kind": "Odd", "metadata": metadata, "status": status}
    before = copy.deepcopy(obj)
    assert Sharing().share(obj) == before


def test_sets_of_labels_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MAX_LABELS", 10)
    shared = Sharing()
    for number in range(100):
        shared.share({"metadata": {"name": "a", "labels": {"n": str(number)}}})
    assert len(shared._labels) <= 10


def test_a_store_s_keys_are_made_of_its_objects_texts() -> None:
    store = Store(Pod)
    store.put(parsed("a"))
    (key,) = store.keys()
    (obj,) = store.list()
    assert key == Key("prod", "a")
    assert key.name is obj["metadata"]["name"]
