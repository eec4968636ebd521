"""Gangs and preemption: pods have to go for a gang only if all of it that must run runs afterwards."""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from konverge.model.resource import Object, Pod
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Company, CycleState, PostFilter, PostFilterResult, Trials, unschedulable
from konverge.scheduler.gangs import GANG, MIN_COUNT
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, compile_profile
from konverge.scheduler.snapshot import Snapshot
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import (
    NAME,
    Running,
    node,
    plugin_handle,
    pod,
    registry_with,
    running,
    snapshot_of,
    with_plugin,
)

STOPPING = "example.com/stopping"
"""A finalizer that stands for the time that containers take to stop."""
PROFILE = with_plugin("Coscheduling")


def member(
    name: str, gang: str = "train", *, enough: int = 3, cpu: str = "2", priority: int = 10, **spec: Any
) -> dict[str, Any]:
    raw = pod(name, cpu, priority=priority, spec=spec)
    raw["metadata"] |= {"labels": {GANG: gang}, "annotations": {MIN_COUNT: str(enough)}}
    return raw


def gang(name: str = "train", size: int = 3, **rest: Any) -> list[Object]:
    return [member(f"{name}-{index}", name, **rest) for index in range(size)]


def runs(name: str, on: str, cpu: str = "2", priority: int = 0) -> Object:
    """A running pod that takes its time to stop."""
    raw = pod(name, cpu, on=on, priority=priority, status={"startTime": "2026-01-01T00:00:00Z"})
    raw["metadata"]["finalizers"] = [STOPPING]
    return raw


def full(count: int, **rest: Any) -> list[Object]:
    """Nodes with a running pod each, which leaves room for nobody."""
    nodes: list[Object] = [node(f"n{index}", cpu="2") for index in range(count)]
    return nodes + [runs(f"old-{index}", f"n{index}", **rest) for index in range(count)]


def leaving(cluster: Running) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.api.objects(Pod) if "deletionTimestamp" in each["metadata"]}


def bound(cluster: Running, prefix: str) -> set[str]:
    """The pods with a node whose name begins so."""
    pods = [each for each in cluster.api.objects(Pod) if each["metadata"]["name"].startswith(prefix)]
    return {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}


async def stop(cluster: Running, *names: str) -> None:
    """The containers of these pods have ended."""
    for name in names:
        await cluster.api.client("kubelet").patch(Pod, name, {"metadata": {"finalizers": None}}, "default")


# In a running scheduler


@simulate()
async def test_room_is_made_for_a_gang_that_fits_as_a_whole(sim: Sim) -> None:
    cluster = await running(sim, *full(3), *gang(), profile=PROFILE)
    await sim.until(lambda: leaving(cluster) == {"old-0", "old-1", "old-2"})
    await stop(cluster, *leaving(cluster))
    await cluster.placed("train-0", "train-1", "train-2")


@simulate()
async def test_nobody_is_evicted_for_a_gang_that_would_still_lack_a_node(sim: Sim) -> None:
    cluster = await running(
        sim, *full(2), node("n2", cpu="2"), runs("boss", "n2", priority=99), *gang(), profile=PROFILE
    )
    await sim.until(lambda: cluster.condition("train-0").get("status") == "False")
    said = "preemption: gang default/train does not fit as a whole, 1 more node(s) could not be cleared"
    assert cluster.condition("train-0")["message"] == f"0/3 nodes are available: 3 Insufficient cpu. {said}"
    await asyncio.sleep(400)
    assert leaving(cluster) == set()
    await cluster.api.client("author").delete(Pod, "boss", "default")
    await stop(cluster, "boss")
    await sim.until(lambda: leaving(cluster) == {"old-0", "old-1"}, within=400)
    await stop(cluster, "old-0", "old-1")
    await cluster.placed("train-0", "train-1", "train-2")


@simulate()
async def test_members_that_need_nobody_out_of_their_way_count(sim: Sim) -> None:
    cluster = await running(sim, *full(1), node("free", cpu="4"), *gang(), profile=PROFILE)
    await sim.until(lambda: leaving(cluster) == {"old-0"})
    await stop(cluster, "old-0")
    await cluster.placed("train-0", "train-1", "train-2")


