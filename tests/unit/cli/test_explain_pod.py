"""`konverge explain pod/NAME`: what is printed of what the scheduler tells, in all the places where a pod can be."""

from collections.abc import Callable

import pytest

from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import Code, CycleState, Permit, PermitResult, Verdict
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Rule
from konverge.testing.sim import Sim, simulate
from tests.unit.cli.explained import lines
from tests.unit.scheduler.clusters import NAME, Broken, Running, node, pod, registry_with, running, with_plugin
from tests.unit.scheduler.shown import of_gang


def printed(cluster: Running, name: str) -> str:
    """What is printed of the pod, with single spaces."""
    told = cluster.scheduler.explain("default", name)
    return "\n".join(" ".join(line.split()) for line in lines("default", name, told))


@simulate()
async def test_a_pod_that_fits_nowhere(sim: Sim) -> None:
    small = [node(f"small-{number}", cpu="1") for number in range(5)]
    cluster = await running(sim, *small, node("taken", taints=["team=a:NoSchedule"]), pod("p", cpu="2"))
    await sim.until(lambda: cluster.condition("p"))

    out = printed(cluster, "p")

    assert "Pod default/p (pods)" in out
    assert "Policy: policy (schedulerName konverge; policy: has the pod)" in out
    assert "after 1 failed attempt, turned away by NodeResourcesFit, TaintToleration; tried again in 4m5" in out
    assert "Now: 0/6 nodes are available: 1 node(s) had untolerated taint(s), 5 Insufficient cpu." in out
    assert "5 Insufficient cpu (NodeResourcesFit, final) small-0, small-1, small-2 and 2 more" in out
    assert "1 node(s) had untolerated taint(s) (TaintToleration, final) taken" in out
    assert "Best nodes" not in out


@simulate()
async def test_a_pod_that_fits(sim: Sim) -> None:
    only = PluginSet(enabled=(PluginUse("NodeResourcesFit", 5),), disabled=frozenset({"*"}))
    profile = ProfileConfig(NAME, plugins={Point.SCORE: only})
    cluster = await running(sim, node("a", cpu="4"), node("b", cpu="8"), pod("p", cpu="1"), profile=profile)
    await cluster.placed("p")
    await sim.until(lambda: "waits no longer" in printed(cluster, "p"))

    out = printed(cluster, "p")

    assert "Queue: on node b, waits no longer" in out
    assert "If it waited: fits 2 of 2 nodes and would go to b" in out
    assert "2 fits a, b" in out
    assert "NODE TOTAL NodeResourcesFit x5" in out
    assert out.rstrip().endswith("a 430 430")


@simulate()
async def test_equally_good_nodes_are_all_named(sim: Sim) -> None:
    cluster = await running(sim, node("a"), node("b"), pod("p", cpu="1"))
    await cluster.placed("p")

    assert "would go to one of a, b" in printed(cluster, "p")


@simulate()
async def test_who_would_be_evicted(sim: Sim) -> None:
    waiting = pod("p", cpu="3", priority=1, scheduler="later")
    cluster = await running(sim, node("n"), pod("low", cpu="3", on="n"), waiting)
    cluster.running.cancel()
    cluster.scheduler.set_profile("later", ProfileConfig("later"))

    out = printed(cluster, "p")

    assert "Queue: to be tried next, for" in out
    assert "after 0 failed attempts; no other pods before it" in out
    assert "Preemption: would evict from n: default/low (priority 0)" in out


@simulate()
async def test_a_plugin_that_fails(sim: Sim) -> None:
    cluster = await running(sim, node("n"), pod("bad"), profile=with_plugin("Broken"), registry=registry_with(Broken))
    await sim.until(lambda: cluster.condition("bad"))

    out = printed(cluster, "bad")

    assert "Queue: backs off after 1 failed attempt, tried again in" in out
    assert "Now: the attempt fails: running 'Broken' filter plugin: RuntimeError: boom" in out


@simulate()
async def test_a_gang(sim: Sim) -> None:
    gang = of_gang(pod("p"), "train")
    cluster = await running(sim, node("n"), gang, profile=with_plugin("Coscheduling", minCount=2))
    await sim.until(lambda: cluster.condition("p"))

    assert "Gang: default/train: 1 of at least 2 pods, 0 bound, 0 holding a node" in printed(cluster, "p")


@simulate()
async def test_who_waits_for_leave_with_the_pod_and_for_how_long(sim: Sim) -> None:
    class Holds(Permit):
        name = "Holds"

        def permit(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> PermitResult:
            return PermitResult(Verdict(Code.WAIT), 600)

    gang = [of_gang(pod(f"g{number}"), "train") for number in range(5)]
    alone = pod("alone")
    cluster = await running(sim, node("n"), *gang, alone, profile=with_plugin("Holds"), registry=registry_with(Holds))
    await sim.until(lambda: len(cluster.scheduler._handle.waiting.all()) == 6)

    together = "together with default/g1, default/g2, default/g3 and 1 more"
    assert f"Queue: has node n and waits for leave of Holds {together}, for " in printed(cluster, "g0")
    assert "waits for leave of Holds, for " in printed(cluster, "alone")


@simulate()
async def test_a_pod_that_backs_off_until_nothing_else_is_to_be_tried(sim: Sim) -> None:
    cluster = await running(sim, node("n", cpu="1"), pod("p", cpu="2"))
    await sim.until(lambda: cluster.condition("p"))
    cluster.running.cancel()
    cluster.scheduler._queue.notify([ClusterEvent.POD_GONE])

    out = printed(cluster, "p")

    assert "backs off after 1 failed attempt, tried again in" in out
    assert ", or as soon as no other pod is to be tried; no other pods before it" in out


@simulate()
async def test_the_version_of_a_plugin_that_the_pod_meets(sim: Sim) -> None:
    class Newer(Broken):
        version = "v2"

    use = PluginSet(enabled=(PluginUse("Broken", version="v2", canary_percent=0),))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: use})
    cluster = await running(sim, node("n"), pod("p"), profile=profile, registry=registry_with(Broken, Newer))
    await cluster.placed("p")

    assert "Versions: Broken@v1 (v2 for 0 % of the pods)" in printed(cluster, "p")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, "Queue: not in the queue: SchedulingGates keeps it out"),
        (
            lambda cluster: cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(hold=True)),
            "Queue: not in the queue: the policy policy is suspended and holds its pods",
        ),
        (
            lambda cluster: cluster.scheduler.remove_profile("policy"),
            "Policy: none (schedulerName konverge)\nQueue: not in the queue: no policy here has the schedulerName konverge",
        ),
    ],
)
def test_a_pod_outside_the_queue(change: Callable[[Running], object], said: str) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        cluster = await running(sim, node("n"), pod("p", spec={"schedulingGates": [{"name": "a/b"}]}))
        change(cluster)
        assert said in printed(cluster, "p")

    scenario(seed=0)
