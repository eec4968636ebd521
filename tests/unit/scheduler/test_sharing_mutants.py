"""Bugs planted on purpose where replicas share the work: each must be caught by a simulation of it."""

from typing import Any

import pytest

from konverge.scheduler.bookings import Bookings
from konverge.scheduler.neighbours import Neighbours
from tests.unit.scheduler import test_sharing_simulation as sharing
from tests.unit.scheduler.test_mutants import Mutant, fails

SEEDS = range(12)

FILL = sharing.test_a_little_room_is_filled_exactly_by_both_at_once
ZONES = sharing.test_zones_are_kept_apart_though_the_pods_are_placed_by_two
DEATH = sharing.test_the_pods_of_a_replica_that_dies_are_placed_by_the_other
GANG = sharing.test_a_gang_gives_way_as_a_whole


def gangs(seed: int) -> None:
    sharing.test_gangs_are_placed_whole(seed=120 + seed, gangs=2)


def at_once(_original: Any) -> Any:
    async def nothing(*_: Any) -> None:
        return

    return nothing


def nothing(_original: Any) -> Any:
    return lambda *_: None


def always(value: object) -> Any:
    return lambda _original: lambda *_: value


def overlooks_binds_of_others(original: Any) -> Any:
    def on_pod(self: Any, change: Any) -> None:
        epoch = self.epoch
        original(self, change)
        self.epoch = epoch

    return on_pod


def without_waiting_for_the_gang(_original: Any) -> Any:
    return lambda self: [each for each in self._own.values() if not each.booked and not each.decided.done()]


def one_by_one(original: Any) -> Any:
    """A refused member leaves its gang."""

    def judge(self: Any) -> None:
        gangs = {uid: promise.gang for uid, promise in self._own.items()}
        for promise in self._own.values():
            promise.gang = None
        original(self)
        for uid, gang in gangs.items():
            if uid in self._own:
                self._own[uid].gang = gang

    return judge


MUTANTS = [
    Mutant("register: read before the pods", FILL, Bookings, "_catch_up", at_once),
    Mutant("bookings: not judged again", FILL, Bookings, "_judge", nothing),
    Mutant("bookings: binds of others are no news", FILL, Bookings, "on_pod", overlooks_binds_of_others),
    Mutant("bookings: of others are not counted", ZONES, Neighbours, "_count", nothing),
    Mutant("bookings: of the dead stay", DEATH, Bookings, "_left", always([])),
    Mutant("gangs: booked as their pods come", gangs, Bookings, "_ready", without_waiting_for_the_gang),
    Mutant("gangs: refused pod by pod", GANG, Bookings, "_judge", one_by_one),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_a_planted_bug_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.make(getattr(mutant.owner, mutant.name)))
    assert any(fails(mutant, seed) for seed in SEEDS)
