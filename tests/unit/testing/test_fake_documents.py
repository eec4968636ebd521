"""Patches and field ownership as pure functions: the rules of their RFCs, and properties that hold for any document."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.testing import fake_apply
from konverge.testing.fake_apply import CUSTOM, FieldConflicts, ManagerKey, Managers
from konverge.testing.fake_json import PatchFailed, PatchMalformed, copy_json, json_patch, merge_patch

SCALARS = st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
SPECS = st.dictionaries(NAMES, VALUES, max_size=3)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(SPECS, SPECS)
def test_a_merge_patch_without_nulls_is_idempotent_and_leaves_its_arguments(target: Any, patch: Any) -> None:
    before = copy_json(target)
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert target == before


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2], "m": {"x": 1}}),
        ({"op": "add", "path": "/l/2", "value": 9}, {"l": [1, 2, 9], "m": {"x": 1}}),
        ({"op": "add", "path": "", "value": 9}, 9),
        ({"op": "remove", "path": "/m/x"}, {"l": [1, 2], "m": {}}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2], "m": {"x": 1}}),
        ({"op": "replace", "path": "/l/1", "value": 9}, {"l": [1, 9], "m": {"x": 1}}),
        ({"op": "test", "path": "/m", "value": {"x": 1}}, {"l": [1, 2], "m": {"x": 1}}),
        ({"op": "test", "path": "/absent", "value": None}, {"l": [1, 2], "m": {"x": 1}}),
    ],
)
def test_json_patch_operations(operation: Any, result: Any) -> None:
    assert json_patch({"l": [1, 2], "m": {"x": 1}}, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/absent/x", "value": 1},
        {"op": "add", "path": "/l/0/x", "value": 1},
        {"op": "remove", "path": "/l/-"},
        {"op": "replace", "path": "/absent", "value": 1},
        {"op": "test", "path": "/l/0", "value": 2},
        {"op": "move", "from": "/absent", "path": "/x"},
    ],
)
def test_a_json_patch_that_does_not_fit_fails(operation: Any) -> None:
    with pytest.raises(PatchFailed):
        json_patch({"l": [1, 2]}, [operation])


@pytest.mark.parametrize(
    "patch",
    [
        {"a": 1},
        "text",
        ["text"],
        [{"op": "add", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "copy", "path": "/a"}],
        [{"op": "jump", "path": "/a"}],
    ],
)
def test_what_is_no_json_patch_is_malformed(patch: Any) -> None:
    with pytest.raises(PatchMalformed):
        json_patch({"a": 1}, patch)


def apply(live: Any, spec: Any, managers: Managers, manager: str = "m", *, force: bool = True) -> Any:
    return fake_apply.apply(
        live,
        {"spec": spec},
        managers,
        ManagerKey(manager, "Apply"),
        force=force,
        shape=CUSTOM,
        api_version="v1",
        now="now",
    )


def leaves(spec: Any) -> set[Any]:
    return set(CUSTOM.leaves({"spec": spec}))


@given(SPECS)
def test_applying_twice_is_applying_once(spec: Any) -> None:
    once, managers = apply({}, spec, {})
    again, same = apply(once, spec, managers)
    assert again == once
    assert same == managers


@given(SPECS, SPECS)
def test_a_sole_manager_gets_what_it_applied_last(first: Any, second: Any) -> None:
    live, managers = apply({}, first, {})
    live, managers = apply(live, second, managers)
    assert leaves(live.get("spec", {})) - {("spec",)} == leaves(second) - {("spec",)}
    for path in leaves(second):
        assert CUSTOM.at(live, path) == CUSTOM.at({"spec": second}, path)


@given(SPECS, SPECS)
def test_what_another_manager_applied_since_is_there_after_we_take_ours_back(ours: Any, theirs: Any) -> None:
    live, managers = apply({}, ours, {})
    live, managers = apply(live, theirs, managers, "n")
    live, managers = apply(live, {}, managers)
    for path in leaves(theirs) - {("spec",)}:
        assert CUSTOM.at(live, path) == CUSTOM.at({"spec": theirs}, path)
    live, _ = apply(live, {}, managers, "n")
    assert leaves(live.get("spec", {})) <= {("spec",)}


@given(SPECS, SPECS)
def test_unforced_applies_change_nothing_of_others_or_conflict(ours: Any, theirs: Any) -> None:
    live, managers = apply({}, ours, {})
    try:
        after, _ = apply(live, theirs, managers, "n", force=False)
    except FieldConflicts:
        forced, _ = apply(live, theirs, managers, "n")
        assert any(CUSTOM.at(forced, path) != CUSTOM.at(live, path) for path in leaves(ours))
        return
    for path in leaves(ours):
        held = CUSTOM.at(live, path)
        assert held == {} or CUSTOM.at(after, path) == held  # an empty map may grow, which takes nothing from its owner


@given(SPECS, SPECS)
def test_an_update_owns_what_it_changed_and_no_one_what_is_gone(before: Any, after: Any) -> None:
    _, managers = apply({}, before, {})
    owners = fake_apply.update(
        {"spec": before},
        {"spec": after},
        managers,
        ManagerKey("person", "Update"),
        shape=CUSTOM,
        api_version="v1",
        now="now",
    )
    owned = [managed.paths for managed in owners.values()]
    assert sum(len(paths) for paths in owned) == len(frozenset().union(*owned))
    assert frozenset().union(*owned) == leaves(after)


def test_nulls_in_an_apply_count_as_not_named() -> None:
    live, managers = apply({}, {"a": 1, "b": None}, {})
    assert live == {"spec": {"a": 1}}
    assert [sorted(m.paths) for m in managers.values()] == [[("spec", "a")]]


def test_paths_are_written_as_the_api_does() -> None:
    path = ("spec", "containers", (("name", "web"),), "finalizers", (("", "x"),))
    assert fake_apply.dotted(path) == '.spec.containers[name="web"].finalizers[="x"]'
