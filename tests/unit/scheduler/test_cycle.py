"""One attempt: which node is chosen, how far the search goes, and what is said when there is none."""

import random
from typing import Any

import numpy as np
import pytest

from konverge.errors import PluginFailed
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.columns import IntArray
from konverge.scheduler.cycle import Choice, Cycle, Ranking, nodes_wanted
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, compile_profile
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import node, plugin_handle, pod, snapshot_of


def profile_with(*plugins: type[Any], percentage: int = 100, bare: bool = False) -> Profile:
    """The default profile without preemption (or, bare, one without filters and scores) and these plugins."""
    registry = Registry.default()
    for plugin in plugins:
        registry.register(plugin)
    uses = tuple(PluginUse(plugin.name) for plugin in plugins)
    sets = {Point.MULTI_POINT: PluginSet(enabled=uses, disabled=frozenset({"DefaultPreemption"}))}
    if bare:
        kept = (PluginUse("PrioritySort"), PluginUse("DefaultBinder"))
        sets = {Point.MULTI_POINT: PluginSet(enabled=kept + uses, disabled=frozenset({"*"}))}
    config = ProfileConfig("x", plugins=sets, percentage_of_nodes_to_score=percentage)
    return compile_profile(config, registry, plugin_handle())


def attempt(snapshot: Snapshot, raw: Any, profile: Profile | None = None, *, seed: int = 0) -> Choice | Diagnosis:
    return Cycle(snapshot, random.Random(seed)).schedule(profile or profile_with(), PodInfo(raw))


def chosen(*args: Any, **options: Any) -> str:
    result = attempt(*args, **options)
    assert isinstance(result, Choice)
    return result.node_name


def refusal(*args: Any) -> Diagnosis:
    result = attempt(*args)
    assert isinstance(result, Diagnosis)
    return result


class ByName(Score):
    """Scores that the node's name ends with; raw, so that a test can ask for a bad one."""

    name = "ByName"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        return int(node.name.rsplit("-", 1)[1])


# Choosing


def test_the_highest_weighted_sum_wins() -> None:
    disliked = [node("tainted", taints=["k=v:PreferNoSchedule"]), node("full"), node("free")]
    snapshot = snapshot_of(*disliked, pods=[pod("x", cpu="3", memory="6Gi", on="full")])
    assert chosen(snapshot, pod(cpu="100m")) == "free"


def test_the_ranking_shows_what_each_plugin_gave_and_where_the_pod_may_go() -> None:
    snapshot = snapshot_of(*(node(f"n-{i}") for i in (1, 2, 9)), node("n-8", unschedulable=True))
    ranking = Cycle(snapshot, random.Random(0)).rank(profile_with(ByName), PodInfo(pod(cpu="1")))
    assert isinstance(ranking, Ranking)
    assert ranking.node_names == ("n-1", "n-2", "n-9")
    assert ranking.scores["ByName"].tolist() == [1, 2, 9]
    assert ranking.totals.tolist() == np.sum(list(ranking.scores.values()), axis=0).tolist()
    assert ranking.best == {"n-9"}


def test_the_ranking_of_a_pod_that_fits_nowhere_is_the_diagnosis() -> None:
    for nodes, message in (([], "no nodes available to schedule pods"), ([node("n1")], "0/1 nodes are available:")):
        result = Cycle(snapshot_of(*nodes), random.Random(0)).rank(profile_with(), PodInfo(pod(cpu="99")))
        assert isinstance(result, Diagnosis)
        assert result.message.startswith(message)


def test_a_reason_that_holds_for_no_node_is_not_given() -> None:
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    raw = pod(cpu="9", spec={"topologySpreadConstraints": [spread]})
    nodes = node("n1", cpu="1"), node("n2", cpu="99")
    diagnosis = refusal(snapshot_of(*nodes), raw)
    missing = "node(s) didn't match pod topology spread constraints (missing required label)"
    assert dict(diagnosis.reasons) == {"Insufficient cpu": 1, missing: 1}


def test_chance_decides_between_equals_and_only_between_them() -> None:
    snapshot = snapshot_of(node("a-7"), node("b-9"), node("c-9"), node("d-9"))
    profile = profile_with(ByName, bare=True)
    assert {chosen(snapshot, pod(), profile, seed=seed) for seed in range(50)} == {"b-9", "c-9", "d-9"}


def test_a_single_feasible_node_is_not_scored() -> None:
    snapshot = snapshot_of(node("n-101"), node("m-1", unschedulable=True))
    assert chosen(snapshot, pod(), profile_with(ByName)) == "n-101"  # a score of 101 would be an error


