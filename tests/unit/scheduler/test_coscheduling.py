"""Gangs: bound together or not at all, waiting no longer than they may, and in nobody's way."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from konverge.errors import InvalidPluginArgs
from konverge.model.resource import Pod
from konverge.runtime.clock import SystemClock
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.changes import Changes
from konverge.scheduler.framework import CycleState
from konverge.scheduler.gangs import GANG, MIN_COUNT, POD_GROUP
from konverge.scheduler.handle import Handle
from konverge.scheduler.plugins.coscheduling import Coscheduling, CoschedulingArgs
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.waiting import WaitingRoom
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Broken, Running, node, pod, registry_with, running, with_plugin
from tests.unit.scheduler.shown import Shown

GANGS = "Coscheduling"


def member(
    name: str, gang: str = "train", *, label: str = GANG, min_count: str | None = None, cpu: str = "1", **rest: Any
) -> dict[str, Any]:
    """A pod of a gang."""
    raw = pod(name, cpu=cpu, **rest)
    raw["metadata"]["labels"] = {label: gang}
    if min_count is not None:
        raw["metadata"]["annotations"] = {MIN_COUNT: min_count}
    return raw


def members(count: int, gang: str = "train", **rest: Any) -> list[dict[str, Any]]:
    return [member(f"{gang}-{number}", gang, **rest) for number in range(count)]


def gangs_of(min_count: int, timeout: int = 600) -> ProfileConfig:
    return with_plugin(GANGS, minCount=min_count, timeoutSeconds=timeout)


def bound(cluster: Running, prefix: str = "") -> int:
    return sum(
        bool(raw["spec"].get("nodeName"))
        for raw in cluster.api.objects(Pod)
        if raw["metadata"]["name"].startswith(prefix)
    )


def names(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    return [raw["metadata"]["name"] for raw in pods]


async def told(cluster: Running, name: str) -> str:
    """Wait until the pod is told why it has no node; what it is told."""
    await cluster.sim.until(lambda: cluster.condition(name).get("status") == "False")
    return str(cluster.condition(name)["message"])


# All or nothing


@simulate()
async def test_a_gang_waits_until_enough_of_it_exist_and_says_how_many_are_missing(sim: Sim) -> None:
    gang = members(3)
    cluster = await running(sim, node("n"), *gang[:2], profile=gangs_of(3))
    message = await told(cluster, "train-0")
    assert message.startswith("0/1 nodes are available: gang default/train has 2 of at least 3 pods, 1 missing.")
    await asyncio.sleep(100)
    assert bound(cluster) == 0
    await cluster.create(gang[2])
    start = sim.clock.monotonic()
    await cluster.placed(*names(gang))
    assert sim.clock.monotonic() - start < 5


@simulate()
async def test_a_gang_without_room_for_all_places_nobody(sim: Sim) -> None:
    gang = members(3)
    cluster = await running(sim, node("n", cpu="2"), *gang, profile=gangs_of(3))
    await asyncio.sleep(200)
    assert bound(cluster) == 0
    await cluster.create(node("more", cpu="1"))
    await cluster.placed(*names(gang))


@simulate()
async def test_pods_without_a_gang_are_placed_one_by_one(sim: Sim) -> None:
    cluster = await running(sim, node("n", cpu="1"), pod("a", cpu="1"), pod("b", cpu="1"), profile=gangs_of(3))
    await sim.until(lambda: bound(cluster) == 1)


@simulate()
async def test_members_beyond_min_count_are_placed_singly(sim: Sim) -> None:
    gang = members(4)
    cluster = await running(sim, node("n", cpu="2"), *gang, profile=gangs_of(2))
    await sim.until(lambda: bound(cluster) == 2)
    await cluster.create(node("more", cpu="1"))
    await sim.until(lambda: bound(cluster) == 3)
    await cluster.create(member("late"), node("yet-more", cpu="2"))
    await cluster.placed("late", *names(gang))


@simulate()
async def test_the_annotation_overrules_the_policy_and_the_largest_holds(sim: Sim) -> None:
    gang = [member("a", min_count="2"), member("b", min_count="3")]
    cluster = await running(sim, node("n"), *gang, profile=gangs_of(1))
    assert "has 2 of at least 3 pods" in await told(cluster, "a")
    await cluster.create(member("c"))
    await cluster.placed("a", "b", "c")


@simulate()
async def test_an_annotation_that_is_no_number_is_told_to_its_pod_alone(sim: Sim) -> None:
    cluster = await running(sim, node("n"), member("a", min_count="many"), member("b"), profile=gangs_of(2))
    assert f"annotation {MIN_COUNT} is 'many': it must be a whole number from 1 to 10000" in await told(cluster, "a")
    await asyncio.sleep(30)
    assert bound(cluster) == 0


@simulate()
async def test_the_label_of_other_gang_schedulers_is_read_too(sim: Sim) -> None:
    cluster = await running(sim, node("n"), member("a", label=POD_GROUP), profile=gangs_of(2))
    assert "gang default/train has 1 of at least 2 pods" in await told(cluster, "a")
    await cluster.create(member("b"))
    await cluster.placed("a", "b")


@simulate()
async def test_gangs_of_the_same_name_in_two_namespaces_are_two(sim: Sim) -> None:
    other = member("b")
    other["metadata"]["namespace"] = "other"
    cluster = await running(sim, node("n"), member("a"), other, profile=gangs_of(2))
    assert "gang default/train has 1" in await told(cluster, "a")
    assert "gang other/train has 1" in await told(cluster, "b")


@simulate()
async def test_a_gated_member_does_not_count_until_its_gates_are_gone(sim: Sim) -> None:
    gated = member("b", spec={"schedulingGates": [{"name": "wait"}]})
    cluster = await running(sim, node("n"), member("a"), gated, profile=gangs_of(2))
    assert "has 1 of at least 2" in await told(cluster, "a")
    await cluster.api.client("author").patch(Pod, "b", {"spec": {"schedulingGates": None}}, "default")
    await cluster.placed("a", "b")


@simulate()
async def test_what_succeeded_still_counts(sim: Sim) -> None:
    """The last pod of a job whose others are done must not wait for them."""
    done = member("a", on="n", status={"phase": "Succeeded"})
    cluster = await running(sim, node("n"), done, member("b"), profile=gangs_of(2))
    await cluster.placed("b")


@simulate()
async def test_after_a_restart_the_rest_of_a_gang_follows(sim: Sim) -> None:
    cluster = await running(sim, node("n"), member("a", on="n"), member("b", on="n"), member("c"), profile=gangs_of(3))
    await cluster.placed("c")


# Waiting


@simulate()
async def test_after_its_timeout_a_gang_gives_its_nodes_back(sim: Sim) -> None:
    waiting = [member("a"), member("b"), member("bad")]
    cluster = await running(sim, node("n", cpu="3"), *waiting, profile=held_up(60), registry=registry_with(Broken))
    await asyncio.sleep(20)
    await cluster.create(pod("single", cpu="3"))
    await asyncio.sleep(20)
    assert bound(cluster) == 0
    await cluster.placed("single")
    assert 60 <= sim.clock.monotonic() < 75
    said = str(cluster.recorder.of("a") + cluster.recorder.of("b"))
    assert "rejected due to timeout after waiting 60s at plugin Coscheduling" in said
    assert "node(s) given back: gang default/train lost that of pod " in said


def held_up(timeout: int) -> ProfileConfig:
    """Gangs of three; and trying the pod named `bad` always goes wrong, which says nothing about whether it fits."""
    everywhere = PluginSet(enabled=(PluginUse(GANGS), PluginUse("Broken")))
    args = {GANGS: {"minCount": 3, "timeoutSeconds": timeout}}
    return ProfileConfig(NAME, plugins={Point.MULTI_POINT: everywhere}, args=args)


@simulate()
async def test_a_gang_that_cannot_fit_does_not_keep_its_nodes_until_the_timeout(sim: Sim) -> None:
    gang = members(3)
    cluster = await running(sim, node("n", cpu="2"), *gang, profile=gangs_of(3, timeout=3600))
    await sim.until(lambda: any("found no node" in str(cluster.recorder.of(name)) for name in names(gang)))
    start = sim.clock.monotonic()
    await cluster.create(pod("single", cpu="2"))
    await cluster.placed("single")
    assert sim.clock.monotonic() - start < 15


@simulate()
async def test_it_waits_while_enough_others_can_still_find_a_node(sim: Sim) -> None:
    """Of four pods one fits nowhere, three are enough."""
    gang = [*members(3), member("huge", cpu="50")]
    cluster = await running(sim, node("n", cpu="2"), node("m", cpu="1"), *gang, profile=gangs_of(3))
    await cluster.placed(*names(gang[:3]))


@simulate()
async def test_when_a_waiting_member_is_deleted_the_others_give_their_nodes_back(sim: Sim) -> None:
    waiting = [member("a"), member("b"), member("bad")]
    cluster = await running(sim, node("n", cpu="3"), *waiting, profile=held_up(3600), registry=registry_with(Broken))
    await cluster.create(pod("single", cpu="3"))
    await asyncio.sleep(60)
    assert bound(cluster) == 0
    await cluster.api.client("author").delete(Pod, "a", "default")
    await cluster.placed("single")


async def test_who_gives_its_node_back_with_the_rest_does_not_drag_those_along_who_came_after() -> None:
    clock = SystemClock()
    room = WaitingRoom(clock)
    plugin = Coscheduling(CoschedulingArgs(min_count=4), Handle(FakeApi(), Shown({}), room, Changes(clock).until))
    x, y, z = (PodInfo(member(name)) for name in "xyz")
    room.hold(x, "n", {GANGS: 60.0})
    room.hold(y, "n", {GANGS: 60.0})
    room.reject(x.uid, GANGS, "late")
    plugin.unreserve(CycleState(), x, "n")
    assert room.all() == []
    room.hold(z, "n", {GANGS: 60.0})
    plugin.unreserve(CycleState(), y, "n")
    assert [waiting.pod.name for waiting in room.all()] == ["z"]


# Several gangs, and the others


@simulate(seeds=range(8))
async def test_of_two_gangs_with_room_for_one_exactly_one_is_placed_and_then_the_other(sim: Sim) -> None:
    first, second = members(3, "one"), members(3, "two")
    both = [raw for pair in zip(first, second, strict=True) for raw in pair]
    cluster = await running(sim, *(node(f"n{i}", cpu="1") for i in range(4)), *both, profile=gangs_of(3))
    await sim.until(lambda: bound(cluster) == 3, within=300)
    await asyncio.sleep(100)
    winner, loser = (first, second) if bound(cluster, "one") == 3 else (second, first)
    assert (bound(cluster, "one"), bound(cluster, "two")) in {(3, 0), (0, 3)}
    for name in names(winner):
        await cluster.api.client("author").delete(Pod, name, "default")
    await cluster.placed(*names(loser))


@simulate()
async def test_a_gang_comes_together_although_others_stand_between(sim: Sim) -> None:
    """The queue's order alone would give the room to the pods between the gang's first and last."""
    line = [member(f"p{i}") if i % 2 == 0 else pod(f"p{i}", cpu="1") for i in range(6)]
    cluster = await running(sim, node("n", cpu="3"), *line, profile=gangs_of(3))
    await cluster.placed("p0", "p2", "p4")
    assert bound(cluster) == 3


@simulate()
async def test_a_gang_that_waits_for_members_keeps_nobody_waiting(sim: Sim) -> None:
    cluster = await running(sim, node("n", cpu="3"), *members(3), profile=gangs_of(4))
    await cluster.create(*(pod(f"s{i}", cpu="1") for i in range(3)))
    await cluster.placed("s0", "s1", "s2")


@simulate()
async def test_a_gang_that_never_fits_is_tried_at_the_pace_of_the_backoff(sim: Sim) -> None:
    gang = members(40)
    cluster = await running(sim, *(node(f"n{i}", cpu="5") for i in range(2)), *gang, profile=gangs_of(30))
    await asyncio.sleep(300)
    before = len(cluster.recorder.events)
    await asyncio.sleep(300)
    assert bound(cluster) == 0
    # In a round each pod is tried once, and rounds are ten seconds apart.
    assert len(cluster.recorder.events) - before <= 40 * 31


# Arguments


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"minCount": 0}, "minCount: Input should be greater than or equal to 1"),
        ({"timeoutSeconds": 3601}, "timeoutSeconds: Input should be less than or equal to 3600"),
        ({"quorum": 3}, "quorum: Extra inputs are not permitted"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPluginArgs, match=says):
        Registry.default().check_args(GANGS, args)
