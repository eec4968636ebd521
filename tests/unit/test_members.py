"""Who is a member: replicas that hold a lease of their own, seen from each other."""

from random import Random

import pytest

from konverge.election import LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, Members
from konverge.election.members import GROUP
from konverge.errors import ConfigError, ConnectionFailed, LeaseLost
from konverge.model.resource import Lease
from konverge.runtime.clock import SystemClock
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate


class Replica:
    """A member, and what its work would be: it acts as long as it is one."""

    def __init__(self, sim: Sim, api: FakeApi, name: str, group: str = "team") -> None:
        self.sim, self.api = sim, api.client(name)
        self.changes = 0
        self.members = Members(
            self.api, group=group, namespace="home", identity=name, clock=sim.clock, random=sim.random
        )
        self.members.on_change(self.changed)

    def changed(self) -> None:
        self.changes += 1

    async def join(self) -> "Replica":
        await self.members.join()
        self.holding = self.sim.spawn(self.hold())
        return self

    async def hold(self) -> None:
        try:
            await self.members.hold()
        except LeaseLost:
            self.lost_at = self.sim.time

    def knows(self, *others: str) -> bool:
        return self.members.alive == {self.members.identity, *others}


@simulate()
async def test_members_see_each_other_and_their_leases_carry_the_groups_label(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    one = await Replica(sim, api, "one").join()
    assert one.knows()
    assert one.members.is_member
    two = await Replica(sim, api, "two").join()
    assert two.knows("one")
    await sim.until(lambda: one.knows("two"))
    assert one.changes == 1
    assert {lease["metadata"]["labels"][GROUP] for lease in api.objects(Lease)} == {"team"}


@simulate()
async def test_another_group_in_the_same_namespace_is_none_of_ours(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    await Replica(sim, api, "stranger", group="others").join()
    one = await Replica(sim, api, "one").join()
    await sim.clock.sleep(3 * LEASE_DURATION)
    assert one.knows()


@simulate()
async def test_one_that_leaves_is_gone_at_once_and_so_is_its_lease(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    one, two = await Replica(sim, api, "one").join(), await Replica(sim, api, "two").join()
    await sim.until(lambda: one.knows("two"))
    two.holding.cancel()
    await two.members.leave()
    left = sim.time
    await sim.until(one.knows)
    assert sim.time - left <= 2 * RETRY_PERIOD
    assert one.members.is_gone("two")
    await sim.until(lambda: len(api.objects(Lease)) == 1)


@simulate(seeds=range(5))
async def test_one_that_is_cut_off_stops_acting_before_the_others_judge_it_gone(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    one, two = await Replica(sim, api, "one").join(), await Replica(sim, api, "two").join()
    await sim.until(lambda: one.knows("two"))
    cut = sim.time
    two.api.faults.partition()
    await sim.until(lambda: not two.members.is_member)
    assert one.knows("two"), "judged while it could still act"
    await sim.until(one.knows)
    assert one.members.is_gone("two")
    assert two.lost_at - cut <= RENEW_DEADLINE
    assert sim.time - cut >= LEASE_DURATION - RETRY_PERIOD - 0.1


@simulate()
async def test_who_cannot_read_judges_nobody(sim: Sim) -> None:
    """Its own lists fail: that the others' records did not change means nothing."""
    api = FakeApi(clock=sim.clock, random=sim.random)
    one, two = await Replica(sim, api, "one").join(), await Replica(sim, api, "two").join()
    await sim.until(lambda: one.knows("two"))
    one.api.faults.inject(ConnectionFailed("reset"), verbs=["list"], times=1000)
    await sim.clock.sleep(3 * LEASE_DURATION)
    assert one.members.is_member
    assert one.knows("two")
    assert two.members.is_member


@simulate()
async def test_a_lease_that_somebody_deletes_still_has_its_term(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    one, two = await Replica(sim, api, "one").join(), await Replica(sim, api, "two").join()
    await sim.until(lambda: one.knows("two"))
    for lease in api.objects(Lease):
        await api.client("somebody").delete(Lease, lease["metadata"]["name"], "home")
    for _ in range(20):
        await sim.clock.sleep(1.0)
        assert one.knows("two")
        assert two.knows("one")


@simulate()
async def test_one_that_was_never_seen_may_be_about_to_come_for_the_time_of_a_term(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    one = await Replica(sim, api, "one").join()
    assert not one.members.is_gone("ghost")
    await sim.clock.sleep(LEASE_DURATION - 0.1)
    assert not one.members.is_gone("ghost")
    await sim.clock.sleep(0.2)
    assert one.members.is_gone("ghost")


@simulate(seeds=range(4))
async def test_joining_waits_until_the_others_are_known(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    await Replica(sim, api, "one").join()
    two = Replica(sim, api, "two")
    two.api.faults = Faults(random=sim.random, drop_before=0.5)
    await two.join()
    assert two.knows("one")


def test_a_name_that_is_no_label_is_refused() -> None:
    api, clock = FakeApi(), SystemClock()
    with pytest.raises(ConfigError, match="at most 63 characters"):
        Members(api, group="g" * 64, namespace="home", identity="one", clock=clock, random=Random(0))
