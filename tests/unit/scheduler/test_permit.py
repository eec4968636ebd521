"""From reserve to bind: pods that wait for leave, what is prepared before a bind, who is told after it."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from konverge.model.resource import Pod
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.bind import MAX_BINDS
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Permit,
    PermitResult,
    PluginArgs,
    PostBind,
    PreBind,
    Reserve,
    Verdict,
    unschedulable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.podinfo import PodInfo
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Running, binds, node, pod, registry_with, running


class Gate(Permit, Reserve):
    """Holds pods by their name, and keeps books on what they reserved. Only a changed node can change its mind."""

    name = "Gate"
    events = frozenset({ClusterEvent.NODE_LABEL})
    handle: Handle
    held: set[str]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        Gate.handle, Gate.held = handle, set()

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        self.held.add(pod.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        self.held.discard(pod.name)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str, /) -> PermitResult:
        match pod.name.split("-")[0]:
            case "rejected":
                return PermitResult(unschedulable("not today"))
            case "raises":
                raise RuntimeError("boom")
            case "skips":
                return PermitResult(SKIP)
            case "waits":
                return PermitResult(Verdict(Code.WAIT), timeout=60)
        return PermitResult()


class Hasty(Permit):
    """Makes up its mind right after `permit`, before anybody waits for it."""

    name = "Hasty"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    def permit(self, state: CycleState, pod: PodInfo, node_name: str, /) -> PermitResult:
        asyncio.get_running_loop().call_soon(self._decide, pod)
        return PermitResult(Verdict(Code.WAIT), timeout=60)

    def _decide(self, pod: PodInfo) -> None:
        if pod.name == "rejected":
            self._handle.waiting.reject(pod.uid, self.name, "changed my mind")
        else:
            self._handle.waiting.allow(pod.uid, self.name)


class Second(Permit):
    """Keeps waiting pods a little longer."""

    name = "Second"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str, /) -> PermitResult:
        return PermitResult(Verdict(Code.WAIT), timeout=1e9) if pod.name.startswith("waits") else PermitResult()


class Prepares(PreBind):
    """Takes its time, or fails, by the pod's name."""

    name = "Prepares"
    events = frozenset({ClusterEvent.NODE_LABEL})

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        match pod.name.split("-")[0]:
            case "slow":
                await asyncio.sleep(300)
            case "stubborn":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(300)
            case "rejected":
                return unschedulable("no volume")
            case "raises":
                raise RuntimeError("boom")
            case "waits":
                return Verdict(Code.WAIT)
            case "skips":
                return SKIP
        return SUCCESS


class Told(PostBind):
    """Writes down what it is told, and raises."""

    name = "Told"
    pods: list[tuple[str, str]]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        Told.pods = []

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        self.pods.append((pod.name, node_name))
        raise RuntimeError("too late")


async def cluster_with(sim: Sim, *plugins: type, pods: int = 110) -> Running:
    uses = tuple(PluginUse(plugin.name) for plugin in plugins)  # type: ignore[attr-defined]
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: PluginSet(enabled=uses)})
    return await running(sim, node("n1", pods=pods), profile=profile, registry=registry_with(*plugins))


def waiting() -> dict[str, set[str]]:
    return {held.pod.name: set(held.plugins) for held in Gate.handle.waiting.all()}


def uid(cluster: Running, name: str) -> str:
    (found,) = [raw for raw in cluster.api.objects(Pod) if raw["metadata"]["name"] == name]
    return str(found["metadata"]["uid"])


def told_of(cluster: Running, name: str) -> tuple[str, str]:
    condition = cluster.condition(name)
    return condition["reason"], condition["message"]


# Permit


@simulate()
async def test_a_pod_waits_with_its_node_until_every_plugin_that_holds_it_lets_it_go(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate, Second, pods=1)
    await cluster.create(pod("waits"))
    await sim.until(waiting)
    assert waiting() == {"waits": {"Gate", "Second"}}
    await cluster.create(pod("other"))
    await sim.until(lambda: cluster.condition("other"))
    assert cluster.condition("other")["message"].startswith("0/1 nodes are available: 1 Too many pods.")
    Gate.handle.waiting.allow(uid(cluster, "waits"), "Second")
    Gate.handle.waiting.allow("nobody", "Gate")
    Gate.handle.waiting.reject("nobody", "Gate", "unknown")
    await asyncio.sleep(5)
    assert (cluster.at("waits"), waiting()) == ("", {"waits": {"Gate"}})
    Gate.handle.waiting.allow(uid(cluster, "waits"), "Gate")
    assert await cluster.placed("waits") == ["n1"]
    assert waiting() == {}


