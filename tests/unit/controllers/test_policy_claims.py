"""Which policy holds a schedulerName."""

import random

from hypothesis import given
from hypothesis import strategies as st

from konverge.controllers.scheduling_policy.claims import claimants, sharing
from tests.unit.controllers.policies import manifest


def test_the_highest_priority_holds_it() -> None:
    policies = [manifest("a", priority=1), manifest("b", priority=5), manifest("c", priority=-1)]

    assert claimants(policies, "demo") == ["b", "a", "c"]


def test_ties_go_to_the_first_name() -> None:
    assert claimants([manifest("b"), manifest("a")], "demo") == ["a", "b"]


def test_other_names_do_not_matter() -> None:
    assert claimants([manifest("a", scheduler_name="other"), manifest("b")], "demo") == ["b"]


def test_a_suspended_policy_and_one_being_deleted_give_way() -> None:
    policies = [
        manifest("a", suspend=True),
        manifest("b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        manifest("c"),
    ]

    assert claimants(policies, "demo") == ["c"]
    assert sharing(policies, "demo") == ["a", "b", "c"]


@given(
    entries=st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(-3, 3), st.booleans()), unique_by=lambda entry: entry[0]
    ),
    seed=st.integers(),
)
def test_the_holder_does_not_depend_on_the_order_in_which_policies_are_seen(
    entries: list[tuple[str, int, bool]], seed: int
) -> None:
    policies = [manifest(name, priority=priority, suspend=suspend) for name, priority, suspend in entries]
    shuffled = random.Random(seed).sample(policies, len(policies))

    assert claimants(policies, "demo") == claimants(shuffled, "demo")
