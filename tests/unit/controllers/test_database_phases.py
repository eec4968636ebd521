"""Which phase a Database shows, by what its StatefulSet reports and the phase before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.controllers.database import Database
from konverge.controllers.database.phases import Observed, observe, standing
from konverge.model.conditions import State
from tests.unit.controllers.databases import stateful_set_status

UNSEEN = None


def seen(replicas: int, ready: int, *, rolling: bool = False) -> Observed:
    return Observed(replicas, ready, rolling)


@pytest.mark.parametrize(
    ("before", "observed", "edited", "phase", "reason"),
    [
        # a new one comes up
        (None, UNSEEN, True, "Pending", "WaitingForController"),
        ("Pending", seen(0, 0), False, "Pending", "WaitingForPods"),
        ("Pending", seen(1, 0), False, "Provisioning", "StartingReplicas"),
        ("Provisioning", seen(2, 1), False, "Provisioning", "StartingReplicas"),
        ("Provisioning", seen(3, 3), False, "Running", "AllReplicasReady"),
        ("Provisioning", seen(3, 2, rolling=True), True, "Provisioning", "StartingReplicas"),
        ("Provisioning", UNSEEN, True, "Provisioning", "WaitingForController"),
        # nothing happens
        ("Running", seen(3, 3), False, "Running", "AllReplicasReady"),
        # an edit of the template
        ("Running", UNSEEN, True, "Updating", "WaitingForController"),
        ("Running", seen(3, 3, rolling=True), True, "Updating", "RollingOut"),
        ("Updating", seen(3, 2, rolling=True), False, "Updating", "RollingOut"),
        ("Updating", seen(3, 3, rolling=True), False, "Updating", "RollingOut"),
        ("Updating", seen(3, 3), False, "Running", "AllReplicasReady"),
        # an edit of the count, up and down
        ("Running", seen(2, 2), True, "Updating", "Scaling"),
        ("Updating", seen(3, 2), False, "Updating", "Scaling"),
        ("Updating", seen(5, 5), False, "Updating", "Scaling"),
        # pods fail without an edit
        ("Running", seen(3, 2), False, "Degraded", "ReplicasNotReady"),
        ("Running", seen(2, 2), False, "Degraded", "ReplicasNotReady"),
        ("Degraded", seen(3, 2), False, "Degraded", "ReplicasNotReady"),
        ("Degraded", seen(3, 3), False, "Running", "AllReplicasReady"),
        ("Degraded", seen(3, 2, rolling=True), True, "Updating", "RollingOut"),
        # the StatefulSet was repaired or made anew: what its old status said is not believed
        ("Running", UNSEEN, False, "Updating", "WaitingForController"),
        # after a suspension
        ("Suspended", UNSEEN, True, "Provisioning", "WaitingForController"),
        ("Suspended", seen(0, 0), True, "Provisioning", "StartingReplicas"),
        # the status was lost
        (None, seen(3, 3), True, "Running", "AllReplicasReady"),
        (None, seen(3, 1), True, "Provisioning", "StartingReplicas"),
    ],
)
def test_phase_of_three_wanted_replicas(
    before: str | None, observed: Observed | None, edited: bool, phase: str, reason: str
) -> None:
    found = standing(3, observed, before, edited=edited)

    assert (found.phase, found.reason) == (phase, reason)


@pytest.mark.parametrize(
    ("before", "observed", "phase", "reason"),
    [
        (None, UNSEEN, "Pending", "Suspending"),
        (None, seen(0, 0), "Suspended", "Suspended"),
        ("Pending", seen(2, 1), "Pending", "Suspending"),
        ("Provisioning", seen(2, 1), "Updating", "Suspending"),
        ("Running", UNSEEN, "Updating", "Suspending"),
        ("Running", seen(3, 3), "Updating", "Suspending"),
        ("Updating", seen(1, 0), "Updating", "Suspending"),
        ("Updating", seen(0, 0), "Suspended", "Suspended"),
        ("Suspended", seen(0, 0), "Suspended", "Suspended"),
        ("Suspended", UNSEEN, "Suspended", "Suspended"),
        ("Suspended", seen(2, 2), "Updating", "Suspending"),
    ],
)
def test_phase_of_a_suspended_database(before: str | None, observed: Observed | None, phase: str, reason: str) -> None:
    found = standing(0, observed, before, edited=True)

    assert (found.phase, found.reason) == (phase, reason)


@pytest.mark.parametrize(
    ("before", "observed", "wanted", "phase", "reason"),
    [
        ("Running", seen(3, 3), 3, "Updating", "GrowingVolumes"),
        ("Degraded", seen(3, 3), 3, "Updating", "GrowingVolumes"),
        (None, seen(3, 3), 3, "Updating", "GrowingVolumes"),
        ("Running", seen(3, 2), 3, "Degraded", "ReplicasNotReady"),
        ("Updating", seen(0, 0), 0, "Suspended", "Suspended"),
    ],
)
def test_phase_while_volumes_grow(
    before: str | None, observed: Observed | None, wanted: int, phase: str, reason: str
) -> None:
    found = standing(wanted, observed, before, edited=False, growing="data-orders-0 has 1Gi of 2Gi")

    assert (found.phase, found.reason) == (phase, reason)


observations = st.none() | st.builds(Observed, st.integers(0, 10), st.integers(0, 10), st.booleans())


@given(
    wanted=st.integers(0, 9),
    history=st.lists(st.tuples(observations, st.booleans(), st.sampled_from(["", "grows"])), max_size=8),
    wanted_later=st.integers(0, 9),
)
def test_no_history_leads_over_an_undeclared_edge(
    wanted: int, wanted_later: int, history: list[tuple[Observed | None, bool, str]]
) -> None:
    assert Database.phases is not None
    current: str | None = None
    for step, (observed, edited, growing) in enumerate(history):
        found = standing(wanted if step < 4 else wanted_later, observed, current, edited=edited, growing=growing)
        Database.phases.check("Database", current, found.phase)
        assert found.message
        current = found.phase


@given(wanted=st.integers(1, 9), observed=observations, before=st.sampled_from(["Pending", "Running", "Degraded"]))
def test_running_means_that_exactly_the_wanted_pods_are_ready(
    wanted: int, observed: Observed | None, before: str
) -> None:
    running = standing(wanted, observed, before, edited=False).phase == "Running"

    assert running == (observed == Observed(wanted, wanted, rolling=False))


@given(phase=st.sampled_from(["Pending", "Provisioning", "Running", "Updating", "Degraded", "Suspended"]))
def test_a_database_may_be_deleted_in_every_phase(phase: str) -> None:
    assert Database.phases is not None
    assert Database.phases.check("Database", phase, "Deleting").name == "Deleting"


def test_the_phases_serve_the_status_contract() -> None:
    assert Database.phases is not None
    states = {name: phase.state for name, phase in Database.phases.phases.items()}

    assert [name for name, state in states.items() if state is State.DONE] == ["Running", "Suspended"]
    assert states["Degraded"] is State.FAILING


def test_the_counts_of_an_older_generation_are_not_believed() -> None:
    status = stateful_set_status(3, 3, generation=4)

    assert observe({"metadata": {"generation": 5}, "status": status}) is None
    assert observe({"metadata": {"generation": 4}, "status": status}) == Observed(3, 3, rolling=False)


def test_a_stateful_set_without_status_says_nothing() -> None:
    assert observe({"metadata": {"generation": 1}}) is None
    assert observe({"metadata": {"generation": 1}, "status": {"replicas": 0}}) is None


def test_a_stateful_set_that_is_being_deleted_says_nothing_of_the_one_to_come() -> None:
    going = {"metadata": {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert observe({**going, "status": stateful_set_status(3, 3)}) is None


def test_two_revisions_mean_a_rollout() -> None:
    status = stateful_set_status(3, 3, current="r1", update="r2")

    assert observe({"metadata": {"generation": 1}, "status": status}) == Observed(3, 3, rolling=True)