@simulate()
async def test_pods_that_wait_take_no_bind_slots(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate)
    names = [f"waits-{number}" for number in range(MAX_BINDS + 10)]
    await cluster.create(*map(pod, names), pod("hurried"))
    assert await cluster.placed("hurried") == ["n1"]
    await sim.until(lambda: len(waiting()) == len(names))
    for held in Gate.handle.waiting.all():
        Gate.handle.waiting.allow(held.pod.uid, "Gate")
    await cluster.placed(*names)


@simulate()
async def test_a_decision_that_comes_before_anybody_waits_for_it_holds(sim: Sim) -> None:
    cluster = await cluster_with(sim, Hasty)
    await cluster.create(pod("rejected"), pod("allowed"))
    assert await cluster.placed("allowed") == ["n1"]
    await sim.until(lambda: cluster.condition("rejected"))
    assert cluster.condition("rejected")["message"] == "0/1 nodes are available: 1 changed my mind."
    assert [request.name for request in binds(cluster)] == ["allowed"]


def _time_out(cluster: Running) -> str:
    return "rejected due to timeout after waiting 60s at plugin Gate"


def _reject(cluster: Running) -> str:
    Gate.handle.waiting.reject(uid(cluster, "waits"), "Gate", "the others gave up")
    return "the others gave up"


def _reject_without_a_word(cluster: Running) -> str:
    Gate.handle.waiting.reject(uid(cluster, "waits"), "Gate", "")
    return "pod rejected by plugin Gate"


@pytest.mark.parametrize("end", [_time_out, _reject, _reject_without_a_word])
@simulate()
async def test_a_pod_that_is_not_let_go_gives_its_node_back_and_waits_for_what_may_help(
    sim: Sim, end: Callable[[Running], str]
) -> None:
    cluster = await cluster_with(sim, Gate, Second, pods=1)
    await cluster.create(pod("waits"))
    await sim.until(waiting)
    reason = end(cluster)
    await sim.until(lambda: cluster.condition("waits"), within=100)
    assert cluster.condition("waits")["reason"] == "Unschedulable"
    assert cluster.condition("waits")["message"] == f"0/1 nodes are available: 1 {reason}."
    assert Gate.held == set()
    await asyncio.sleep(60)  # its backoff is over, but nothing happened that could change the plugin's mind
    assert waiting() == {}
    await cluster.create(pod("other"))
    assert await cluster.placed("other") == ["n1"]
    assert len(cluster.recorder.of("waits")) == 1


@simulate()
async def test_a_permit_plugin_that_rejects_or_fails_is_named_and_what_was_reserved_is_given_back(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate, pods=1)
    await cluster.create(pod("rejected"), pod("raises"), pod("skips"))
    await sim.until(lambda: all(cluster.condition(name) for name in ("rejected", "raises", "skips")))
    told = {name: told_of(cluster, name) for name in ("rejected", "raises", "skips")}
    assert told == {
        "rejected": ("Unschedulable", "0/1 nodes are available: 1 not today."),
        "raises": ("SchedulerError", "running 'Gate' permit plugin: RuntimeError: boom"),
        "skips": ("SchedulerError", "running 'Gate' permit plugin: skip: no reason given"),
    }
    assert Gate.held == set()
    await cluster.create(pod("fine"))
    assert await cluster.placed("fine") == ["n1"]


@simulate()
async def test_a_pod_deleted_while_it_waits_is_let_go_at_once(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate, pods=1)
    await cluster.create(pod("waits"))
    await sim.until(waiting)
    await cluster.api.client("author").delete(Pod, "waits", "default")
    await cluster.create(pod("next"))
    await sim.until(lambda: cluster.at("next"), within=1.5)
    assert (waiting(), Gate.held) == ({}, {"next"})
    assert cluster.recorder.of("waits") == []


