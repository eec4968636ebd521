"""The one status write: a patch of what changed, nothing where nothing did, and no write to what is gone."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import ApiError, Conflict
from konverge.model.conditions import State, Verdict
from konverge.runtime.status import StatusWriter, merge_patch
from konverge.testing.fake import FakeApi
from konverge.testing.fake_json import merge_patch as applied
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget

READY = Verdict(State.DONE, "Reconciled")

scalars = st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 3), max_size=2)
documents = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), scalars, max_size=4),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), scalars | inner, max_size=4),
    max_leaves=10,
)


@given(documents, documents)
def test_the_patch_takes_the_one_to_the_other_over_its_keys(before: dict[str, Any], after: dict[str, Any]) -> None:
    result = applied(before, merge_patch(before, after))
    assert {key: result[key] for key in after} == after
    assert {key: result[key] for key in before.keys() - after.keys()} == {
        key: before[key] for key in before.keys() - after.keys()
    }


@given(documents)
def test_the_patch_to_itself_is_empty(document: dict[str, Any]) -> None:
    assert merge_patch(document, document) == {}


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": None}, {"a": None}),
        ({}, {"a": None}, {}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"y": None}}),
        ({"m": {"x": 1}}, {"m": {"x": 1, "y": 2}}, {"m": {"y": 2}}),
        ({"l": [1, 2]}, {"l": [1]}, {"l": [1]}),
        ({"theirs": 1}, {"a": 1}, {"a": 1}),
    ],
)
def test_what_a_patch_says(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(before, after) == patch


async def stored(sim: Sim) -> tuple[FakeApi, StatusWriter, Gadget]:
    api = FakeApi(clock=sim.clock, random=sim.random)
    body = {"apiVersion": "test.konverge.dev/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {"size": 2}}
    made = await api.create(Gadget.resource, body, NAMESPACE)
    return api, StatusWriter(api, api, sim.clock, sim.random), Gadget.parse(made)


@simulate()
async def test_a_second_write_of_the_same_sends_nothing(sim: Sim) -> None:
    api, writer, gadget = await stored(sim)
    gadget.status.notes = {"a": "b"}
    written = await writer.write(gadget, READY)
    assert written is not None
    assert written["status"]["notes"] == {"a": "b"}
    again = Gadget.parse(written)
    await sim.clock.sleep(100)
    sent = len(api.requests)
    assert await writer.write(again, READY) is None
    assert len(api.requests) == sent


@simulate()
async def test_a_field_that_is_unset_is_taken_away_and_unknown_ones_stay(sim: Sim) -> None:
    api, writer, gadget = await stored(sim)
    gadget.status.size, gadget.status.notes = 2, {"a": "b"}
    await writer.write(gadget, READY)
    other = {"status": {"theirs": "kept"}}
    now = await api.client("other").patch(Gadget.resource, "one", other, NAMESPACE, subresource="status")
    later = Gadget.parse(now)
    later.status.size, later.status.notes = None, {}
    written = await writer.write(later, READY)
    assert written is not None
    assert "size" not in written["status"]
    assert written["status"]["theirs"] == "kept"
    assert not written["status"].get("notes")


@simulate()
async def test_an_object_that_is_gone_gets_no_status(sim: Sim) -> None:
    api, writer, gadget = await stored(sim)
    await api.delete(Gadget.resource, "one", NAMESPACE)
    assert await writer.write(gadget, READY) is None


@pytest.mark.parametrize("namesake", [False, True])
def test_an_object_that_goes_during_a_conflict_gets_no_status(*, namesake: bool) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        api, writer, gadget = await stored(sim)
        await api.delete(Gadget.resource, "one", NAMESPACE)
        if namesake:
            await api.create(Gadget.resource, {**gadget.raw, "metadata": {"name": "one"}}, NAMESPACE)
        api.faults.inject(ApiError.of(409, "Conflict", "modified"), verbs=["patch"])
        assert await writer.write(gadget, READY) is None
        assert all("status" not in obj or not obj["status"] for obj in api.objects(Gadget.resource))

    scenario(seed=0)


@simulate()
async def test_conflicts_are_tried_four_times_with_growing_delays(sim: Sim) -> None:
    """Replay 7, its end: bounded."""
    api, writer, gadget = await stored(sim)
    api.faults.inject(ApiError.of(409, "Conflict", "modified"), verbs=["patch"], times=100)
    with pytest.raises(Conflict):
        await writer.write(gadget, READY)
    times = [request.time for request in api.requests if request.verb == "patch"]
    assert len(times) == 4
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    for gap, base in zip(gaps, (0.010, 0.050, 0.250), strict=True):
        assert base <= gap <= base * 1.1 + 1e-9
