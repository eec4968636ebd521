"""Calls of plugins: who raised, who was slow, and what the observer is told."""

import logging
from collections import Counter

import pytest

from konverge.errors import PluginFailed
from konverge.scheduler import PluginSet, PluginUse, ProfileConfig
from konverge.scheduler.framework import SUCCESS, Bind, Code, CycleState, Filter, Point, PreBind, Verdict
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.stats import NullObserver
from konverge.scheduler.watch import SAMPLED, PluginWatch
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Broken, node, plugin, pod, registry_with, running


class Told(NullObserver):
    """Keeps what it is told of plugins."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.points: Counter[tuple[str, str, str]] = Counter()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.calls[plugin, point, status] += 1

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.points[profile, point, status] += 1


class Hands:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


BROKEN = plugin(Broken)


def test_what_a_plugin_raises_names_it_and_is_told_of_every_attempt() -> None:
    observer = Told()
    watch = PluginWatch(observer, Hands().now)
    for _ in range(2 * SAMPLED):
        watch.begin()
        with (
            pytest.raises(PluginFailed, match="running 'Broken' preFilter plugin: KeyError: 'x'") as caught,
            watch.call(BROKEN, Point.PRE_FILTER),
        ):
            raise KeyError("x")
        watch.end(NAME)
    assert caught.value.plugin == "Broken"
    assert observer.calls == {("Broken", "PreFilter", "Error"): 2 * SAMPLED}


def test_one_attempt_of_ten_is_measured() -> None:
    observer, clock = Told(), Hands()
    watch = PluginWatch(observer, clock.now)
    for _ in range(3 * SAMPLED):
        watch.begin()
        for code in (Code.SUCCESS, Code.SKIP):
            with watch.call(BROKEN, Point.FILTER) as call:
                call.code = code
        watch.end(NAME)
    assert observer.calls == {("Broken", "Filter", "Success"): 3, ("Broken", "Filter", "Skip"): 3}
    assert observer.points == {(NAME, "Filter", "Success"): 3}


@pytest.mark.parametrize(("seconds", "warned"), [(0.9, False), (1.5, True)])
def test_a_slow_plugin_is_warned_about_by_name(seconds: float, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    clock = Hands()
    watch = PluginWatch(NullObserver(), clock.now)
    with caplog.at_level(logging.WARNING), watch.call(BROKEN, Point.FILTER):
        clock.time += seconds
    assert ("plugin Broken took 1.5 s at filter, and all pods waited" in caplog.text) is warned


class Backstage(PreBind, Bind, Filter):
    """Runs everywhere, quietly."""

    name = "Backstage"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        return SUCCESS

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        return SUCCESS

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        if pod.name == "bad":
            raise RuntimeError("boom")
        return Verdict(Code.SKIP)


@simulate()
async def test_the_whole_way_of_a_pod_is_told(sim: Sim) -> None:
    observer = Told()
    use, registry = PluginSet(enabled=(PluginUse("Backstage"),)), registry_with(Backstage)
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: use, Point.BIND: use})
    cluster = await running(sim, node("n1"), profile=profile, registry=registry, observer=observer)
    await cluster.create(pod("a"))
    await cluster.placed("a")
    await sim.until(lambda: observer.points[NAME, "Bind", "Success"])
    points = {point for (plugin_name, point, _) in observer.calls if plugin_name == "Backstage"}
    assert points == {"Filter", "PreBind", "Bind"}
    assert observer.calls["DefaultBinder", "Bind", "Success"] == 1
    assert {point for (_, point, _) in observer.points} >= {"PreFilter", "Filter", "PreBind", "Bind"}
    await cluster.create(pod("b"), pod("bad"))  # not measured, but what fails is told all the same
    await sim.until(lambda: cluster.at("b") and observer.calls["Backstage", "Bind", "Error"])
    assert observer.calls["DefaultBinder", "Bind", "Success"] == 1
