"""Bugs planted on purpose in the scheduler: each must be caught by a simulation.

That each passes without a bug, the tests of the simulations show with the same seeds.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pytest

from konverge.scheduler.attempts import Attempts
from konverge.scheduler.bind import Binder
from konverge.scheduler.expiry import Expiry
from konverge.scheduler.framework import PermitResult
from konverge.scheduler.intake import Intake
from konverge.scheduler.plugins.coscheduling import Coscheduling
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler import test_expiry as expiries
from tests.unit.scheduler import test_gang_simulation as gangs
from tests.unit.scheduler import test_preemption_simulation as preemptions
from tests.unit.scheduler import test_simulation as simulations
from tests.unit.scheduler.weather import SEEDS, once

FILL = simulations.test_many_pods_for_little_room_fill_it_exactly
RUNS = expiries.test_the_room_of_a_pod_that_runs_is_not_given_away
LATE_NEWS = gangs.test_little_room_and_late_news

Make = Callable[[Any], Any]


class Mutant(NamedTuple):
    """`owner.name` is replaced by `make(what it is)`; `simulation` must then fail with one of the seeds."""

    what: str
    simulation: Callable[..., object]
    owner: Any
    name: str
    make: Make


def does_not_ask(_original: Any) -> Any:
    async def holds_after_all(_self: Any, _assignment: Any) -> bool:
        return False

    return holds_after_all


def keeps_the_room(original: Any) -> Any:
    def give_back(self: Any, assignment: Any) -> Any:
        result = original(self, assignment)
        self._desk.snapshot.assume(assignment.waiting.pod, assignment.node_name)
        return result

    return give_back


def sees_only_what_it_bound_itself(original: Any) -> Any:
    def place(self: Any, pod: PodInfo) -> None:
        if self.is_assumed(pod.uid) or self.pod(pod.uid) is not None:
            original(self, pod)

    return place


def forgets_the_pods_of_a_lost_node(original: Any) -> Any:
    def remove_node(self: Any, name: str) -> None:
        original(self, name)
        for pod in list(self._homeless.get(name, {}).values()):
            self.forget(pod.uid)

    return remove_node


def counts_nobody_who_is_being_deleted(original: Any) -> Any:
    def see(self: Any, pod: PodInfo) -> None:
        if pod.deleting:
            self._gone(pod)
        else:
            original(self, pod)

    return see


def waits_a_hundred_times_as_long(original: Any) -> Any:
    def permit(self: Any, *args: Any) -> PermitResult:
        leave: PermitResult = original(self, *args)
        return replace(leave, timeout=100 * leave.timeout)

    return permit


def gives_the_room_away(_original: Any) -> Any:
    async def ask(self: Any, pod: PodInfo) -> None:
        self._snapshot.forget(pod.uid)
        self._ended(pod)

    return ask


def lets_each_go_by_itself(_original: Any) -> Any:
    return lambda *_: PermitResult()


MUTANTS = [
    Mutant("bind: the server is not asked after a failed bind", FILL, Binder, "_holds_after_all", does_not_ask),
    Mutant("attempts: a failed bind keeps the room", FILL, Attempts, "_give_back", keeps_the_room),
    Mutant(
        "snapshot: a new scheduler sees only its own binds",
        partial(once, simulations.pods_and_nodes, "crash"),
        Snapshot,
        "place",
        sees_only_what_it_bound_itself,
    ),
    Mutant(
        "snapshot: a lost node comes back empty",
        partial(once, simulations.pods_and_nodes, "lost_node"),
        Snapshot,
        "remove_node",
        forgets_the_pods_of_a_lost_node,
    ),
    Mutant(
        "intake: victims are gone once they are deleted",
        partial(once, preemptions.priorities, "watch_delay"),
        Intake,
        "see",
        counts_nobody_who_is_being_deleted,
    ),
    Mutant(
        "gangs: the timeout is far too long",
        partial(once, gangs.little_room, "server_error"),
        Coscheduling,
        "permit",
        waits_a_hundred_times_as_long,
    ),
    Mutant("expiry: an assumption that is overdue ends unasked", RUNS, Expiry, "_ask", gives_the_room_away),
    Mutant("gangs: each pod goes by itself", LATE_NEWS, Coscheduling, "permit", lets_each_go_by_itself),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_a_planted_bug_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.make(getattr(mutant.owner, mutant.name)))
    assert any(fails(mutant, seed) for seed in range(SEEDS))


def fails(mutant: Mutant, seed: int) -> bool:
    """Whether the simulation fails in any way: a wrong state, a wait without end."""
    try:
        mutant.simulation(seed=seed)
    except (AssertionError, ExceptionGroup):
        return True
    return False
