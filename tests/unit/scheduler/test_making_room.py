"""Preemption in a running scheduler: victims are told and leave, the pod gets their node, nobody else does meanwhile."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from konverge.errors import ConnectionFailed, Forbidden
from konverge.model.resource import Node, Object, Pod, PodDisruptionBudget
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.framework import SUCCESS, Code, CycleState, Permit, PermitResult, PreBind, Verdict
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.stats import NullObserver
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Running, binds, node, pod, registry_with, running

STOPPING = "example.com/stopping"
"""A finalizer that stands for the time that containers take to stop."""


def runs(
    name: str, cpu: str = "2", priority: int = 0, *, on: str = "n1", labels: Mapping[str, str] | None = None
) -> Object:
    """A running pod that takes its time to stop."""
    raw = pod(name, cpu, on=on, priority=priority, status={"startTime": "2026-01-01T00:00:00Z"})
    raw["metadata"] |= {"finalizers": [STOPPING], "labels": dict(labels or {})}
    return raw


def wants(name: str, cpu: str = "2", priority: int = 10, **spec: Any) -> Object:
    return pod(name, cpu, priority=priority, spec=spec)


def raw(cluster: Running, name: str) -> Object | None:
    return next((each for each in cluster.api.objects(Pod) if each["metadata"]["name"] == name), None)


def nominated(cluster: Running, name: str) -> str:
    return str(((raw(cluster, name) or {}).get("status") or {}).get("nominatedNodeName") or "")


def leaving(cluster: Running) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.api.objects(Pod) if "deletionTimestamp" in each["metadata"]}


async def stop(cluster: Running, *names: str) -> None:
    """The containers of these pods have ended."""
    for name in names:
        await cluster.api.client("kubelet").patch(Pod, name, {"metadata": {"finalizers": None}}, "default")


class Told(NullObserver):
    """Keeps what it is told of preemptions."""

    def __init__(self) -> None:
        self.preemptions: list[int] = []

    def preemption(self, victims: int) -> None:
        self.preemptions.append(victims)


@simulate()
async def test_a_victim_is_told_and_deleted_and_the_pod_takes_its_place_when_it_is_gone(sim: Sim) -> None:
    observer = Told()
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), wants("new"), observer=observer)
    await sim.until(lambda: leaving(cluster) == {"old"})
    condition = next(each for each in (raw(cluster, "old") or {})["status"]["conditions"])
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
    }
    uid = (raw(cluster, "new") or {})["metadata"]["uid"]
    assert cluster.recorder.of("old") == [("Preempted", f"Preempted by pod {uid} on node n1")]
    await sim.until(lambda: nominated(cluster, "new") == "n1")
    assert cluster.condition("new")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    await asyncio.sleep(400)  # also when it is tried again meanwhile, it waits for its victim
    assert cluster.at("new") == ""
    await stop(cluster, "old")
    await sim.until(lambda: cluster.at("new") == "n1", within=15)
    assert observer.preemptions[0] == 1
    assert set(observer.preemptions[1:]) == {0}
    assert len([request for request in cluster.api.writes if request.verb == "delete"]) == 1


@simulate()
async def test_while_a_node_is_cleared_only_more_important_pods_may_take_the_room(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), wants("new"))
    await sim.until(lambda: nominated(cluster, "new"))
    await cluster.create(wants("same", "500m"), wants("lower", "500m", priority=5))
    await sim.until(lambda: cluster.condition("same") and cluster.condition("lower"))
    await stop(cluster, "old")
    assert await cluster.placed("new") == ["n1"]
    await asyncio.sleep(30)
    assert (cluster.at("same"), cluster.at("lower")) == ("", "")


@simulate()
async def test_the_room_is_promised_before_the_server_knows_of_it(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="3"), pod("old", "2", on="n1"))
    cluster.api.faults.latency = (2.0, 2.0)
    await cluster.create(wants("new", "3"), wants("same", "1"))  # which is tried next, and would fit beside the victim
    cluster.api.faults.latency = (0.0, 0.0)
    assert await cluster.placed("new") == ["n1"]
    assert cluster.at("same") == ""


@simulate()
async def test_who_had_hoped_for_the_node_may_look_elsewhere_though_its_victim_is_still_leaving(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="4"), runs("a", "2"), runs("b", "2", priority=5))
    await cluster.create(wants("new", "2", priority=3))
    await sim.until(lambda: nominated(cluster, "new") == "n1")
    await cluster.create(wants("boss", "4", priority=100))
    await sim.until(lambda: nominated(cluster, "boss") == "n1")
    await sim.until(lambda: nominated(cluster, "new") == "", within=10)
    assert leaving(cluster) == {"a", "b"}


@simulate()
async def test_a_more_important_pod_that_comes_later_takes_the_node_and_the_hope(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), runs("older", "1", on="n2"), node("n2", cpu="1"))
    await cluster.create(wants("new"))
    await sim.until(lambda: nominated(cluster, "new") == "n1")
    await stop(cluster, "old")
    await cluster.create(runs("filler", "2", priority=10))  # somebody else fills the node first
    await asyncio.sleep(20)
    await cluster.create(wants("boss", priority=100))
    await sim.until(lambda: "filler" in leaving(cluster))
    await sim.until(lambda: nominated(cluster, "boss") == "n1" and nominated(cluster, "new") == "")
    await stop(cluster, "filler")
    assert await cluster.placed("boss") == ["n1"]


@simulate()
async def test_a_nominee_that_no_longer_fits_is_nominated_no_longer(sim: Sim) -> None:
    """Replay 27: 2 of 4 CPUs are used, the nominee wants 3; a more important pod comes and takes 1.5 of them."""
    cluster = await running(sim, node("n1", cpu="4"), runs("p0", "2"), wants("p1", "3"))
    await sim.until(lambda: nominated(cluster, "p1") == "n1")
    await cluster.create(wants("p2", "1500m", priority=100))
    assert await cluster.placed("p2") == ["n1"]
    await stop(cluster, "p0")
    await sim.until(lambda: raw(cluster, "p0") is None)
    await sim.until(lambda: nominated(cluster, "p1") == "", within=30)
    assert cluster.condition("p1")["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


@simulate()
async def test_a_pod_whose_nominated_node_is_tainted_preempts_elsewhere(sim: Sim) -> None:
    """Replay 26 in a running scheduler."""
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), wants("new"))
    await sim.until(lambda: nominated(cluster, "new") == "n1")
    await cluster.create(node("n2", cpu="2", unschedulable=True), runs("other", on="n2"))
    taint = {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
    await cluster.api.client("author").patch(Node, "n1", taint)
    await cluster.api.client("author").patch(Node, "n2", {"spec": {"unschedulable": None}})
    await sim.until(lambda: nominated(cluster, "new") == "n2", within=30)
    await stop(cluster, "other")
    assert await cluster.placed("new") == ["n2"]


@simulate()
async def test_budgets_come_from_the_server(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("web", "1", labels={"app": "web"}), runs("batch", "1", 5))
    guard = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    await cluster.api.client("author").create(PodDisruptionBudget, guard, "default")
    await asyncio.sleep(2)
    await cluster.create(wants("new", "1"))
    await sim.until(lambda: leaving(cluster))
    assert leaving(cluster) == {"batch"}


@pytest.mark.parametrize("verb", ["patch", "delete"])
@simulate()
async def test_what_the_server_refuses_is_tried_again_after_a_backoff(sim: Sim, verb: str) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("old"))
    denied = Forbidden(403, "Forbidden", "no")
    cluster.api.faults.inject(denied, verbs=[verb], resource=Pod, name="old", times=4)
    await cluster.create(wants("new"))
    await asyncio.sleep(60)
    tried = [each for each in cluster.api.requests if (each.name, each.verb) == ("old", verb) and each.user != "author"]
    assert len(tried) == 5
    await stop(cluster, "old")
    assert await cluster.placed("new") == ["n1"]


@simulate()
async def test_a_lost_answer_to_a_delete_evicts_nobody_else(sim: Sim) -> None:
    cluster = await running(
        sim, node("n1", cpu="2"), runs("old"), node("n2", cpu="2"), runs("other", priority=5, on="n2")
    )
    lost = ConnectionFailed("reset by peer")
    cluster.api.faults.inject(lost, verbs=["delete"], resource=Pod, name="old", after=True)
    await cluster.create(wants("new"))
    await asyncio.sleep(30)
    assert leaving(cluster) == {"old"}
    await stop(cluster, "old")
    assert await cluster.placed("new") == ["n1"]


@simulate()
async def test_a_victim_that_is_gone_already_is_no_trouble(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), pod("old", "2", on="n1"))
    cluster.api.faults.latency = (1.0, 1.0)
    await cluster.create(wants("new"))
    await asyncio.sleep(0.1)
    cluster.api.faults.latency = (0.0, 0.0)
    await cluster.api.client("author").delete(Pod, "old", "default")
    assert await cluster.placed("new") == ["n1"]


@simulate()
async def test_a_pod_deleted_while_room_is_made_for_it_leaves_the_room_to_others(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), wants("new"))
    await sim.until(lambda: nominated(cluster, "new"))
    await cluster.api.client("author").delete(Pod, "new", "default")
    await cluster.create(wants("next", priority=1))
    await stop(cluster, "old")
    assert await cluster.placed("next") == ["n1"]


@simulate()
async def test_a_nomination_outlives_the_scheduler(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), runs("old"), wants("new"))
    await sim.until(lambda: nominated(cluster, "new") and leaving(cluster))
    cluster.running.cancel()
    await asyncio.wait([cluster.running])
    again = await Running(sim, cluster.api).start()
    await again.create(wants("same", "2"))
    await stop(cluster, "old")
    assert await again.placed("new") == ["n1"]
    assert again.at("same") == ""


class Slow(Permit, PreBind):
    """Keeps some pods waiting, before their permit or after it, by their name."""

    name = "Slow"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str, /) -> PermitResult:
        return PermitResult(Verdict(Code.WAIT), timeout=900) if pod.name == "waits" else PermitResult()

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        if pod.name == "prepares":
            await asyncio.sleep(900)
        return SUCCESS


@pytest.mark.parametrize("name", ["waits", "prepares"])
@simulate()
async def test_a_pod_without_its_bind_gives_way_without_being_deleted(sim: Sim, name: str) -> None:
    slow = PluginSet(enabled=(PluginUse("Slow"),))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: slow})
    cluster = await running(sim, node("n1", cpu="2"), profile=profile, registry=registry_with(Slow))
    await cluster.create(wants(name, priority=0))
    await asyncio.sleep(5)
    await cluster.create(wants("new"))
    assert await cluster.placed("new") == ["n1"]
    assert raw(cluster, name) is not None
    assert leaving(cluster) == set()
    assert [request.name for request in binds(cluster)] == ["new"]
    ((_, note),) = [told for told in cluster.recorder.of(name) if told[0] == "Preempted"]
    assert note.endswith("on node n1 (in the scheduler's memory).")