def test_a_nominated_node_is_taken_first_while_it_fits() -> None:
    snapshot = snapshot_of(node("n-1"), node("n-9"))
    profile = profile_with(ByName)
    assert chosen(snapshot, pod(status={"nominatedNodeName": "n-1"}), profile) == "n-1"
    snapshot.set_node(node("n-1", unschedulable=True))
    assert chosen(snapshot, pod(status={"nominatedNodeName": "n-1"}), profile) == "n-9"


# How many nodes are looked at


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [
        (100, 99, 99),
        (1, 99, 99),
        (100, 5000, 5000),
        (30, 5000, 1500),
        (10, 500, 100),
        (0, 100, 100),
        (0, 1000, 420),  # 50 - 8 = 42 %
        (0, 5000, 500),  # 50 - 40 = 10 %
        (0, 6000, 300),  # not less than 5 %
    ],
)
def test_how_many_feasible_nodes_end_the_search(percentage: int, nodes: int, wanted: int) -> None:
    assert nodes_wanted(percentage, nodes) == wanted


class Counting(Filter):
    """Passes all but the nodes that are cordoned, and notes whom it was asked about."""

    name = "Counting"
    asked: list[str] = []  # noqa: RUF012 - cleared by each test

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        self.asked.append(node.name)
        return unschedulable("odd") if node.unschedulable else SUCCESS


class Zero(Score):
    name = "Zero"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        return 0


def test_the_next_search_begins_where_the_last_ended() -> None:
    snapshot = snapshot_of(*(node(f"n{i:03}", unschedulable=i % 2 == 1) for i in range(600)))
    cycle = Cycle(snapshot, random.Random(0))
    profile = profile_with(Counting, Zero, percentage=10, bare=True)  # 100 of 600 wanted; every other node fits
    starts = []
    for _ in range(4):
        Counting.asked.clear()
        cycle.schedule(profile, PodInfo(pod()))
        starts.append(Counting.asked[0])
    # The hundredth feasible node is the 199th, so each search moves on by 199 nodes, or 200 from an odd one.
    assert starts == ["n000", "n199", "n399", "n599"]


def test_without_scores_the_first_feasible_node_will_do() -> None:
    snapshot = snapshot_of(*(node(f"n{i}", unschedulable=i == 0) for i in range(5)))
    cycle, profile = Cycle(snapshot, random.Random(0)), profile_with(Counting, bare=True)
    found = [cycle.schedule(profile, PodInfo(pod())) for _ in range(5)]
    assert [choice.node_name for choice in found if isinstance(choice, Choice)] == ["n1", "n2", "n3", "n4", "n1"]


def test_all_nodes_are_looked_at_before_giving_up() -> None:
    snapshot = snapshot_of(*(node(f"n{i}", unschedulable=True) for i in range(450)))
    result = refusal(snapshot, pod(), profile_with(Counting, Zero, percentage=1, bare=True))
    assert result.message == "0/450 nodes are available: 450 odd."


# When nothing fits


def test_no_nodes_at_all() -> None:
    result = refusal(snapshot_of(), pod())
    assert (result.message, dict(result.counts)) == (
        "no nodes available to schedule pods",
        {"no nodes available to schedule pods": 0},
    )


def test_reasons_are_counted_by_node_and_sorted_as_text() -> None:
    small = [node(f"s{i}", cpu="1", memory="1Gi") for i in range(10)]
    tainted = [node(f"t{i}", taints=["k=v:NoSchedule"]) for i in range(2)]
    result = refusal(snapshot_of(*small, *tainted, node("c", unschedulable=True)), pod(cpu="2", memory="2Gi"))
    assert result.message == (
        "0/13 nodes are available: 1 node(s) were unschedulable, 10 Insufficient cpu, 10 Insufficient memory, "
        "2 node(s) had untolerated taint(s)."
    )
    assert result.plugins == {"NodeUnschedulable", "TaintToleration", "NodeResourcesFit"}


def test_a_node_is_turned_away_by_the_first_filter_alone() -> None:
    result = refusal(snapshot_of(node("n1", cpu="1", taints=["k=v:NoSchedule"])), pod(cpu="2"))
    assert result.plugins == {"TaintToleration"}


