"""A live object holds what is desired when it means the same, whatever the server made of the text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.runtime.compare import holds, projection

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, id="more fields than desired"),
        pytest.param({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}, id="replay 6: a rewritten quantity"),
        pytest.param({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}}, id="binary suffixes"),
        pytest.param({"limits": {"cpu": "2"}}, {"limits": {"cpu": 2}}, id="a quantity as a number"),
        pytest.param({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": ""}]}, id="replay 6: an empty value"),
        pytest.param({}, {"labels": {}, "args": [], "text": "", "none": None}, id="empty fields left out"),
        pytest.param({}, {"selector": {"matchLabels": {}}}, id="nested empty fields left out"),
        pytest.param(
            {"containers": [{"name": "injected"}, {"name": "app", "image": "x", "tty": False}]},
            {"containers": [{"name": "app", "image": "x"}]},
            id="an injected container, in another order",
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": [{"port": 80}]}, id="defaults inside list items"
        ),
        pytest.param({"finalizers": ["theirs", "ours"]}, {"finalizers": ["ours"]}, id="finalizers of others"),
        pytest.param(
            {"ownerReferences": [{"uid": "1"}, {"uid": "2", "name": "x"}]},
            {"ownerReferences": [{"uid": "2"}]},
            id="owners of others",
        ),
    ],
)
def test_what_means_the_same_is_no_difference(live: Any, desired: Any) -> None:
    assert holds(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        pytest.param({"a": 1}, {"a": 2}, id="another value"),
        pytest.param({}, {"a": 1}, id="a missing field"),
        pytest.param({"replicas": None}, {"replicas": 0}, id="a zero is not the same as unset"),
        pytest.param({"flag": 1}, {"flag": True}, id="a number is no boolean"),
        pytest.param({"args": ["a", "b"]}, {"args": ["a"]}, id="a longer list without names"),
        pytest.param({"args": ["b", "a"]}, {"args": ["a", "b"]}, id="another order"),
        pytest.param({"data": {"size": "1000m"}}, {"data": {"size": "1"}}, id="text that only looks like a quantity"),
        pytest.param({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, id="another quantity"),
        pytest.param({"limits": {"cpu": "1"}}, {"limits": {"cpu": "many"}}, id="no quantity at all"),
        pytest.param({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "1"}]}, id="another name"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, id="another type"),
        pytest.param({"a": "x"}, {"a": ["x"]}, id="text is no list"),
        pytest.param({"ownerReferences": [{"uid": "1"}]}, {"ownerReferences": [{"uid": "2"}]}, id="not owned"),
    ],
)
def test_what_means_something_else_is_a_difference(live: Any, desired: Any) -> None:
    assert not holds(live, desired)


@given(json_values)
def test_everything_holds_itself(value: Any) -> None:
    assert holds(value, value)


@given(json_values)
def test_a_projection_on_itself_is_the_whole(value: Any) -> None:
    assert projection(value, value) == value


def test_a_projection_keeps_the_live_form_of_the_desired_fields_only() -> None:
    live = {"a": "1", "other": 1, "list": [{"name": "x", "v": "0.5", "extra": 1}], "plain": [{"p": 1, "q": 2}]}
    desired = {"a": "1000m", "list": [{"name": "x", "v": "500m"}], "plain": [{"p": 9}], "gone": 1}
    assert projection(live, desired) == {
        "a": "1",
        "list": [{"name": "x", "v": "0.5"}],
        "plain": [{"p": 1}],
        "gone": None,
    }