@simulate()
async def test_a_pod_that_somebody_else_binds_while_it_waits_is_theirs(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate)
    await cluster.create(pod("waits"))
    await sim.until(waiting)
    theirs = {"metadata": {"name": "waits"}, "target": {"kind": "Node", "name": "n1"}}
    await cluster.api.client("other").create(Pod, theirs, "default", name="waits", subresource="binding")
    await sim.until(lambda: not waiting())
    await asyncio.sleep(100)
    assert [request.user for request in binds(cluster)] == ["other"]
    assert Gate.held == set()


@simulate()
async def test_a_stop_gives_back_the_pods_that_wait_and_blames_them_for_nothing(sim: Sim) -> None:
    cluster = await cluster_with(sim, Gate)
    await cluster.create(pod("waits"))
    await sim.until(waiting)
    cluster.running.cancel()
    await asyncio.wait([cluster.running])
    assert (waiting(), Gate.held) == ({}, set())
    assert (cluster.at("waits"), cluster.recorder.of("waits")) == ("", [])


# PreBind


@simulate()
async def test_a_pod_is_bound_only_when_it_is_prepared_and_others_do_not_wait_for_that(sim: Sim) -> None:
    cluster = await cluster_with(sim, Prepares)
    names = [f"slow-{number}" for number in range(MAX_BINDS + 1)]
    await cluster.create(*map(pod, names), pod("skips"), pod("quick"))
    await cluster.placed("quick", "skips")
    await asyncio.sleep(200)
    assert [cluster.at(name) for name in names] == [""] * len(names)
    await sim.until(lambda: all(cluster.at(name) for name in names), within=200)


@simulate()
async def test_what_becomes_of_a_pod_that_cannot_be_prepared(sim: Sim) -> None:
    cluster = await cluster_with(sim, Prepares, pods=1)
    await cluster.create(pod("rejected"), pod("raises"), pod("waits"))
    await sim.until(lambda: all(cluster.condition(name) for name in ("rejected", "raises", "waits")))
    told = {name: told_of(cluster, name) for name in ("rejected", "raises", "waits")}
    assert told == {
        "rejected": ("Unschedulable", "0/1 nodes are available: 1 no volume."),
        "raises": ("SchedulerError", "running 'Prepares' preBind plugin: RuntimeError: boom"),
        "waits": ("SchedulerError", "running 'Prepares' preBind plugin: wait: no reason given"),
    }
    await asyncio.sleep(30)
    assert len(cluster.recorder.of("rejected")) == 1
    assert len(cluster.recorder.of("raises")) > 2
    assert binds(cluster) == []


@simulate()
async def test_a_pod_deleted_while_it_is_prepared_is_let_go_at_once(sim: Sim) -> None:
    cluster = await cluster_with(sim, Prepares, pods=1)
    await cluster.create(pod("slow"))
    await asyncio.sleep(1)
    await cluster.create(pod("next"))
    await sim.until(lambda: cluster.condition("next"))
    await asyncio.sleep(10)
    await cluster.api.client("author").delete(Pod, "slow", "default")
    await sim.until(lambda: cluster.at("next"), within=1.5)


@simulate()
async def test_a_prebind_plugin_that_cannot_be_cancelled_does_not_bind_a_pod_that_was_let_go(sim: Sim) -> None:
    cluster = await cluster_with(sim, Prepares, pods=1)
    await cluster.create(pod("stubborn"))
    await asyncio.sleep(1)
    await cluster.api.client("author").delete(Pod, "stubborn", "default")
    await cluster.create(pod("next"))
    assert await cluster.placed("next") == ["n1"]
    assert [request.name for request in binds(cluster)] == ["next"]


@simulate()
async def test_a_stop_cuts_off_what_takes_long_to_prepare(sim: Sim) -> None:
    cluster = await cluster_with(sim, Prepares)
    await cluster.create(pod("slow"))
    await asyncio.sleep(1)
    started = sim.time
    cluster.running.cancel()
    await asyncio.wait([cluster.running])
    assert sim.time - started < 30
    assert cluster.recorder.of("slow") == []


# PostBind


@simulate()
async def test_postbind_plugins_are_told_of_bound_pods_and_cannot_fail_them(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await cluster_with(sim, Told)
    await cluster.create(pod("a"))
    await cluster.placed("a")
    await sim.until(lambda: Told.pods)
    assert Told.pods == [("a", "n1")]
    assert [reason for reason, _ in cluster.recorder.of("a")] == ["Scheduled"]
    assert "pod default/a is bound, but a plugin failed on it" in caplog.text
