"""Profiles that come, change and go under a running scheduler, and what their owners are told."""

import asyncio
from collections import Counter

import pytest

from konverge.errors import Conflict, InvalidPluginArgs, SchedulingError, UnknownPlugin
from konverge.model.resource import Pod
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.stats import NullObserver
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Broken, Running, node, pod, registry_with, running, with_plugin


@simulate()
async def test_an_edit_of_the_profile_takes_effect_at_once_and_retries_its_pods(sim: Sim) -> None:
    cluster = await running(sim, node("n1", taints=["k=v:NoSchedule"]), pod("a"))
    await sim.until(lambda: cluster.condition("a"))
    tolerant = PluginSet(disabled=frozenset({"TaintToleration"}))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME, plugins={Point.MULTI_POINT: tolerant}))
    await sim.until(lambda: cluster.at("a"), within=0.5)


@simulate()
async def test_setting_the_same_profile_again_changes_nothing(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), pod("a", cpu="2"))
    await sim.until(lambda: cluster.recorder.of("a"))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME))
    await asyncio.sleep(60)
    assert len(cluster.recorder.of("a")) == 1


@simulate()
async def test_a_bad_profile_raises_and_leaves_the_old_one_in_force(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    with pytest.raises(UnknownPlugin, match=r"unknown plugin 'Nope'; known: .*DefaultBinder, .*ImageLocality,"):
        cluster.scheduler.set_profile("policy", with_plugin("Nope"))
    with pytest.raises(InvalidPluginArgs, match="plugin NodeLabelPriority: label: Field required"):
        cluster.scheduler.set_profile("policy", with_plugin("NodeLabelPriority"))
    await cluster.create(pod("a"))
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_an_owner_can_go_over_to_another_scheduler_name(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.scheduler.set_profile("policy", ProfileConfig("renamed"))
    await cluster.create(pod("a"), pod("b", scheduler="renamed"))
    await cluster.placed("b")
    assert cluster.at("a") == ""
    cluster.scheduler.set_profile("second", ProfileConfig(NAME))
    await cluster.placed("a")


@simulate()
async def test_pods_of_a_removed_profile_are_left_alone_until_it_returns(sim: Sim) -> None:
    cluster = await running(sim, pod("a"))
    await sim.until(lambda: cluster.condition("a"))
    cluster.scheduler.remove_profile("policy")
    cluster.scheduler.remove_profile("policy")
    await cluster.create(node("n1"), pod("b"))
    await asyncio.sleep(400)
    assert (cluster.at("a"), cluster.at("b")) == ("", "")
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME))
    assert await cluster.placed("a", "b") == ["n1", "n1"]


@simulate()
async def test_a_profile_replaced_during_a_bind_that_fails_still_gets_its_pod(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.api.faults.latency = (2.0, 2.0)
    cluster.api.faults.inject(Conflict(409, "Conflict", "no"), verbs=["create"], resource=Pod, name="a")
    await cluster.create(pod("a"))
    await asyncio.sleep(0.5)
    cluster.scheduler.remove_profile("policy")
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME))
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_profiles_cannot_sort_the_one_queue_differently(sim: Sim) -> None:
    class Fifo(PrioritySort):
        name = "Fifo"

    cluster = await running(sim, registry=registry_with(Fifo))
    fifo = PluginSet(enabled=(PluginUse("Fifo"),), disabled=frozenset({"PrioritySort"}))
    with pytest.raises(SchedulingError, match="all profiles share one queue: policy sorts it with PrioritySort"):
        cluster.scheduler.set_profile("second", ProfileConfig("second", plugins={Point.MULTI_POINT: fifo}))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME, plugins={Point.MULTI_POINT: fifo}))


# Stats and metrics


@simulate()
async def test_stats_count_the_pods_of_the_profile_and_why_they_wait(sim: Sim) -> None:
    changed: list[str] = []
    cluster = Running(sim, (await running(sim)).api)
    cluster.scheduler.on_change(changed.append)
    await cluster.create(
        node("n1", cpu="1"),
        pod("big1", cpu="2"),
        pod("big2", cpu="2", memory="1Ti"),
        pod("fits", cpu="1"),
        pod("done", status={"phase": "Succeeded"}),
        pod("theirs", scheduler="x"),
    )
    await cluster.start()
    await sim.until(lambda: cluster.scheduler.stats("policy").scheduled == 1)
    await sim.until(lambda: cluster.scheduler.stats("policy").unschedulable == 2)
    stats = cluster.scheduler.stats("policy")
    assert (stats.matched, stats.pending, stats.scheduled, stats.unschedulable) == (3, 2, 1, 2)
    assert stats.top_reasons == [("Insufficient cpu", 2), ("Insufficient memory", 1)]
    assert stats.last_scheduled is not None
    assert set(changed) == {"policy"}
    await cluster.api.delete(Pod, "big2", "default")
    await sim.until(lambda: cluster.scheduler.stats("policy").unschedulable == 1)
    assert cluster.scheduler.stats("nobody").matched == 0


@simulate()
async def test_an_observer_sees_attempts_and_queues(sim: Sim) -> None:
    class Observer(NullObserver):
        def __init__(self) -> None:
            self.attempts: list[tuple[str, str]] = []
            self.waiting: tuple[int, int, int] = (0, 0, 0)
            self.came: Counter[tuple[str, str]] = Counter()
            self.bound: list[tuple[int, float]] = []

        def attempt(self, profile: str, result: str, seconds: float) -> None:
            assert seconds >= 0
            self.attempts.append((profile, result))

        def pending(self, active: int, backoff: int, unschedulable: int) -> None:
            self.waiting = (active, backoff, unschedulable)

        def queued(self, queue: str, event: str) -> None:
            self.came[queue, event] += 1

        def scheduled(self, attempts: int, seconds: float) -> None:
            self.bound.append((attempts, seconds))

    observer = Observer()
    profile, registry = with_plugin("Broken"), registry_with(Broken)
    cluster = await running(sim, node("n1", cpu="1"), profile=profile, registry=registry, observer=observer)
    await cluster.create(pod("fits"), pod("bad"), pod("big", cpu="2"))
    await sim.until(lambda: len(observer.attempts) >= 3)
    assert set(observer.attempts) == {(NAME, "scheduled"), (NAME, "error"), (NAME, "unschedulable")}
    assert observer.waiting == (0, 1, 1)
    assert observer.came == {
        ("active", "PodAdd"): 3,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
    }
    await asyncio.sleep(2.5)
    assert observer.came["active", "BackoffComplete"] == 1
    await cluster.create(node("n2", cpu="2"))
    await cluster.placed("big")
    await sim.until(lambda: len(observer.bound) == 2)
    assert observer.came["active", "NodeAllocatable"] == 1  # it was added without saying what it has
    assert [attempts for attempts, _ in observer.bound] == [1, 2]
    assert observer.bound[1][1] > 1.5