def affine(*names: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return pod(cpu="1", spec={"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})


def test_a_pod_tied_to_one_node_says_so_of_the_others() -> None:
    snapshot = snapshot_of(node("n1", cpu="500m"), node("n2"), node("n3"))
    message = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert refusal(snapshot, affine("n1")).message == message
    gone = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert refusal(snapshot, affine("gone")).message == gone
    assert chosen(snapshot, affine("n3")) == "n3"


def test_a_pod_turned_away_as_a_whole() -> None:
    result = refusal(snapshot_of(node("n1"), node("n2")), affine("n1", "n2"))
    assert result.message == "0/2 nodes are available: pod affinity terms conflict."
    assert dict(result.counts) == {"pod affinity terms conflict": 2}
    assert result.plugins == {"NodeAffinity"}


def narrowing(plugin_name: str, *names: str) -> type[PreFilter]:
    class Narrowing(PreFilter):
        name = plugin_name

        def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
            return PreFilterResult(node_names=frozenset(names))

    return Narrowing


def test_plugins_that_narrow_the_search_to_nothing() -> None:
    snapshot = snapshot_of(node("n1"), node("n2"))
    both = profile_with(narrowing("B", "n2"), narrowing("A", "n1"))
    assert refusal(snapshot, pod(), both).message == (
        "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
    )
    alone = refusal(snapshot, pod(), profile_with(narrowing("A")))
    assert alone.message == "0/2 nodes are available: node(s) didn't satisfy plugin A."
    assert chosen(snapshot, pod(), profile_with(narrowing("A", "n1", "n2"), narrowing("B", "n2"))) == "n2"


# Plugins that skip, and plugins that misbehave


class Skips(PreFilter, Filter, PreScore, Score):
    """Has nothing to say about any pod, and so must not be asked about nodes."""

    name = "Skips"

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        return PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        raise AssertionError("was asked")

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        raise AssertionError("was asked")


def test_a_plugin_that_skips_a_pod_is_not_asked_about_nodes() -> None:
    assert chosen(snapshot_of(node("a"), node("b")), pod(), profile_with(Skips)) in {"a", "b"}


def odd(point: str, answer: Any) -> type[Any]:
    """A plugin that answers, or raises, `answer` at one point and lets all through at the others."""

    def at(name: str, otherwise: Any) -> Any:
        if name != point:
            return otherwise
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Odd(PreFilter, Filter, PreScore, Score):
        name = "Odd"

        def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
            return PreFilterResult(at("pre_filter", SUCCESS))

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
            verdict: Verdict = at("filter", SUCCESS)
            return verdict

        def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
            batch: BatchVerdict = at("filter_batch", None) or super().filter_batch(state, pod, snapshot, rows)
            return batch

        def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
            verdict: Verdict = at("pre_score", SUCCESS)
            return verdict

        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
            return int(at("score", 0))

        def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, /) -> IntArray:
            result: IntArray = at("normalize", scores)
            return result

    return Odd


@pytest.mark.parametrize(
    ("point", "answer", "message"),
    [
        ("pre_filter", KeyError("x"), "running 'Odd' preFilter plugin: KeyError: 'x'"),
        ("pre_filter", Verdict(Code.WAIT), "running 'Odd' preFilter plugin: wait: no reason given"),
        ("pre_filter", Verdict(Code.ERROR, ("lost",)), "running 'Odd' preFilter plugin: error: lost"),
        ("filter", RuntimeError("boom"), "running 'Odd' filter plugin: RuntimeError: boom"),
        (
            "filter",
            Verdict(Code.ERROR, ("lost",)),
            "running 'Odd' filter plugin: ValueError: filter answered error for node n1: lost",
        ),
        ("filter", SKIP, "running 'Odd' filter plugin: ValueError: filter answered skip for node n1: no reason given"),
        ("filter_batch", BatchVerdict({"x": np.ones(7, dtype=bool)}), "running 'Odd' filter plugin: ValueError: "),
        ("pre_score", Verdict(Code.UNSCHEDULABLE, ("no",)), "running 'Odd' preScore plugin: unschedulable: no"),
        ("score", RuntimeError("boom"), "running 'Odd' score plugin: RuntimeError: boom"),
        (
            "score",
            101,
            "plugin 'Odd' returns an invalid score 101, it should in the range of [0, 100] after normalizing",
        ),
        ("score", -1, "plugin 'Odd' returns an invalid score -1"),
        ("normalize", np.zeros(3, dtype=np.int64), "running 'Odd' score plugin: ValueError: 3 scores for 2 nodes"),
    ],
)
def test_a_plugin_that_misbehaves_is_named(point: str, answer: Any, message: str) -> None:
    snapshot = snapshot_of(node("n1"), node("n2"))
    with pytest.raises(PluginFailed) as raised:
        attempt(snapshot, pod(), profile_with(odd(point, answer)))
    assert str(raised.value).startswith(message)
    assert raised.value.plugin == "Odd"


def test_a_rejection_without_a_reason_still_counts() -> None:
    result = refusal(snapshot_of(node("n1")), pod(), profile_with(odd("filter", unresolvable())))
    assert result.message == "0/1 nodes are available: 1 node(s) were rejected without a reason."
