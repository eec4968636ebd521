"""What the scheduler tells of a pod, and that telling changes nothing."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from konverge.model.resource import Pod
from konverge.model.selectors import Selector
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    SUCCESS,
    Code,
    CycleState,
    Filter,
    Permit,
    PermitResult,
    Score,
    Verdict,
    unschedulable,
)
from konverge.scheduler.nodegroups import ROOM_KEPT
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Rule
from konverge.testing.sim import Sim, run_sim, simulate
from tests.unit.scheduler.clusters import NAME, Running, binds, node, pod, registry_with, running, with_plugin
from tests.unit.scheduler.shown import of_gang

ZONE = "topology.kubernetes.io/zone"


def told(cluster: Running, name: str) -> dict[str, Any]:
    found = cluster.scheduler.explain("default", name)
    assert found is not None
    return found


def answers(attempt: Mapping[str, Any]) -> list[tuple[int, list[str], list[tuple[str, list[str]]]]]:
    """Count, nodes, and who says what, group by group."""
    return [
        (group["count"], group["nodes"], [(each["plugin"], each["reasons"]) for each in group["answers"]])
        for group in attempt["groups"]
    ]


@simulate()
async def test_a_pod_that_fits_nowhere_is_told_what_each_plugin_says_of_each_group_of_nodes(sim: Sim) -> None:
    small = [node(f"small-{number}", cpu="1") for number in range(12)]
    both = node("both", cpu="1", taints=["team=a:NoSchedule"])
    cluster = await running(
        sim, *small, both, node("taken", cpu="64", taints=["team=a:NoSchedule"]), pod("big", cpu="8")
    )
    await sim.until(lambda: cluster.condition("big"))

    found = told(cluster, "big")

    attempt = found["attempt"]
    taint = ("TaintToleration", ["node(s) had untolerated taint(s)"])
    fit = ("NodeResourcesFit", ["Insufficient cpu"])
    assert answers(attempt) == [
        (12, sorted(f"small-{number}" for number in range(12))[:10], [fit]),
        (1, ["both"], [taint, fit]),
        (1, ["taken"], [taint]),
    ]
    assert attempt["message"] == cluster.condition("big")["message"]
    assert {each["plugin"]: each["final"] for group in attempt["groups"] for each in group["answers"]} == {
        "TaintToleration": True,
        "NodeResourcesFit": True,  # no node of that size, whatever pods leave
    }
    assert (attempt["best"], attempt["error"]) == ([], "")


@simulate()
async def test_a_pod_in_the_queue_is_told_who_turned_it_away_and_what_could_help(sim: Sim) -> None:
    cluster = await running(sim, node("n", cpu="1"), pod("big", cpu="8"))
    await sim.until(lambda: cluster.condition("big"))
    await sim.clock.sleep(60)

    queue = told(cluster, "big")["queue"]

    assert (queue["place"], queue["attempts"], queue["rejectedBy"]) == ("unschedulable", 1, ["NodeResourcesFit"])
    assert 60 <= queue["seconds"] < 70
    assert 230 < queue["latest"] <= 240
    assert "a pod left its node" in queue["events"]
    assert "node labels changed" not in queue["events"]


@simulate()
async def test_pods_in_the_queue_are_told_how_many_are_before_them_and_when_their_backoff_ends(sim: Sim) -> None:
    waiting = [pod(f"p{number}", cpu="8", priority=number) for number in range(3)]
    cluster = await running(sim, node("n", cpu="1"), *waiting)
    await sim.until(lambda: all(cluster.condition(f"p{number}") for number in range(3)))
    cluster.running.cancel()
    queue = cluster.scheduler._queue

    queue.notify([ClusterEvent.POD_GONE])
    queue.activate([raw["metadata"]["uid"] for raw in cluster.pods.list() if raw["metadata"]["name"] == "p0"])
    await cluster.create(pod("new", cpu="1", priority=5))
    await sim.until(lambda: cluster.scheduler.explain("default", "new"))

    found = {name: told(cluster, name)["queue"] for name in ("new", "p0", "p2", "p1")}
    assert [(each["place"], each["ahead"]) for each in found.values()] == [
        ("active", 0),
        ("active", 1),
        ("backoff", 2),
        ("backoff", 3),
    ]
    assert found["p1"]["early"]
    assert 0 < found["p1"]["earliest"] <= 2


@simulate()
async def test_a_pod_on_a_node_is_told_how_the_nodes_compare_without_it(sim: Sim) -> None:
    cluster = await running(sim, node("a", cpu="4"), node("b", cpu="8"), pod("p", cpu="3"))
    assert await cluster.placed("p") == ["b"]
    await sim.until(lambda: told(cluster, "p")["queue"]["place"] == "placed")

    found = told(cluster, "p")

    assert found["queue"]["node"] == "b"
    attempt = found["attempt"]
    assert [each["node"] for each in attempt["best"]] == ["b", "a"]
    assert attempt["weights"]["NodeResourcesFit"] == 1
    for each in attempt["best"]:
        assert sum(each["scores"].values()) == each["total"]
    assert answers(attempt) == [(2, ["a", "b"], [])]


@simulate()
async def test_the_best_nodes_are_told_with_each_plugins_weighted_part(sim: Sim) -> None:
    class Even(Score):
        name = "Even"

        def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
            return int(node.name[1:]) * 10

    only = PluginSet(enabled=(PluginUse("Even", 7),), disabled=frozenset({"*"}))
    profile = ProfileConfig(NAME, plugins={Point.SCORE: only})
    cluster = await running(
        sim, *(node(f"n{i}") for i in range(8)), pod("p", cpu="1"), profile=profile, registry=registry_with(Even)
    )
    await cluster.placed("p")

    attempt = told(cluster, "p")["attempt"]

    assert attempt["weights"] == {"Even": 7}
    assert attempt["best"] == [{"node": f"n{i}", "total": 70 * i, "scores": {"Even": 70 * i}} for i in (7, 6, 5, 4, 3)]


@simulate()
async def test_who_would_be_evicted_is_told_and_nobody_is(sim: Sim) -> None:
    low = pod("low", cpu="3", on="n", priority=1)
    cluster = await running(sim, node("n", cpu="4"), low, pod("p", cpu="3", scheduler="other", priority=5))
    cluster.scheduler.set_profile("other", ProfileConfig("other"), Rule(hold=True))
    await sim.clock.sleep(1)
    assert told(cluster, "p")["attempt"] is None
    cluster.running.cancel()
    cluster.scheduler.set_profile("other", ProfileConfig("other"))
    writes = len(cluster.api.writes)

    found = told(cluster, "p")
    await sim.clock.sleep(60)

    assert found["attempt"]["preemption"] == {
        "message": "",
        "node": "n",
        "victims": [{"pod": "default/low", "priority": 1}],
    }
    assert len(cluster.api.writes) == writes
    assert told(cluster, "p") | {"queue": found["queue"]} == found


@simulate()
async def test_room_that_is_kept_for_a_nominated_pod_is_told(sim: Sim) -> None:
    first = pod("first", cpu="3", priority=5, status={"nominatedNodeName": "n"}, scheduler="held")
    cluster = await running(sim, node("n", cpu="4"), first, pod("p", cpu="3"), profile=ProfileConfig("held"))
    cluster.running.cancel()
    cluster.scheduler.set_profile("mine", ProfileConfig(NAME))
    await sim.until(cluster.pods.list)
    assert told(cluster, "first")["nominated"] == "n"

    assert answers(told(cluster, "p")["attempt"]) == [(1, ["n"], [("", [ROOM_KEPT])])]


@simulate()
async def test_the_policies_are_told_in_the_order_in_which_they_are_asked(sim: Sim) -> None:
    cluster = await running(sim, node("n"), pod("p"))
    await cluster.placed("p")
    profile = ProfileConfig(NAME)
    labels = Selector.of({"matchLabels": {"app": "web"}})
    cluster.scheduler.set_profile("web", profile, Rule(pods=labels, priority=3))
    cluster.scheduler.set_profile("prod", profile, Rule(namespaces=labels, priority=2))
    cluster.scheduler.set_profile("canary", profile, Rule(canary_percent=0, priority=1))
    cluster.scheduler.set_profile("rest", profile, Rule(priority=-1))

    found = told(cluster, "p")

    assert found["policy"] == "policy"
    assert [(each["name"], each["answer"]) for each in found["policies"]] == [
        ("web", "its podSelector leaves the pod out"),
        ("prod", "its namespaceSelector leaves the pod out"),
        ("canary", "the pod is outside its canaryPercent of 0"),
        ("policy", "has the pod"),
    ]


@simulate()
async def test_the_versions_of_plugins_that_the_pod_meets_are_told(sim: Sim) -> None:
    class Old(Filter):
        name = "Mine"

        def filter(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> Verdict:
            return SUCCESS

    class New(Old):
        version = "v2"

        def filter(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> Verdict:
            return unschedulable("no")

    use = PluginSet(enabled=(PluginUse("Mine", version="v2"),))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: use})
    cluster = await running(sim, node("n"), pod("p"), profile=profile, registry=registry_with(Old, New))
    await sim.until(lambda: cluster.condition("p"))

    found = told(cluster, "p")

    assert "Mine@v2" in found["plugins"]
    assert found["queue"]["rejectedBy"] == ["Mine@v2"]
    assert found["versions"] == []
    assert answers(found["attempt"]) == [(1, ["n"], [("Mine@v2", ["no"])])]


@simulate()
async def test_of_a_plugin_in_two_versions_the_one_that_the_pod_meets_is_told(sim: Sim) -> None:
    class Old(Filter):
        name = "Mine"

        def filter(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> Verdict:
            return unschedulable("no")

    class New(Old):
        version = "v2"

    use = PluginSet(enabled=(PluginUse("Mine", version="v2", canary_percent=50),))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: use})
    names = [f"p{number}" for number in range(20)]
    cluster = await running(sim, node("n"), *map(pod, names), profile=profile, registry=registry_with(Old, New))
    await sim.until(lambda: all(map(cluster.condition, names)))

    met = {}
    for name in names:
        found = told(cluster, name)
        (version,) = found["versions"]
        assert (version["plugin"], version["canary"], version["percent"]) == ("Mine", "v2", 50)
        met[version["meets"]] = found["queue"]["rejectedBy"]

    assert met == {"v1": ["Mine"], "v2": ["Mine@v2"]}


@simulate()
async def test_a_pod_that_is_not_in_the_queue_is_told_why(sim: Sim) -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "a/b"}]})
    cluster = await running(
        sim, node("n"), gated, pod("other", scheduler="other"), pod("done", status={"phase": "Failed"})
    )
    await sim.clock.sleep(1)

    assert told(cluster, "gated")["queue"]["why"].startswith("SchedulingGates keeps it out: ")
    assert "no policy here has the schedulerName other" in told(cluster, "other")["queue"]["why"]
    assert told(cluster, "done")["queue"]["why"] == "the pod has run to its end"
    assert cluster.scheduler.explain("default", "absent") is None
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(hold=True))
    assert told(cluster, "gated")["queue"]["why"] == "the policy policy is suspended and holds its pods"


@simulate()
async def test_a_gang_that_lacks_pods_is_told(sim: Sim) -> None:
    gang = [of_gang(pod(f"g{i}", cpu="3"), "train") for i in range(2)]
    cluster = await running(sim, node("a"), *gang, profile=with_plugin("Coscheduling", minCount=3))
    await sim.until(lambda: cluster.condition("g0"))

    found = told(cluster, "g0")

    assert found["gang"] == {"name": "default/train", "minCount": 3, "pods": 2, "bound": 0, "holding": 0}
    assert "1 missing" in found["attempt"]["message"]


@simulate()
async def test_pods_that_hold_nodes_are_told_who_keeps_them_and_are_kept_on(sim: Sim) -> None:
    class Holds(Permit):
        name = "Holds"

        def permit(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> PermitResult:
            return PermitResult(Verdict(Code.WAIT), 600)

    both = PluginSet(enabled=(PluginUse("Coscheduling"), PluginUse("Holds")))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: both}, args={"Coscheduling": {"minCount": 2}})
    gang = [of_gang(pod(f"g{i}", cpu="3"), "train") for i in range(2)]
    cluster = await running(sim, node("a"), node("b"), *gang, profile=profile, registry=registry_with(Holds))
    await sim.until(lambda: len(cluster.scheduler._handle.waiting.all()) == 2)

    found = [told(cluster, "g0"), told(cluster, "g1")]

    assert [each["queue"]["place"] for each in found] == ["permit", "permit"]
    assert {each["queue"]["node"] for each in found} == {"a", "b"}
    assert found[0]["queue"]["heldBy"] == ["Holds"]
    assert [each["queue"]["with"] for each in found] == [["default/g1"], ["default/g0"]]
    assert 590 < found[0]["queue"]["latest"] <= 600
    assert found[0]["gang"]["holding"] == 2
    assert len(cluster.scheduler._handle.waiting.all()) == 2
    assert not binds(cluster)


@simulate()
async def test_a_plugin_that_fails_is_named(sim: Sim) -> None:
    class Breaks(Filter):
        name = "Breaks"

        def filter(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> Verdict:
            raise RuntimeError("boom")

    cluster = await running(sim, node("n"), pod("p"), profile=with_plugin("Breaks"), registry=registry_with(Breaks))
    await sim.until(lambda: cluster.condition("p"))

    found = told(cluster, "p")

    assert "Breaks" in found["attempt"]["error"]
    assert found["queue"]["place"] == "backoff"


def sociable(raw: dict[str, Any], kind: int) -> dict[str, Any]:
    """The pod with something that depends on where others are: pods of kind 0 spread, 1 attract, 2 repel each other."""
    labels = {"matchLabels": {"kind": str(kind)}}
    raw["metadata"]["labels"] = labels["matchLabels"]
    term = {"topologyKey": ZONE, "labelSelector": labels}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]}
    parts: list[dict[str, Any]] = [
        {"topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"podAffinity": wish}},
        {"affinity": {"podAntiAffinity": wish}},
        {},
    ]
    raw["spec"] |= parts[kind]
    return raw


@pytest.mark.parametrize("seed", range(3))
def test_telling_disturbs_no_decision(seed: int) -> None:
    """The same cluster twice, once with someone who asks about every pod at each step: the same pods on the same nodes."""

    async def scenario(sim: Sim, *, asks: bool) -> dict[str, str]:
        zones = [node(f"n{i}", cpu="4", pods=6, labels={ZONE: f"z{i % 2}"}) for i in range(5)]
        cluster = await running(sim, *zones)
        for index in range(40):
            await cluster.create(sociable(pod(f"p{index}", cpu="500m", priority=index % 3), index % 4))
            await sim.clock.sleep(0.1)
            for each in range(index if asks else 0):
                cluster.scheduler.explain("default", f"p{each}")
        await sim.clock.sleep(60)
        return {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in cluster.api.objects(Pod)}

    undisturbed = run_sim(partial(scenario, asks=False), seed)
    assert sum(map(bool, undisturbed.values())) == 30
    assert run_sim(partial(scenario, asks=True), seed) == undisturbed


@pytest.mark.parametrize("seed", range(5))
def test_the_groups_add_up_to_what_the_event_says(seed: int) -> None:
    """The event counts a node for the first plugin that objects; the groups name all that do, in the same order."""

    async def scenario(sim: Sim) -> None:
        chance = sim.random
        nodes = [
            node(
                f"n{i}",
                cpu=chance.choice(["1", "2", "16"]),
                memory=chance.choice(["1Gi", "64Gi"]),
                taints=["team=a:NoSchedule"] * chance.randint(0, 1),
                unschedulable=chance.random() < 0.3,
                labels={"disk": chance.choice(["ssd", "hdd"])},
            )
            for i in range(40)
        ]
        spec = {"nodeSelector": {"disk": "nvme" if seed == 0 else "ssd"}}
        cluster = await running(sim, *nodes, pod("p", cpu="12", memory="65Gi" if seed % 2 else "8Gi", spec=spec))
        await sim.until(lambda: cluster.at("p") or cluster.condition("p"))
        await sim.clock.sleep(1)

        attempt = told(cluster, "p")["attempt"]

        groups = attempt["groups"]
        assert sum(group["count"] for group in groups) == len(nodes)
        assert all(bool(group["answers"]) != group["fits"] for group in groups)
        if attempt["message"]:
            counts = Counter[str]()
            for group in groups:
                counts.update(dict.fromkeys(group["answers"][0]["reasons"], group["count"]))
            said = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
            assert cluster.condition("p")["message"].startswith(f"0/40 nodes are available: {said}. ")
        else:
            assert {each["node"] for each in attempt["best"]} <= {name for group in groups for name in group["nodes"]}

    run_sim(scenario, seed)
