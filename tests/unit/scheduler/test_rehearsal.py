"""What the scheduler would do is what it does, and nothing is done."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from konverge.errors import SchedulingError
from konverge.model.resource import Namespace, Node, Object, Pod
from konverge.model.selectors import Selector
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.framework import (
    SUCCESS,
    Code,
    CycleState,
    Permit,
    PermitResult,
    PostBind,
    PreBind,
    Score,
    Verdict,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Rule
from konverge.scheduler.rehearsal import Part, Rehearsal, rehearse
from konverge.scheduler.stage import Stage
from konverge.testing.sim import Sim, run_sim, simulate
from tests.unit.scheduler.clusters import NAME, node, pod, registry_with, running, with_plugin
from tests.unit.scheduler.shown import of_gang


def rehearsed(
    *objects: Object,
    parts: Sequence[Part] = (),
    registry: Registry | None = None,
    seed: int = 0,
    again: Sequence[str] = (),
) -> Rehearsal:
    """The pods without a node are tried, and those named in `again`."""
    registry = registry or Registry.default()
    cluster: dict[Any, list[Object]] = {Node: [], Pod: [], Namespace: [], **{each: [] for each in registry.reads}}
    for raw in objects:
        cluster[Pod if raw["kind"] == "Pod" else Node].append(raw)
    waiting = [raw for raw in cluster[Pod] if not raw["spec"].get("nodeName") or raw["metadata"]["name"] in again]
    policies = parts or [Part("policy", ProfileConfig(NAME), Rule())]

    async def scenario(sim: Sim) -> Rehearsal:
        return await rehearse(cluster, waiting, policies, registry, sim.clock, sim.random)

    return run_sim(scenario, seed)


def nodes(result: Rehearsal) -> dict[str, str]:
    return {outcome.pod.removeprefix("default/"): outcome.node for outcome in result.outcomes}


def message(result: Rehearsal, name: str) -> str:
    return next(outcome.message for outcome in result.outcomes if outcome.pod == f"default/{name}")


class Emptiest(Score):
    """No two nodes are equally good: chance, which the two draw differently, decides nothing."""

    name = "Emptiest"

    def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
        return (9 - min(9, len(node.pods))) * 10 + int(node.name[1:])


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_as_with_the_scheduler_that_runs(seed: int) -> None:
    chance = Random(seed)
    machines = [node(f"n{i}", cpu=f"{chance.randint(1, 8)}", memory=f"{8 + i}Gi") for i in range(6)]
    pods = [pod(f"p{i}", cpu=f"{chance.randint(2, 30)}00m", memory="64Mi", priority=-i) for i in range(25)]
    only = PluginSet(enabled=(PluginUse("Emptiest"),), disabled=frozenset({"*"}))
    profile = ProfileConfig(NAME, plugins={Point.SCORE: only})

    async def real(sim: Sim) -> dict[str, str]:
        cluster = await running(sim, *machines, *pods, profile=profile, registry=registry_with(Emptiest))
        await sim.clock.sleep(60)
        return {f"p{i}": cluster.at(f"p{i}") for i in range(25)}

    parts = [Part("policy", profile, Rule())]
    result = nodes(rehearsed(*machines, *pods, parts=parts, registry=registry_with(Emptiest), seed=seed))
    assert result == run_sim(real, seed)
    assert len({*result.values()}) > 3


def test_pods_are_tried_in_the_order_of_the_queue() -> None:
    result = rehearsed(node("n", cpu="2"), pod("old", cpu="2"), pod("urgent", cpu="2", priority=5), pod("new", cpu="2"))

    assert nodes(result) == {"urgent": "n", "old": "", "new": ""}
    assert message(result, "old").startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    assert result.reasons == [("Insufficient cpu", 2)]


def test_of_equals_the_first_given_goes_first() -> None:
    assert nodes(rehearsed(node("n", cpu="2"), pod("b", cpu="2"), pod("a", cpu="2"))) == {"b": "n", "a": ""}


def test_who_would_have_to_go_is_told_with_the_pod_that_takes_the_place() -> None:
    result = rehearsed(node("n", cpu="4"), pod("low", cpu="3", on="n"), pod("high", cpu="3", priority=7))

    assert nodes(result) == {"high": "n"}
    (eviction,) = result.evictions
    assert (eviction.pod, eviction.node, eviction.preemptor) == ("default/low", "n", "default/high")
    assert [(each.resource, each.before, each.after) for each in result.usage] == [("cpu", 3000, 3000), ("pods", 1, 1)]


def test_what_becomes_of_the_cluster_is_told() -> None:
    result = rehearsed(node("a", cpu="4"), node("b", cpu="4"), pod("p", cpu="3", on="a"), pod("q", cpu="3"))

    assert (result.nodes, result.nodes_before, result.nodes_after) == (2, 1, 2)
    cpu = next(each for each in result.usage if each.resource == "cpu")
    assert (cpu.allocatable, cpu.before, cpu.after) == (8000, 3000, 6000)


def test_a_pod_on_a_node_can_be_tried_anew() -> None:
    result = rehearsed(node("small", cpu="4"), node("large", cpu="8"), pod("p", cpu="3", on="small"), again=["p"])

    (outcome,) = result.outcomes
    assert (outcome.before, outcome.node) == ("small", "large")


def test_a_gang_is_placed_as_a_whole_or_not() -> None:
    parts = [Part("policy", with_plugin("Coscheduling", minCount=2), Rule())]
    gang = [of_gang(pod(f"g{i}", cpu="3"), "train") for i in range(2)]
    alone = of_gang(pod("alone", cpu="1"), "lacking")

    assert sorted(nodes(rehearsed(node("a"), node("b"), *gang, parts=parts)).values()) == ["a", "b"]
    short = rehearsed(node("a"), *gang, alone, parts=parts)
    assert set(nodes(short).values()) == {""}
    assert "1 missing" in message(short, "alone")


def test_a_pod_that_a_plugin_keeps_on_its_node_is_told() -> None:
    class Holds(Permit):
        name = "Holds"

        def permit(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> PermitResult:
            return PermitResult(Verdict(Code.WAIT), 600)

    parts = [Part("policy", with_plugin("Holds"), Rule())]
    result = rehearsed(node("n"), pod("p"), parts=parts, registry=registry_with(Holds))

    assert message(result, "p") == "would keep node n, but waits for leave of Holds"
    assert result.reasons == [("waits for leave of Holds", 1)]


def test_no_plugin_acts_on_the_world() -> None:
    class Acts(PreBind, PostBind):
        name = "Acts"
        acted = False

        async def pre_bind(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> Verdict:
            type(self).acted = True
            return SUCCESS

        def post_bind(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> None:
            type(self).acted = True

    enabled = PluginSet(enabled=(PluginUse("Acts"),))
    for point in (Point.MULTI_POINT, Point.PRE_BIND, Point.POST_BIND):
        parts = [Part("policy", ProfileConfig(NAME, plugins={point: enabled}), Rule())]
        assert nodes(rehearsed(node("n"), pod("p"), parts=parts, registry=registry_with(Acts))) == {"p": "n"}
    assert not Acts.acted


def test_each_pod_is_placed_by_its_policy_and_who_has_none_is_told() -> None:
    web = Rule(pods=Selector.of({"matchLabels": {"app": "web"}}))
    full = Part("full", ProfileConfig(NAME), web)
    labelled = pod("p")
    labelled["metadata"]["labels"] = {"app": "web"}
    result = rehearsed(node("n"), labelled, pod("other"), parts=[full])

    assert nodes(result) == {"p": "n", "other": ""}
    assert [outcome.policy for outcome in result.outcomes] == ["full", ""]
    assert message(result, "other").startswith("no policy matches the pod")


def test_a_pod_that_a_plugin_keeps_out_is_told_why() -> None:
    result = rehearsed(node("n"), pod("p", spec={"schedulingGates": [{"name": "a/b"}]}))

    assert message(result, "p").startswith("SchedulingGates keeps it out")
    assert [count for _, count in result.reasons] == [1]


def test_what_the_pods_were_told_before_is_not_told_again() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "long ago"}
    result = rehearsed(node("n", cpu="1"), pod("p", cpu="2", status={"conditions": [condition]}))

    assert message(result, "p").startswith("0/1 nodes are available")


def test_the_seed_alone_decides_between_equals() -> None:
    cluster = [*(node(f"n{i}") for i in range(9)), pod("p")]
    chosen = [nodes(rehearsed(*cluster, seed=seed))["p"] for seed in range(12)]

    assert [nodes(rehearsed(*cluster, seed=seed))["p"] for seed in range(12)] == chosen
    assert len({*chosen}) > 1


def test_a_profile_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(SchedulingError, match="Nonsense"):
        rehearsed(node("n"), parts=[Part("policy", with_plugin("Nonsense"), Rule())])


@simulate()
async def test_the_stage_takes_no_write_that_a_scheduler_does_not_do(sim: Sim) -> None:
    stage = Stage(sim.clock, sim.random)
    stage.set(Pod, [pod("p")])
    with pytest.raises(SchedulingError):
        await stage.create(Pod, pod("q"), "default")
    with pytest.raises(SchedulingError):
        await stage.patch(Node, "n", {}, subresource="status")
    with pytest.raises(SchedulingError):
        await stage.delete(Node, "n")
    with pytest.raises(SchedulingError):
        await stage.apply(Pod, "p", pod("p"), "default", field_manager="x")
    with pytest.raises(SchedulingError):
        await stage.replace(Pod, "p", pod("p"), "default")
    with pytest.raises(SchedulingError):
        await stage.list(Pod)