@simulate()
async def test_the_gang_keeps_its_nodes_while_victims_of_it_are_still_leaving(sim: Sim) -> None:
    cluster = await running(sim, *full(3), *gang(), profile=PROFILE)
    await sim.until(lambda: len(leaving(cluster)) == 3)
    for index in range(3):
        assert bound(cluster, "train") == set()
        await asyncio.sleep(40)
        await stop(cluster, f"old-{index}")
        await cluster.create(pod(f"late-{index}", "2", priority=5))
    await cluster.placed("train-0", "train-1", "train-2")
    assert bound(cluster, "late") == set()
    assert len([request for request in cluster.api.writes if request.verb == "delete"]) == 3


@simulate(seeds=range(5))
async def test_of_two_gangs_with_room_for_one_only_one_has_pods_evicted(sim: Sim) -> None:
    pairs = zip(gang("one"), gang("two"), strict=True)
    cluster = await running(sim, *full(4), *(raw for pair in pairs for raw in pair), profile=PROFILE)
    await sim.until(lambda: len(leaving(cluster)) == 3)
    await asyncio.sleep(60)
    assert len(leaving(cluster)) == 3
    await stop(cluster, *leaving(cluster))
    await sim.until(lambda: {len(bound(cluster, "one")), len(bound(cluster, "two"))} == {0, 3})
    await asyncio.sleep(400)
    assert len([request for request in cluster.api.writes if request.verb == "delete"]) == 3


@simulate()
async def test_what_comes_beyond_the_least_number_has_room_made_for_itself(sim: Sim) -> None:
    cluster = await running(sim, *full(1), *(node(f"free{i}", cpu="2") for i in range(2)), profile=PROFILE)
    await cluster.create(*gang(size=2, enough=2))
    await cluster.placed("train-0", "train-1")
    await cluster.create(member("train-2", enough=2))
    await sim.until(lambda: leaving(cluster) == {"old-0"})
    await stop(cluster, "old-0")
    await cluster.placed("train-2")


@simulate(seeds=range(12), max_steps=5_000_000)
async def test_whoever_was_evicted_for_a_gang_its_gang_runs(sim: Sim) -> None:
    """Random gangs come to a full cluster; victims stop when they like. No more than a gang can use is ever cleared."""
    chance = sim.random
    nodes: list[Object] = [node(f"n{index}", cpu=chance.choice(["2", "4"])) for index in range(8)]
    there = [
        runs(f"old-{raw['metadata']['name']}-{index}", raw["metadata"]["name"], "1", chance.choice([0, 1, 2, 50]))
        for raw in nodes
        for index in range(int(raw["status"]["allocatable"]["cpu"]))
    ]
    cluster = await running(sim, *nodes, *there, profile=PROFILE)
    enough = {}
    for number in range(5):
        name, size = f"g{number}", chance.randint(2, 6)
        enough[name] = chance.randint(2, size)
        await cluster.create(*gang(name, size, enough=enough[name], cpu=chance.choice(["1", "2"])))
        await asyncio.sleep(chance.choice([0.0, 0.5, 20.0]))
        for victim in leaving(cluster):
            if chance.random() < 0.5:
                await stop(cluster, victim)
    for _ in range(20):
        await asyncio.sleep(30)
        await stop(cluster, *leaving(cluster))
    gang_of = {raw["metadata"]["uid"]: raw["metadata"]["labels"][GANG] for raw in cluster.api.objects(Pod) if GANG in raw["metadata"].get("labels", {})}  # fmt: skip
    evicted_for = {gang_of[note.split()[3]] for _, _, reason, note in cluster.recorder.events if reason == "Preempted"}
    for name, least in enough.items():
        count = len(bound(cluster, f"{name}-"))
        assert count == 0 or count >= least, name
        assert count or name not in evicted_for, f"pods had to go for {name}, which does not run"


# In one attempt


def attempt(
    snapshot: Snapshot,
    *pods: Object,
    nominated: Mapping[str, str] | None = None,
    registry: Registry | None = None,
    plugins: Sequence[str] = ("Coscheduling",),
    activated: dict[str, str] | None = None,
) -> Diagnosis:
    """Try the first of the pods, which all wait; `nominated` gives nodes by the names of others.

    `activated` is filled with who is to be tried next, by uid, and in whose place in the line.
    """

    def activate(uids: Iterable[str], /, *, beside: str = "") -> None:
        if activated is not None:
            activated.update(dict.fromkeys(uids, beside))

    handle, nominations = replace(plugin_handle(), activate=activate), Nominations()
    for number, raw in enumerate(pods):
        raw["metadata"]["resourceVersion"] = str(number + 1)
        handle.lister.wrote(Pod, raw)
        if at := (nominated or {}).get(raw["metadata"]["name"]):
            nominations.put(PodInfo(raw), at)
    uses = PluginSet(enabled=tuple(map(PluginUse, plugins)))
    config = ProfileConfig(NAME, plugins={Point.MULTI_POINT: uses})
    profile: Profile = compile_profile(config, registry or Registry.default(), handle)
    result = Cycle(snapshot, random.Random(0), nominations=nominations).schedule(profile, PodInfo(pods[0]))
    assert isinstance(result, Diagnosis)
    return result


