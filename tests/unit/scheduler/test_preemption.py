"""Preemption: who has to go for a pod, from which node, as kube-scheduler decides it."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from konverge.model.resource import Object, PodDisruptionBudget
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.cycle import Choice, Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Filter,
    PreFilter,
    PreFilterResult,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.plugins.default_preemption import Args
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.preemption import Candidate, choose, gather
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import NAME, node, plugin_handle, pod, registry_with, snapshot_of

HOST = "kubernetes.io/hostname"


class Elsewhere(Filter):
    """Passes all; since it has no signature, trials must change the snapshot itself."""

    name = "Elsewhere"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        return SUCCESS


def attempt(
    snapshot: Snapshot,
    preemptor: Object,
    *,
    budgets: Sequence[Object] = (),
    nominated: Mapping[str, Sequence[Object]] | None = None,
    in_place: bool = False,
    more: Sequence[type[Filter]] = (),
    seed: int = 0,
    **args: Any,
) -> Choice | Diagnosis:
    """Try a pod, with the default profile and DefaultPreemption; `nominated` are the pods by node."""
    others: list[type[Filter]] = [*more, *([Elsewhere] if in_place else [])]
    uses = (PluginUse("DefaultPreemption"), *(PluginUse(plugin.name) for plugin in others))
    profile = ProfileConfig(
        NAME, plugins={Point.MULTI_POINT: PluginSet(enabled=uses)}, args={"DefaultPreemption": args}
    )
    handle, nominations = plugin_handle(), Nominations()
    for budget in budgets:
        handle.lister.wrote(PodDisruptionBudget, budget)
    for name, pods in (nominated or {}).items():
        for raw in pods:
            nominations.put(PodInfo(raw), name)
    compiled = compile_profile(profile, registry_with(*others), handle)
    cycle = Cycle(snapshot, random.Random(seed), nominations=nominations)
    return cycle.schedule(compiled, PodInfo(preemptor))


def diagnosed(snapshot: Snapshot, preemptor: Object, **options: Any) -> Diagnosis:
    result = attempt(snapshot, preemptor, **options)
    assert isinstance(result, Diagnosis)
    return result


def victims(snapshot: Snapshot, preemptor: Object, **options: Any) -> tuple[str | None, list[str]]:
    """The nominated node, and who has to leave it."""
    diagnosis = diagnosed(snapshot, preemptor, **options)
    return diagnosis.nominated, [victim.name for victim in diagnosis.victims]


def runs(name: str, cpu: str = "1", priority: int = 0, *, on: str = "n1", **more: Any) -> Object:
    """A running pod. `started` is the second of the minute; `labels` are its labels."""
    started, labels = more.pop("started", 0), more.pop("labels", None)
    status = {"startTime": f"2026-01-01T00:00:{started:02}Z", **more.pop("status", {})}
    raw = pod(name, cpu, on=on, priority=priority, status=status, **more)
    if labels:
        raw["metadata"]["labels"] = labels
    return raw


def wants(cpu: str = "2", priority: int = 10, **spec: Any) -> Object:
    """The pod that is tried."""
    status = {"nominatedNodeName": spec.pop("nominated")} if "nominated" in spec else None
    return pod("p", cpu, priority=priority, spec=spec, status=status)


def budget(allowed: int, selector: Mapping[str, Any] | None, *, disrupted: Sequence[str] = ()) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"b{allowed}-{len(disrupted)}", "namespace": "default", "resourceVersion": "1"},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")},
    }


LEAVING = {
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
}


def leaving(name: str, *, preempted: bool = True, on: str = "n1", priority: int = 0) -> Object:
    raw = runs(name, "2", priority, on=on, status=LEAVING if preempted else {})
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return raw


# Who may


def test_a_pod_that_fits_somewhere_pushes_nobody_out() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="2"), pods=[runs("a", "2")])
    result = attempt(snapshot, wants("2"))
    assert isinstance(result, Choice)
    assert result.node_name == "n2"


@pytest.mark.parametrize("priority", [5, 6])
def test_pods_of_the_same_or_a_higher_priority_stay(priority: int) -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", taints=["k=v:NoSchedule"]), pods=[runs("a", "2", priority)])
    diagnosis = diagnosed(snapshot, wants("2", priority=5))
    assert (diagnosis.nominated, diagnosis.victims) == ("", ())
    assert diagnosis.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_where_even_the_removal_of_all_lower_pods_is_not_enough_the_filters_say_so() -> None:
    pods = [runs("a", "1"), runs("b", "1", 20)]
    diagnosis = diagnosed(snapshot_of(node("n1", cpu="2", memory="1Gi"), pods=pods), wants("2"))
    assert diagnosis.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_pod_whose_policy_is_never_leaves_the_others_alone() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), pods=[runs("a", "2")])
    diagnosis = diagnosed(snapshot, wants(preemptionPolicy="Never"))
    assert diagnosis.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert (diagnosis.nominated, diagnosis.victims) == (None, ())


def test_a_pod_whose_victims_are_still_leaving_waits_for_that_and_keeps_its_node() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="2"), pods=[leaving("a"), runs("b", "2", on="n2")])
    diagnosis = diagnosed(snapshot, wants(nominated="n1"))
    assert diagnosis.message == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert (diagnosis.nominated, diagnosis.victims) == (None, ())


@pytest.mark.parametrize(
    "other", [leaving("a", preempted=False), leaving("a", priority=10)], ids=["not preempted", "as important"]
)
def test_pods_that_leave_for_other_reasons_are_not_waited_for(other: Object) -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="2"), pods=[other, runs("b", "2", on="n2", started=9)])
    assert victims(snapshot, wants(nominated="n1")) == ("n2", ["b"])


@pytest.mark.parametrize("where", [["k=v:NoSchedule"], None], ids=["tainted", "deleted"])
def test_a_pod_whose_nominated_node_will_not_do_any_more_may_look_elsewhere(where: list[str] | None) -> None:
    """Replay 26: the node that is being cleared for the pod becomes tainted, or goes."""
    nodes = [node("n2", cpu="2"), *([node("n1", cpu="2", taints=where)] if where else [])]
    snapshot = snapshot_of(*nodes, pods=[leaving("a"), runs("b", "2", on="n2")])
    assert victims(snapshot, wants(nominated="n1")) == ("n2", ["b"])


def test_a_cluster_where_no_removal_helps_takes_the_nomination_away() -> None:
    snapshot = snapshot_of(node("n1", cpu="2", taints=["k=v:NoSchedule"]), pods=[runs("a", "2")])
    diagnosis = diagnosed(snapshot, wants(nominated="n1"))
    assert (diagnosis.nominated, diagnosis.victims) == ("", ())
    assert diagnosis.message.endswith(
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


# Who has to go


def test_no_more_go_than_must_and_the_least_important_first() -> None:
    pods = [runs("high", "1", 5), runs("low", "1", 1), runs("middle", "1", 3)]
    assert victims(snapshot_of(node("n1", cpu="3"), pods=pods), wants("1")) == ("n1", ["low"])
    assert victims(snapshot_of(node("n1", cpu="3"), pods=pods), wants("2")) == ("n1", ["middle", "low"])


def test_of_equally_important_ones_those_go_that_run_for_the_shortest_time() -> None:
    pods = [runs("new", started=30), runs("old", started=10), runs("newer", started=40)]
    assert victims(snapshot_of(node("n1", cpu="3"), pods=pods), wants("2")) == ("n1", ["new", "newer"])


def test_a_pod_that_has_not_started_is_the_newest_of_all() -> None:
    waiting = pod("waiting", "1", on="n1")
    pods = [runs("old", started=10), waiting, runs("new", started=59)]
    assert victims(snapshot_of(node("n1", cpu="3"), pods=pods), wants("1")) == ("n1", ["waiting"])


def test_a_large_pod_may_stay_where_a_less_important_small_one_suffices() -> None:
    pods = [runs("large", "2", 5), runs("small", "1", 1), runs("tiny", "500m", 3)]
    assert victims(snapshot_of(node("n1", cpu="3500m"), pods=pods), wants("1")) == ("n1", ["small"])


def test_pods_in_the_way_of_anti_affinity_go_and_the_others_stay() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [runs("noisy", labels={"app": "noisy"}), runs("quiet", priority=-1)]
    assert victims(snapshot_of(node("n1"), pods=pods), wants("1", affinity=apart)) == ("n1", ["noisy"])


def test_pods_whose_own_anti_affinity_is_in_the_way_go_too() -> None:
    term = {"topologyKey": HOST, "labelSelector": {}}
    shy = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pods = [runs("shy", spec=shy), runs("quiet", priority=-1)]
    assert victims(snapshot_of(node("n1"), pods=pods), wants("1")) == ("n1", ["shy"])


def test_a_pod_is_not_placed_by_removing_what_it_must_be_near() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    snapshot = snapshot_of(node("n1", cpu="1"), pods=[runs("db", labels={"app": "db"})])
    diagnosis = diagnosed(snapshot, wants("1", affinity=near))
    assert diagnosis.victims == ()


def test_pods_that_unbalance_a_spread_go() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}, cpu="1")]
    web = {"app": "web"}
    pods = [runs("w1", labels=web), runs("w2", labels=web, started=5), runs("full", "1", 50, on="n2")]
    raw = wants("1", topologySpreadConstraints=[spread])
    raw["metadata"]["labels"] = web
    assert victims(snapshot_of(*zones, pods=pods), raw) == ("n1", ["w1", "w2"])


def test_a_pod_that_holds_a_wanted_host_port_goes() -> None:
    def listening(port: int) -> dict[str, Any]:
        return {"containers": [{"name": "main", "ports": [{"containerPort": 1, "hostPort": port}]}]}

    pods = [runs("holder", spec=listening(80)), runs("other", spec=listening(81))]
    assert victims(snapshot_of(node("n1"), pods=pods), wants("1", **listening(80))) == ("n1", ["holder"])


# Disruption budgets


WEB = {"matchLabels": {"app": "web"}}


def test_a_budget_that_allows_no_disruption_is_spared_where_others_can_go() -> None:
    pods = [runs("web", priority=1, labels={"app": "web"}), runs("batch", priority=5)]
    snapshot = snapshot_of(node("n1", cpu="2"), pods=pods)
    assert victims(snapshot, wants("1")) == ("n1", ["web"])
    assert victims(snapshot, wants("1"), budgets=[budget(0, WEB)]) == ("n1", ["batch"])


def test_a_budget_is_violated_where_nothing_else_helps() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), pods=[runs("web", "2", labels={"app": "web"})])
    assert victims(snapshot, wants("1"), budgets=[budget(0, WEB)]) == ("n1", ["web"])


def test_a_node_whose_victims_no_budget_protects_goes_before_one_with_less_important_victims() -> None:
    pods = [runs("web", "2", 1, labels={"app": "web"}), runs("batch", "2", 9, on="n2")]
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="2"), pods=pods)
    assert victims(snapshot, wants("2"), budgets=[budget(0, WEB)]) == ("n2", ["batch"])


@pytest.mark.parametrize(
    ("budgets", "gone"),
    [
        ([budget(1, WEB)], ["w1", "w3"]),  # it allows one to go, the first of them: so the second stays
        ([budget(3, WEB)], ["w2", "w3"]),
        ([budget(0, {})], ["w2", "w3"]),  # an empty selector is for nobody, and so is none
        ([budget(0, None)], ["w2", "w3"]),
        ([budget(0, {"matchExpressions": [{"key": "a", "operator": "Odd"}]})], ["w2", "w3"]),
    ],
)
def test_budgets_are_counted_down_pod_by_pod(budgets: list[Object], gone: list[str]) -> None:
    web = {"app": "web"}
    pods = [runs("w1", priority=3, labels=web), runs("w2", priority=2, labels=web), runs("w3", priority=1)]
    assert victims(snapshot_of(node("n1", cpu="3"), pods=pods), wants("2"), budgets=budgets) == ("n1", gone)


def test_a_pod_whose_disruption_the_budget_has_accounted_for_is_not_counted_again() -> None:
    pods = [runs("w1", priority=1, labels={"app": "web"}), runs("batch", priority=5)]
    snapshot = snapshot_of(node("n1", cpu="2"), pods=pods)
    assert victims(snapshot, wants("1"), budgets=[budget(0, WEB, disrupted=["w1"])]) == ("n1", ["w1"])


def test_a_pod_without_labels_is_under_no_budget() -> None:
    everybody = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    pods = [runs("bare", priority=1), runs("labelled", priority=5, labels={"tier": "x"})]
    snapshot = snapshot_of(node("n1", cpu="2"), pods=pods)
    assert victims(snapshot, wants("1"), budgets=[budget(0, everybody)]) == ("n1", ["bare"])


# Which node


def candidate(name: str, *pods: tuple[int, int], violations: int = 0) -> Candidate:
    """A node whose victims have these priorities and starting seconds, the most important first."""
    raws = [runs(f"{name}-{index}", priority=priority, started=at) for index, (priority, at) in enumerate(pods)]
    return Candidate(name, tuple(map(PodInfo, raws)), violations)


@pytest.mark.parametrize(
    "candidates",
    [
        (candidate("worse", (0, 0), violations=1), candidate("better", (9, 0), (9, 0))),
        (candidate("worse", (5, 0)), candidate("better", (4, 0), (4, 0), (4, 0))),
        (candidate("worse", (5, 0), (4, 0)), candidate("better", (5, 0), (3, 0))),
        (candidate("worse", (-5, 0), (-5, 0)), candidate("better", (-5, 0))),
        (candidate("worse", (5, 10), (1, 40)), candidate("better", (5, 20), (1, 0))),
        (candidate("worse", (5, 20), (5, 10)), candidate("better", (5, 30), (5, 15))),
    ],
    ids=[
        "fewer violated budgets",
        "a lower highest priority",
        "a lower sum of priorities",
        "fewer pods, though priorities are negative",
        "the most important victim runs for a shorter time",
        "the longest running of the most important victims counts",
    ],
)
def test_the_node_is_chosen_where_it_hurts_least(candidates: tuple[Candidate, Candidate]) -> None:
    assert choose(candidates).node_name == choose(candidates[::-1]).node_name == "better"


def test_of_equal_nodes_the_first_is_taken() -> None:
    assert choose([candidate("first", (5, 1)), candidate("second", (5, 1))]).node_name == "first"


def found(outcome: str) -> Callable[[int], Candidate | None]:
    """Candidates by index: `.` none, `o` harmless, `x` violates a budget."""
    return lambda index: (
        None if outcome[index] == "." else candidate(str(index), (0, 0), violations=int(outcome[index] == "x"))
    )


@pytest.mark.parametrize(
    ("outcome", "start", "wanted", "expected"),
    [
        ("ooooo", 0, 2, ["0", "1"]),
        ("ooooo", 3, 3, ["3", "4", "0"]),
        ("xxxox", 0, 2, ["3", "0", "1"]),  # no less than one that violates nothing, and of the others not too many
        ("xxxxx", 0, 2, ["0", "1"]),
        ("..x..", 0, 2, ["2"]),
        (".....", 2, 1, []),
    ],
)
def test_the_search_ends_with_enough_candidates(outcome: str, start: int, wanted: int, expected: list[str]) -> None:
    harmless, harmful = gather(len(outcome), wanted, found(outcome), start)
    assert [each.node_name for each in (*harmless, *harmful)] == expected


def test_a_large_cluster_is_not_searched_as_a_whole() -> None:
    snapshot = snapshot_of(
        *(node(f"n{i}", cpu="2") for i in range(40)), pods=[runs(f"p{i}", "2", i, on=f"n{i}") for i in range(40)]
    )
    best = victims(snapshot, wants("2", priority=100))
    assert best == ("n0", ["p0"])
    limits = {"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 1}
    nodes = {victims(snapshot, wants("2", priority=100), seed=seed, **limits)[0] for seed in range(8)}
    assert len(nodes) > 3


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "cannot both be 0"),
        ({"minCandidateNodesPercentage": 101}, "less than or equal to 100"),
        ({"minCandidateNodesAbsolute": -1}, "greater than or equal to 0"),
    ],
)
def test_bad_arguments_are_refused(args: Mapping[str, int], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Args.model_validate(args)


# Nominated pods


def test_room_that_is_cleared_for_a_more_or_equally_important_pod_is_not_taken() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="1"))
    for priority in (10, 11):
        nominee = pod("nominee", "2", priority=priority)
        diagnosis = diagnosed(snapshot, wants("2"), nominated={"n1": [nominee]})
        assert diagnosis.reasons == {"Insufficient cpu": 2}


def test_room_that_is_cleared_for_a_less_important_pod_may_be_taken() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"), node("n2", cpu="1"))
    result = attempt(snapshot, wants("2"), nominated={"n1": [pod("nominee", "2", priority=9)]})
    assert isinstance(result, Choice)


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    snapshot = snapshot_of(node("n1", cpu="2"))
    result = attempt(snapshot, wants("2"), nominated={"n1": [pod("p", "2", priority=10)]})
    assert isinstance(result, Choice)


def test_a_nominated_pod_is_not_counted_on_to_come() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    db = pod("db", "1", priority=20)
    db["metadata"]["labels"] = {"app": "db"}
    diagnosis = diagnosed(snapshot_of(node("n1")), wants("1", affinity=near), nominated={"n1": [db]})
    assert diagnosis.reasons == {"node(s) didn't match pod affinity rules": 1}


def test_anti_affinity_holds_against_nominated_pods() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    db = pod("db", "1", priority=20)
    db["metadata"]["labels"] = {"app": "db"}
    result = attempt(snapshot_of(node("n1"), node("n2")), wants("1", affinity=apart), nominated={"n1": [db]})
    assert isinstance(result, Choice)
    assert result.node_name == "n2"


def test_victims_must_make_room_for_the_nominated_pods_too() -> None:
    pods = [runs("a", "1", 1), runs("b", "1", 2), runs("c", "1", 3)]
    snapshot = snapshot_of(node("n1", cpu="3"), pods=pods)
    assert victims(snapshot, wants("1")) == ("n1", ["a"])
    nominee = pod("nominee", "1", priority=10)
    assert victims(snapshot, wants("1"), nominated={"n1": [nominee]}) == ("n1", ["b", "a"])


# Plugins that misbehave


class Moody(Filter):
    """Rejects a node when asked first, and then does what its name for it says."""

    name = "Moody"
    asked: Counter[str] = Counter()  # noqa: RUF012 - emptied by each test

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        self.asked[node.name] += 1
        if self.asked[node.name] == 1:
            return unschedulable("not yet")
        match node.name:
            case "raises":
                raise RuntimeError("boom")
            case "waits":
                return Verdict(Code.WAIT)
            case "for-good":
                return unresolvable("never")
        return SUCCESS


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["n1"], "preemption: 0/1 nodes are available: 1 expected at least one victim pod on node 'n1'."),
        (["for-good"], "preemption: 0/1 nodes are available: 1 never."),
        (["raises"], "running 'Moody' filter plugin: RuntimeError: boom"),
        (["waits"], "running 'Moody' filter plugin: ValueError: filter answered wait for node waits: no reason given"),
        (["n1", "raises"], "running 'Moody' filter plugin: RuntimeError: boom"),
    ],
)
def test_a_filter_that_changes_its_mind_or_fails_in_a_trial_is_told(names: list[str], said: str) -> None:
    Moody.asked = Counter()
    snapshot = snapshot_of(*map(node, names), pods=[runs(f"on-{name}", on=name) for name in names])
    diagnosis = diagnosed(snapshot, wants("1"), more=[Moody])
    assert diagnosis.message == f"0/{len(names)} nodes are available: {len(names)} not yet. {said}"
    assert diagnosis.victims == ()


def test_a_filter_that_fails_on_one_node_does_not_keep_the_pod_from_another() -> None:
    Moody.asked = Counter({"n1": 1})
    pods = [runs("a", on="raises"), runs("b", "2", on="n1")]
    snapshot = snapshot_of(node("raises"), node("n1", cpu="2"), pods=pods)
    assert victims(snapshot, wants("2"), more=[Moody]) == ("n1", ["b"])


class Roomy(PreFilter, Filter):
    """Counts the pods of the whole cluster before it looks at nodes, and wants no more than one."""

    name = "Roomy"

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        self.count = sum(len(each.pods) for each in snapshot.nodes(snapshot.rows))
        return PreFilterResult(SKIP if not self.count else SUCCESS)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        return SUCCESS if self.count <= 1 else unschedulable("crowded")


def test_a_third_partys_filter_that_reads_the_whole_cluster_sees_it_as_it_would_be() -> None:
    snapshot = snapshot_of(node("n1"), node("n2"), pods=[runs("a"), runs("b", priority=1), runs("c", on="n2")])
    assert victims(snapshot, wants("1"), more=[Roomy]) == ("n1", ["b", "a"])
    alone = snapshot_of(node("n1"), pods=[runs("a"), runs("b", priority=1)])
    assert victims(alone, wants("1"), more=[Roomy]) == ("n1", ["a"])


# For any cluster


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Object], list[Object]]:
    """A few nodes, full of pods of different size and importance."""
    nodes: list[Object] = [node(f"n{i}", cpu=draw(st.sampled_from(["2", "3"]))) for i in range(draw(st.integers(1, 4)))]
    pods: list[Object] = []
    for index in range(len(nodes)):
        for number in range(draw(st.integers(0, 5))):
            cpu = draw(st.sampled_from(["200m", "500m", "1"]))
            at, started = f"n{index}", draw(st.integers(0, 50))
            pods.append(runs(f"p{index}-{number}", cpu, draw(st.integers(0, 4)), on=at, started=started))
    return nodes, pods


@given(clusters(), st.sampled_from(["1", "2", "3"]), st.integers(0, 5), st.integers(0, 3))
@settings(deadline=None)
def test_the_victims_are_enough_none_is_too_many_and_trying_changes_nothing(
    cluster: tuple[list[Object], list[Object]], cpu: str, priority: int, seed: int
) -> None:
    nodes, pods = cluster
    preemptor = wants(cpu, priority=priority)
    snapshot = snapshot_of(*nodes, pods=pods)
    result = attempt(snapshot, preemptor, seed=seed)
    for in_place in (True, False):
        again = attempt(snapshot, preemptor, seed=seed, in_place=in_place)
        assert type(again) is type(result)
        if isinstance(result, Diagnosis) and isinstance(again, Diagnosis):
            assert (again.message, again.nominated, again.victims) == (result.message, result.nominated, result.victims)
    if isinstance(result, Choice) or not result.nominated:
        return
    gone = [victim.name for victim in result.victims]
    assert all(victim.priority < priority for victim in result.victims)
    here = next(raw for raw in nodes if raw["metadata"]["name"] == result.nominated)
    for spared in (None, *gone):
        left = [raw for raw in pods if raw["metadata"]["name"] not in gone or raw["metadata"]["name"] == spared]
        outcome = attempt(snapshot_of(here, pods=[raw for raw in left if raw["spec"]["nodeName"] == result.nominated]),
                          preemptor)  # fmt: skip
        assert isinstance(outcome, Choice) is (spared is None)
