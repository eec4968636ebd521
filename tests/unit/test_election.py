"""One elector at a time acts, and what it writes into the Lease is right. On simulated time against the fake API."""

import asyncio
import contextlib
import logging
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from konverge.election import JITTER, LeaderElector, default_identity
from konverge.errors import ApiError, ConfigError, Conflict, ConnectionFailed, LeaseLost
from konverge.model.resource import Lease
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import EPOCH, Sim, SimClock, simulate

NAMESPACE = "operators"
NAME = "main"


def elector(sim: Sim, api: FakeApi, identity: str = "a", **options: Any) -> LeaderElector:
    given: dict[str, Any] = {"clock": sim.clock, "random": sim.random} | options
    return LeaderElector(api, name=NAME, namespace=NAMESPACE, identity=identity, **given)


def fresh(sim: Sim) -> FakeApi:
    return FakeApi(clock=sim.clock, random=sim.random)


def record(api: FakeApi) -> dict[str, Any]:
    (lease,) = api.objects(Lease)
    spec: dict[str, Any] = lease["spec"]
    return spec


async def held_by(api: FakeApi, holder: str, **spec: Any) -> None:
    body = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3} | spec
    await api.create(Lease, {"metadata": {"name": NAME}, "spec": body}, NAMESPACE)


@simulate()
async def test_an_absent_lease_is_created_and_held_at_once(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    assert one.is_leader
    assert one.leader == one.identity == "a"
    assert record(api)["holderIdentity"] == "a"
    assert record(api)["leaseDurationSeconds"] == 15
    assert record(api)["leaseTransitions"] == 0
    assert record(api)["acquireTime"] == record(api)["renewTime"]


@simulate()
async def test_a_holder_renews_without_changing_when_it_acquired(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    before = record(api)
    sim.spawn(one.hold())
    await sim.clock.sleep(60)
    assert one.is_leader
    assert record(api)["acquireTime"] == before["acquireTime"]
    assert record(api)["leaseTransitions"] == before["leaseTransitions"]
    assert record(api)["renewTime"] > before["renewTime"]


@simulate()
async def test_a_lease_of_a_silent_holder_is_taken_only_after_its_own_duration_of_watching(sim: Sim) -> None:
    api = fresh(sim)
    await held_by(api, "gone", leaseDurationSeconds=40)
    one = elector(sim, api)
    start = sim.time
    await one.acquire()
    assert sim.time - start >= 40
    assert record(api)["leaseTransitions"] == 4


@simulate(seeds=range(5))
async def test_a_record_that_changes_is_respected_for_ever(sim: Sim) -> None:
    api = fresh(sim)
    leader, standby = elector(sim, api), elector(sim, api, "b")
    await leader.acquire()
    sim.spawn(leader.hold())
    waiting = sim.spawn(standby.acquire())
    await sim.clock.sleep(300)
    assert not waiting.done()
    assert not standby.is_leader
    assert standby.leader == "a"


@simulate(seeds=range(5))
@pytest.mark.parametrize("skew", [timedelta(days=-365), timedelta(days=365)])
async def test_the_clocks_of_others_do_not_matter(sim: Sim, skew: timedelta) -> None:
    api = fresh(sim)
    leader = elector(sim, api, clock=SimClock(EPOCH + skew))
    standby = elector(sim, api, "b")
    await leader.acquire()
    holding = asyncio.create_task(leader.hold())
    waiting = sim.spawn(standby.acquire())
    await sim.clock.sleep(120)
    assert leader.is_leader
    assert not waiting.done()
    holding.cancel()
    died = sim.time
    await waiting
    looks = 2 * (1 + JITTER)  # one until the last record is seen, one until its end is
    assert 15 - 2 <= sim.time - died <= 15 + 2 * looks


@simulate()
async def test_renewals_that_fail_lose_the_lease_at_the_deadline_without_a_release(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    acquired = sim.time
    api.faults.partition()
    with pytest.raises(LeaseLost, match=r"not renewed for 10 s; last trouble: .*cut off"):
        await one.hold()
    assert sim.time - acquired == pytest.approx(10, abs=0.01)
    assert not one.is_leader
    api.faults.heal()
    await one.release()
    assert record(api)["holderIdentity"] == "a"
    assert [w.verb for w in api.writes] == ["create"]


@simulate()
async def test_a_call_that_hangs_does_not_outlive_the_deadline(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    acquired = sim.time
    api.faults.hang, api.faults.hang_seconds = 1.0, 3600
    with pytest.raises(LeaseLost, match="no answer in time"):
        await one.hold()
    assert sim.time - acquired == pytest.approx(10, abs=0.01)


@simulate()
async def test_short_trouble_is_survived_and_logged_once_each_way(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "konverge.election")
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    sim.spawn(one.hold())
    api.faults.partition()
    await sim.clock.sleep(7)
    api.faults.heal()
    await sim.clock.sleep(20)
    assert one.is_leader
    assert len([r for r in caplog.records if "cannot be read" in r.message]) == 1
    assert len([r for r in caplog.records if "again" in r.message]) == 1


@simulate()
async def test_a_standby_outlives_errors_and_leads_when_they_end(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    api.faults.inject(ApiError.of(403, "Forbidden", "no leases for you"), times=20)
    waiting = sim.spawn(one.acquire())
    await waiting
    assert one.is_leader
    assert len([r for r in caplog.records if "no leases for you" in r.message]) == 1


@simulate()
async def test_a_standby_that_is_stopped_never_led_and_touches_nothing(sim: Sim) -> None:
    api = fresh(sim)
    await held_by(api, "other")
    one = elector(sim, api)
    waiting = sim.spawn(one.acquire())
    await sim.clock.sleep(10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await one.release()
    assert not one.is_leader
    assert [w.verb for w in api.writes] == ["create"]
    with pytest.raises(LeaseLost, match="held by other"):
        await one.hold()


@simulate()
async def test_a_release_lets_the_next_one_in_without_waiting_for_the_duration(sim: Sim) -> None:
    api = fresh(sim)
    one, two = elector(sim, api), elector(sim, api, "b")
    await one.acquire()
    waiting = sim.spawn(two.acquire())
    await sim.clock.sleep(5)
    released = sim.time
    await one.release()
    assert not one.is_leader
    assert record(api)["holderIdentity"] == ""
    assert record(api)["leaseDurationSeconds"] == 1
    await waiting
    assert sim.time - released <= 2 * (1 + JITTER)
    assert record(api)["leaseTransitions"] == 1


@simulate()
async def test_a_release_works_although_the_last_renewal_went_unanswered(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    holding = sim.spawn(one.hold())
    api.faults.inject(ConnectionFailed("reset"), verbs=["replace"], after=True)
    await sim.clock.sleep(3)
    holding.cancel()
    await one.release()
    assert record(api)["holderIdentity"] == ""


@simulate()
async def test_a_lease_that_another_one_took_is_not_released(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    await api.patch(Lease, NAME, {"spec": {"holderIdentity": "b"}}, NAMESPACE)
    await one.release()
    assert record(api)["holderIdentity"] == "b"


@simulate()
async def test_a_release_that_fails_is_a_warning(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    api.faults.partition()
    await one.release()
    assert not one.is_leader
    assert "runs out by itself" in caplog.text


@simulate()
async def test_a_holder_that_reads_another_name_stops_at_once(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    await api.patch(Lease, NAME, {"spec": {"holderIdentity": "b"}}, NAMESPACE)
    start = sim.time
    with pytest.raises(LeaseLost, match="held by b, not a"):
        await one.hold()
    assert sim.time - start <= 2.01
    assert not one.is_leader


@simulate()
async def test_a_holder_takes_a_write_under_its_renewal_for_no_loss(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api)
    await one.acquire()
    sim.spawn(one.hold())
    for _ in range(3):
        api.faults.inject(ApiError.of(409, "Conflict", "modified"), verbs=["replace"])
        await sim.clock.sleep(5)
    assert one.is_leader


@simulate()
async def test_a_deleted_lease_is_made_again_by_its_holder_while_a_standby_waits_its_term(sim: Sim) -> None:
    api = fresh(sim)
    one, two = elector(sim, api), elector(sim, api, "b")
    await one.acquire()
    sim.spawn(one.hold())
    waiting = sim.spawn(two.acquire())
    await sim.until(lambda: two.leader == "a")
    for _ in range(10):
        await api.delete(Lease, NAME, NAMESPACE)
        await sim.clock.sleep(5)
    assert one.is_leader
    assert not waiting.done()


@simulate()
async def test_two_that_create_at_once_get_one_leader(sim: Sim) -> None:
    api = fresh(sim)
    api.faults.latency = (0.1, 0.1)
    one, two = elector(sim, api), elector(sim, api, "b")
    tasks = [sim.spawn(one.acquire()), sim.spawn(two.acquire())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await sim.clock.sleep(5)
    assert [one.is_leader, two.is_leader].count(True) == 1
    creates = [r for r in api.requests if r.verb == "create"]
    assert len(creates) == 2
    assert len([r for r in creates if r.executed]) == 1


@simulate()
async def test_two_that_take_over_at_once_get_one_leader(sim: Sim) -> None:
    api = fresh(sim)
    await held_by(api, "gone")
    api.faults.latency = (0.1, 0.1)
    one, two = (elector(sim, api, name, random=Random(0)) for name in "ab")
    tasks = [sim.spawn(one.acquire()), sim.spawn(two.acquire())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await sim.clock.sleep(5)
    assert [one.is_leader, two.is_leader].count(True) == 1
    refused = [r for r in api.requests if r.verb == "replace" and isinstance(r.error, Conflict)]
    assert len(refused) == 1


@simulate()
async def test_a_restart_under_the_same_identity_goes_on_at_once(sim: Sim) -> None:
    api = fresh(sim)
    await held_by(api, "a", acquireTime="2025-01-01T00:00:00.000000Z")
    one = elector(sim, api)
    start = sim.time
    await one.acquire()
    assert sim.time == start
    assert record(api)["leaseTransitions"] == 3
    assert record(api)["acquireTime"] == "2025-01-01T00:00:00.000000Z"


@simulate()
async def test_a_record_without_content_is_free_and_one_without_duration_gets_ours(sim: Sim) -> None:
    api = fresh(sim)
    await api.create(Lease, {"metadata": {"name": NAME}}, NAMESPACE)
    one = elector(sim, api)
    await one.acquire()
    await api.replace(
        Lease,
        NAME,
        {**(await api.get(Lease, NAME, NAMESPACE)), "spec": {"holderIdentity": "odd"}},
        NAMESPACE,
    )
    two = elector(sim, api, "b")
    start = sim.time
    await two.acquire()
    assert sim.time - start >= 15


class Frozen(SimClock):
    """A clock whose process was stopped: it leaps when the lease is written."""

    def __init__(self) -> None:
        super().__init__()
        self.leap = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.leap


@simulate()
async def test_an_answer_that_a_frozen_process_sees_too_late_is_no_right_to_act(sim: Sim) -> None:
    api = fresh(sim)
    clock = Frozen()

    def freeze(verb: str, *_: object) -> None:
        clock.leap += 12 if verb == "create" else 0

    api.admission.append(freeze)
    one = elector(sim, api, clock=clock)
    await one.acquire()
    assert one.is_leader
    assert [w.verb for w in api.writes] == ["create", "replace"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"lease_duration": 10.0}, "lease > renew"),
        ({"renew_deadline": 2.4}, "lease > renew"),
        ({"retry_period": 0.0}, "lease > renew"),
        ({"name": "Main"}, "lease name 'Main'"),
        ({"name": "a" * 254}, "lease name"),
        ({"namespace": "a.b"}, "namespace 'a.b'"),
        ({"identity": ""}, "identity"),
    ],
)
def test_what_cannot_work_is_refused_with_the_rule(options: dict[str, Any], rule: str) -> None:
    arguments = {"name": NAME, "namespace": NAMESPACE, "identity": "a"} | options
    with pytest.raises(ConfigError, match=rule):
        LeaderElector(FakeApi(), clock=SimClock(), random=Faults().random, **arguments)


def test_default_identities_are_unique_and_name_the_host() -> None:
    one, two = default_identity(), default_identity()
    assert one != two
    assert one.split("_")[0] == two.split("_")[0]


@simulate()
async def test_short_durations_are_rounded_up_in_the_record(sim: Sim) -> None:
    api = fresh(sim)
    one = elector(sim, api, lease_duration=1.4, renew_deadline=1.2, retry_period=0.3)
    await one.acquire()
    assert record(api)["leaseDurationSeconds"] == 2
    holding = asyncio.create_task(one.hold())
    await sim.clock.sleep(5)
    assert one.is_leader
    holding.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await holding