def crowded(count: int, cpu: str = "2", **rest: Any) -> Snapshot:
    nodes = [node(f"n{index}", cpu=cpu) for index in range(count)]
    return snapshot_of(*nodes, pods=[runs(f"old-{index}", f"n{index}", cpu, **rest) for index in range(count)])


def test_every_filter_has_its_say_about_the_others() -> None:
    """Two large nodes have room for three pods, but these keep apart from each other."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {GANG: "train"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert attempt(crowded(2, "4"), *gang()).victims
    assert not attempt(crowded(2, "4"), *gang(affinity=apart)).victims
    assert attempt(crowded(3, "4"), *gang(affinity=apart)).victims


def test_others_that_may_not_push_anybody_out_are_not_counted_on() -> None:
    meek = [member(f"meek-{index}", preemptionPolicy="Never") for index in range(2)]
    assert not attempt(crowded(3), member("bold"), *meek).victims


def test_others_that_are_nominated_have_their_room_already() -> None:
    pods = gang()
    assert not attempt(crowded(2), *pods).victims
    snapshot = crowded(2)
    snapshot.set_node(node("clearing", cpu="2"))
    snapshot.place(PodInfo(runs("goes", "clearing", priority=99)))
    assert attempt(snapshot, *pods, nominated={"train-1": "clearing"}).victims


def test_no_more_than_the_least_number_must_find_a_node() -> None:
    assert attempt(crowded(2), *gang(size=5, enough=2)).victims


def test_an_important_member_does_not_push_out_the_one_that_is_tried() -> None:
    pods = [member("small", priority=5), member("great-0", priority=10), member("great-1", priority=10)]
    assert not attempt(crowded(2), *pods).victims
    assert attempt(crowded(3), *pods).victims


def test_the_others_are_tried_next_before_anybody_takes_what_they_would_find() -> None:
    activated: dict[str, str] = {}
    assert not attempt(crowded(2), *gang(), activated=activated).victims
    assert activated == {}
    assert attempt(crowded(3), *gang(), activated=activated).victims
    assert activated == {"train-1": "train-0", "train-2": "train-0"}


def test_trying_changes_nothing() -> None:
    snapshot = crowded(3)

    def state() -> Any:
        placed = {info.uid: (each.name, dict(each.requested)) for each in snapshot.nodes(snapshot.rows) for info in each.pods.values()}  # fmt: skip
        return placed, snapshot.requested("cpu", snapshot.rows).tolist(), [snapshot.is_assumed(uid) for uid in placed]

    before = state()
    assert attempt(snapshot, *gang()).victims
    assert not attempt(snapshot, *gang(size=4, enough=4)).victims
    assert state() == before


class Pair(PostFilter):
    """Says that a pod needs another beside it; it may go wrong."""

    name = "Pair"
    error: Exception | None = None

    def post_filter(self, state: CycleState, pod: PodInfo, trials: Trials, diagnosis: Diagnosis, /) -> PostFilterResult:
        return PostFilterResult(unschedulable())

    def company(self, _state: CycleState, one: PodInfo, _snapshot: Snapshot, /) -> Company | None:
        if self.error is not None:
            raise self.error
        return Company("the pair", 1, (PodInfo(pod("other", "2", priority=one.priority)),))


@pytest.mark.parametrize(
    ("nodes", "error", "victims"), [(2, None, True), (1, None, False), (2, RuntimeError("boom"), False)]
)
def test_a_third_partys_plugin_may_say_who_belongs_together(
    nodes: int, error: Exception | None, *, victims: bool
) -> None:
    Pair.error = error
    diagnosis = attempt(crowded(nodes), pod("one", "2", priority=10), registry=registry_with(Pair), plugins=["Pair"])
    assert bool(diagnosis.victims) is victims
    if error:
        assert diagnosis.message.endswith("running 'Pair' postFilter plugin: RuntimeError: boom")
