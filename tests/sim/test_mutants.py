"""Bugs planted on purpose: each must be caught by a simulation, which passes without it.

A simulation that lets one of these through proves nothing about the code as it is.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from konverge.cache import reflector, store
from konverge.cache.reflector import Reflector
from konverge.cache.store import Store
from konverge.election import LeaderElector
from konverge.errors import LeaseLost
from konverge.model import conditions
from konverge.runtime import status
from konverge.runtime.status import StatusWriter
from konverge.workqueue import queue
from konverge.workqueue.queue import WorkQueue
from tests.sim import test_election as elections
from tests.sim import test_replay as replays
from tests.sim import test_status as statuses
from tests.unit.cache import test_convergence as convergence
from tests.unit.workqueue import test_queue as queues

Simulation = Callable[..., None]

SEEDS = range(16)
"""At least one of these catches each mutant."""

QUEUE = queues.test_one_key_never_runs_twice_at_once_and_no_change_is_lost
BACKLOG = queues.test_low_priority_is_not_starved_by_constant_ordinary_arrivals
CACHE = convergence.test_the_cache_converges_once_the_faults_stop
TERMS = functools.partial(elections.test_never_two_act_at_once_and_somebody_leads_when_faults_end, count=2)
SUCCESSION = elections.test_a_leader_that_dies_without_a_word_is_succeeded_within_its_duration
STATUS = statuses.test_each_status_write_is_news_and_keeps_what_others_wrote
SILENCE = replays.test_a_silent_stream_is_replaced_from_its_last_version_within_the_idle_timeout
TOO_OLD = functools.partial(
    replays.test_a_410_means_one_list_after_a_wait_and_the_old_version_is_never_used_again, on_connect=False
)


class Mutant(NamedTuple):
    """`owner.name` is replaced by `make(what it is)`; `simulation` must then fail."""

    what: str
    simulation: Simulation
    owner: Any
    name: str
    make: Callable[[Any], Any]


def always(value: object) -> Callable[[Any], Any]:
    """Whatever it is asked, it answers `value`."""
    return lambda original: lambda *args, **options: value


def done_forgets_the_add_meanwhile(original: Any) -> Any:
    def done(self: Any, key: Any) -> None:
        self._again.pop(key, None)
        original(self, key)

    return done


def hands_out_what_is_processed(original: Any) -> Any:
    def enqueue(self: Any, key: Any, priority: int, since: float) -> None:
        if key in self._processing and key not in self._ready:
            self._make_ready(key, priority, since)
        else:
            original(self, key, priority, since)

    return enqueue


def wakes_the_first_time_only(original: Any) -> Any:
    def wake(self: Any) -> None:
        if self._sequence < 50:
            original(self)

    return wake


def forgets_an_add_of_what_is_delayed(original: Any) -> Any:
    def add(self: Any, key: Any, priority: int = 0) -> None:
        if self._delayed.pop(key, None) is None:
            original(self, key, priority)

    return add


def drops_what_was_delayed(original: Any) -> Any:
    def promote(self: Any) -> None:
        now = self._clock.monotonic()
        for key in [key for key, entry in self._delayed.items() if entry.due <= now]:
            del self._delayed[key]

    return promote


def keeps_a_version_that_is_gone(original: Any) -> Any:
    def failed(self: Any, error: Exception) -> float:
        version = self._version
        delay: float = original(self, error)
        self._version = version
        return delay

    return failed


def misses_deletions_of_a_relist(original: Any) -> Any:
    return lambda self, listed, version="": []


def stays_leader_past_the_deadline(original: Any) -> Any:
    async def hold(self: Any) -> None:
        while self._held is not None:
            await self._clock.sleep(self._retry_period)
            await self._attempt(self._clock.monotonic() + self._call_timeout)
        raise LeaseLost("another one holds it")

    return hold


def judges_by_timestamps(original: Any) -> Any:
    def respects(self: Any) -> bool:
        from datetime import datetime  # noqa: PLC0415 - of this mutant only

        if self._sighting is None or self.leader in {"", self._identity}:
            return False
        renewed = datetime.fromisoformat(self._sighting.spec["renewTime"])
        return bool((self._clock.now() - renewed).total_seconds() < self._sighting.spec["leaseDurationSeconds"])

    return respects


def overwrites_whatever_is_there(original: Any) -> Any:
    async def replace(self: Any, lease: Any, spec: Any) -> Any:
        metadata = {name: value for name, value in lease["metadata"].items() if name != "resourceVersion"}
        return await original(self, {**lease, "metadata": metadata}, spec)

    return replace


def writes_though_nothing_changed(original: Any) -> Any:
    def patch(self: Any, obj: Any, *args: Any) -> Any:
        return {"observedGeneration": obj.generation, **original(self, obj, *args)}

    return patch


def drops_other_conditions(original: Any) -> Any:
    return lambda listed, verdict, **options: original([], verdict, **options)


def moves_the_time_at_each_write(original: Any) -> Any:
    def set_condition(listed: Any, condition_type: str, *args: Any, now: Any, **options: Any) -> Any:
        result = original(listed, condition_type, *args, now=now, **options)
        conditions.find(result, condition_type)["lastTransitionTime"] = conditions.timestamp(now)  # type: ignore[index]
        return result

    return set_condition


def writes_unguarded(original: Any) -> Any:
    async def send(self: Any, obj: Any, live: Any, patch: Any) -> Any:
        unversioned = {**live, "metadata": {**live["metadata"], "resourceVersion": ""}}
        return await original(self, obj, unversioned, patch)

    return send


def claims_the_newest_generation(original: Any) -> Any:
    def patch(self: Any, obj: Any, live: Any, *args: Any) -> Any:
        made = original(self, obj, live, *args)
        return {**made, "observedGeneration": live["metadata"]["generation"]} if made else made

    return patch


MUTANTS = [
    Mutant("queue: done forgets the add meanwhile", QUEUE, WorkQueue, "done", done_forgets_the_add_meanwhile),
    Mutant("queue: a key is handed out twice", QUEUE, WorkQueue, "_enqueue", hands_out_what_is_processed),
    Mutant("queue: getters are not woken", QUEUE, WorkQueue, "_wake_getter", wakes_the_first_time_only),
    Mutant("queue: an add of a delayed key is lost", QUEUE, WorkQueue, "add", forgets_an_add_of_what_is_delayed),
    Mutant("queue: a delay ends in nothing", QUEUE, WorkQueue, "_promote", drops_what_was_delayed),
    Mutant("queue: no ageing", BACKLOG, queue, "SECONDS_PER_PRIORITY", lambda original: 1e6),
    Mutant("store: an older version wins", CACHE, store, "_is_stale", always(value=False)),
    Mutant("store: tombstones are ignored", CACHE, Store, "_is_buried", always(value=False)),
    Mutant("store: a relist misses deletions", CACHE, Store, "retain", misses_deletions_of_a_relist),
    Mutant(
        "store: a write's late answer brings back what a list had not", CACHE, store, "_is_known", always(value=False)
    ),
    Mutant(
        "reflector: a version that is gone is used again", TOO_OLD, Reflector, "_failed", keeps_a_version_that_is_gone
    ),
    Mutant("reflector: versions of events are not kept", SILENCE, reflector, "_version_of", always("")),
    Mutant("election: acts past the deadline", TERMS, LeaderElector, "hold", stays_leader_past_the_deadline),
    Mutant("election: judges by timestamps", TERMS, LeaderElector, "_respects_sighting", judges_by_timestamps),
    Mutant("election: writes unguarded", TERMS, LeaderElector, "_replace", overwrites_whatever_is_there),
    Mutant("election: never takes over", SUCCESSION, LeaderElector, "_respects_sighting", always(value=True)),
    Mutant("status: writes though nothing changed", STATUS, StatusWriter, "_patch", writes_though_nothing_changed),
    Mutant("status: drops the conditions of others", STATUS, status, "summarize", drops_other_conditions),
    Mutant(
        "status: the transition time always moves", STATUS, conditions, "set_condition", moves_the_time_at_each_write
    ),
    Mutant("status: writes unguarded", STATUS, StatusWriter, "_send", writes_unguarded),
    Mutant("status: claims a generation not seen", STATUS, StatusWriter, "_patch", claims_the_newest_generation),
]


def fails(simulation: Simulation) -> bool:
    """Whether one of the seeds makes it fail. Any failure will do: a wrong state, a wait without end, a crash."""
    for seed in SEEDS:
        try:
            simulation(seed=seed)
        except (AssertionError, ExceptionGroup, LookupError):
            return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_a_planted_bug_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.make(getattr(mutant.owner, mutant.name)))
    assert fails(mutant.simulation)


@pytest.mark.parametrize("simulation", list(dict.fromkeys(mutant.simulation for mutant in MUTANTS)))
def test_without_a_bug_the_simulation_passes(simulation: Simulation) -> None:
    assert not fails(simulation)
