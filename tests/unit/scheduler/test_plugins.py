"""The built-in plugins, with kube-scheduler's numbers worked out by hand."""

from typing import Any

import pytest
from pydantic import ValidationError

from konverge.scheduler.framework import Code, CycleState, QueuedPod
from konverge.scheduler.plugins.node_affinity import NodeAffinity
from konverge.scheduler.plugins.node_label_priority import NodeLabelPriority
from konverge.scheduler.plugins.node_name import NodeName
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.node_unschedulable import NodeUnschedulable
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.plugins.taint_toleration import TaintToleration
from konverge.scheduler.podinfo import PodInfo
from tests.unit.scheduler.clusters import (
    container,
    node,
    passing,
    plugin,
    pod,
    scores,
    snapshot_of,
    toleration,
    verdicts,
)

# Fit, the filter


def test_fit_counts_the_pods_that_are_there() -> None:
    there = [pod("x", cpu="3", on="n1")]
    fit = plugin(NodeResourcesFit)
    assert passing(fit, pod(cpu="1"), node("n1"), node("n2"), pods=there) == {"n1", "n2"}
    assert passing(fit, pod(cpu="1001m"), node("n1"), node("n2"), pods=there) == {"n2"}


def test_fit_says_everything_that_falls_short() -> None:
    raw = pod(cpu="2", memory="2Gi", example_com__gpu=1)
    full = node("n1", cpu="3", memory="4Gi", pods=1, example_com__gpu=1)
    there = [pod("x", cpu="2", memory="3Gi", example_com__gpu=1, on="n1")]
    verdict = verdicts(plugin(NodeResourcesFit), raw, snapshot_of(full, pods=there))["n1"]
    assert verdict.code is Code.UNSCHEDULABLE
    assert sorted(verdict.reasons) == [
        "Insufficient cpu",
        "Insufficient example.com/gpu",
        "Insufficient memory",
        "Too many pods",
    ]


def test_fit_is_final_where_the_whole_node_would_not_do() -> None:
    verdict = verdicts(plugin(NodeResourcesFit), pod(cpu="5"), snapshot_of(node("n1", cpu="4")))["n1"]
    assert (verdict.code, verdict.reasons) == (Code.UNRESOLVABLE, ("Insufficient cpu",))


def test_fit_lets_a_pod_that_asks_for_nothing_onto_an_overfull_node() -> None:
    assert passing(plugin(NodeResourcesFit), pod(), node("n1"), pods=[pod("x", cpu="9", on="n1")]) == {"n1"}


def test_case_30_a_sidecar_and_a_container_that_fills_the_node_do_not_fit() -> None:
    sidecar = container("proxy", sidecar=True, cpu="250m")
    raw = pod(spec={"containers": [container("main", cpu="4")], "initContainers": [sidecar]})
    assert passing(plugin(NodeResourcesFit), raw, node("n1", cpu="4"), node("n2", cpu="4250m")) == {"n2"}


def test_case_33_fifty_exabytes_do_not_fit_even_beside_as_many() -> None:
    there = [pod(f"x{i}", memory="50E", on="n2") for i in range(4)]
    assert passing(plugin(NodeResourcesFit), pod(memory="50E"), node("n1"), node("n2"), pods=there) == set()
    assert passing(plugin(NodeResourcesFit), pod(memory="1"), node("n2"), pods=there) == set()


def test_fit_can_leave_extended_resources_to_somebody_else() -> None:
    raw = pod(example_com__gpu=1, other_org__fpga=1)
    assert passing(plugin(NodeResourcesFit, ignoredResources=["example.com/gpu"]), raw, node("n1")) == set()
    both = plugin(NodeResourcesFit, ignoredResources=["example.com/gpu"], ignoredResourceGroups=["other.org"])
    assert passing(both, raw, node("n1")) == {"n1"}
    assert passing(plugin(NodeResourcesFit, ignoredResources=["cpu"]), pod(cpu="9"), node("n1")) == set()


# Fit, the score


def test_least_allocated_is_the_mean_of_what_stays_free() -> None:
    # n1: cpu (4000-3000)*100/4000 = 25, memory (8-4)*100/8 = 50: 37. n2: (4000-1000)/40 = 75, (8-2)*100/8 = 75.
    there = [pod("x", cpu="2", memory="2Gi", on="n1")]
    assert scores(plugin(NodeResourcesFit), pod(cpu="1", memory="2Gi"), node("n1"), node("n2"), pods=there) == [37, 75]


def test_most_allocated_is_the_mirror_image() -> None:
    # n1: cpu 3000*100/4000 = 75, memory 4*100/8 = 50: 62. n2: 25 and 25.
    most = plugin(NodeResourcesFit, scoringStrategy={"type": "MostAllocated"})
    there = [pod("x", cpu="2", memory="2Gi", on="n1")]
    assert scores(most, pod(cpu="1", memory="2Gi"), node("n1"), node("n2"), pods=there) == [62, 25]


def test_weights_of_resources() -> None:
    # cpu 75 three times, memory 50 once: 275 / 4 = 68.
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    fit = plugin(NodeResourcesFit, scoringStrategy={"resources": resources})
    assert scores(fit, pod(cpu="1", memory="4Gi"), node("n1")) == [68]


def test_a_missing_request_counts_in_the_score_for_this_pod_and_for_those_there() -> None:
    # One such pod there and this one: 200m of 1000m leave 80; 400Mi of 1000Mi leave 60.
    small = node("n1", cpu="1", memory="1000Mi")
    assert scores(plugin(NodeResourcesFit), pod(), small, pods=[pod("x", on="n1")]) == [70]


def test_resources_of_the_pod_as_a_whole_count_for_those_there_and_not_for_this_one() -> None:
    # There 500m and 300Mi, this one its container's 100m and 200Mi: 400m of 1000m and 500Mi of 1000Mi are left.
    whole = {"resources": {"requests": {"cpu": "500m", "memory": "300Mi"}}}
    small = node("n1", cpu="1", memory="1000Mi")
    assert scores(plugin(NodeResourcesFit), pod(spec=whole), small, pods=[pod("x", on="n1", spec=whole)]) == [45]


def test_requests_beyond_the_node_score_nothing_or_all() -> None:
    most = plugin(NodeResourcesFit, scoringStrategy={"type": "MostAllocated"})
    there = [pod("x", cpu="9", memory="9Gi", on="n1")]
    assert scores(plugin(NodeResourcesFit), pod(), node("n1"), pods=there) == [0]
    assert scores(most, pod(), node("n1"), pods=there) == [100]


def test_resources_that_the_node_lacks_or_the_pod_does_not_ask_for_are_left_out() -> None:
    resources = [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]
    fit = plugin(NodeResourcesFit, scoringStrategy={"resources": resources})
    gpus = node("n1", example_com__gpu=4)
    assert scores(fit, pod(cpu="1"), gpus) == [75]  # the pod asks for no gpu: cpu alone
    assert scores(fit, pod(cpu="1", example_com__gpu=2), gpus, node("n2")) == [62, 75]  # (75 + 50) / 2; n2 has none


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "shape goes with the type"),
        ({"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}]}}, "greater than or equal to 1"),
        ({"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "cpu"}]}}, "names a resource more than once"),
        ({"scoringStrategy": {"resources": []}}, "must name a resource"),
        ({"typo": 1}, "Extra inputs are not permitted"),
    ],
)
def test_bad_arguments_of_fit_are_refused(args: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        plugin(NodeResourcesFit, **args)


# TaintToleration


def tolerating(*tolerations: dict[str, str]) -> dict[str, Any]:
    return pod(spec={"tolerations": list(tolerations)})


@pytest.mark.parametrize(
    ("tolerations", "taint", "fits"),
    [
        ([], "k=v:NoSchedule", False),
        ([], "k=v:NoExecute", False),
        ([], "k=v:PreferNoSchedule", True),
        ([toleration("k", "v")], "k=v:NoSchedule", True),
        ([toleration("k", "v", operator="Equal")], "k=v:NoExecute", True),
        ([toleration("k", "w")], "k=v:NoSchedule", False),
        ([toleration("k", operator="Exists")], "k=v:NoSchedule", True),
        ([toleration("k", operator="Exists", effect="NoExecute")], "k=v:NoSchedule", False),
        ([toleration(operator="Exists")], "k=v:NoExecute", True),
        ([toleration("k", "1", operator="Gt")], "k=2:NoSchedule", False),
        ([toleration("other", operator="Exists"), toleration("k", "v")], "k=v:NoSchedule", True),
    ],
)
def test_which_taints_are_tolerated(tolerations: Any, taint: str, fits: bool) -> None:
    raw = tolerating(*tolerations)
    assert passing(plugin(TaintToleration), raw, node("n1", taints=[taint])) == ({"n1"} if fits else set())


def test_case_35_an_empty_key_that_exists_for_noschedule_does_not_tolerate_noexecute() -> None:
    raw = tolerating(toleration(operator="Exists", effect="NoSchedule"))
    nodes = [node("n1", taints=["a=b:NoSchedule"]), node("n2", taints=["a=b:NoSchedule", "a=b:NoExecute"])]
    assert passing(plugin(TaintToleration), raw, *nodes) == {"n1"}


def test_fewer_disliked_taints_score_higher() -> None:
    # Counts 0, 1, 3 of at most 3: 100, 100 - 33, 0.
    disliked = [f"k{i}=v:PreferNoSchedule" for i in range(3)]
    nodes = [node("n0"), node("n1", taints=disliked[:1]), node("n3", taints=disliked)]
    assert scores(plugin(TaintToleration), pod(), *nodes) == [100, 67, 0]
    assert scores(plugin(TaintToleration), tolerating(toleration(operator="Exists")), *nodes) == [100, 100, 100]


# NodeAffinity


def requiring(*terms: Any, selector: dict[str, str] | None = None) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(spec={"affinity": {"nodeAffinity": required}, **({"nodeSelector": selector} if selector else {})})


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def term(*expressions: Any, names: Any = ()) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": list(names)}


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (expression("x", "In", "5", "a"), {"five", "text"}),
        (expression("x", "NotIn", "5"), {"text", "none"}),
        (expression("x", "Exists"), {"five", "text"}),
        (expression("x", "DoesNotExist"), {"none"}),
        (expression("x", "Gt", "4"), {"five"}),
        (expression("x", "Gt", "5"), set()),
        (expression("x", "Lt", "+6"), set()),  # the sign cannot stand in a label's value
        (expression("x", "Lt", "6"), {"five"}),
        (expression("x", "Gt", "many"), set()),
        (expression("x", "Gt", "1", "2"), set()),
        (expression("x", "In"), set()),
        (expression("x", "Exists", "a"), set()),
        (expression("x", "Near", "a"), set()),
        (expression("x", "NotIn", "not a value"), set()),
        (expression("x", "Gt", "9" * 30), set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_what_a_requirement_matches(requirement: Any, fits: set[str]) -> None:
    nodes = [node("five", labels={"x": "5"}), node("text", labels={"x": "a"}), node("none")]
    assert passing(plugin(NodeAffinity), requiring(term(requirement)), *nodes) == fits


def test_terms_are_ored_requirements_anded_and_an_empty_term_matches_nothing() -> None:
    nodes = [node("ab", labels={"a": "1", "b": "1"}), node("a", labels={"a": "1"}), node("c", labels={"c": "1"})]
    has = {key: expression(key, "Exists") for key in "abc"}
    affinity = plugin(NodeAffinity)
    assert passing(affinity, requiring(term(has["a"], has["b"]), term(has["c"])), *nodes) == {"ab", "c"}
    assert passing(affinity, requiring(term()), *nodes) == set()
    assert passing(affinity, requiring(term(), term(has["c"])), *nodes) == {"c"}
    assert passing(affinity, requiring(term(expression("a", "Gt", "x")), term(has["c"])), *nodes) == {"c"}


def test_node_selector_and_affinity_must_both_match() -> None:
    nodes = [node("both", labels={"a": "1", "b": "1"}), node("a", labels={"a": "1"}), node("b", labels={"b": "1"})]
    assert passing(plugin(NodeAffinity), requiring(term(expression("b", "Exists")), selector={"a": "1"}), *nodes) == {
        "both"
    }


def named(*names: str, operator: str = "In") -> list[dict[str, Any]]:
    return [expression("metadata.name", operator, name) for name in names]


def test_terms_on_the_nodes_name() -> None:
    nodes = [node("n1"), node("n2")]
    affinity = plugin(NodeAffinity)
    assert passing(affinity, requiring(term(names=named("n1"))), *nodes) == {"n1"}
    assert passing(affinity, requiring(term(names=named("n1", operator="NotIn"))), *nodes) == {"n2"}
    assert passing(affinity, requiring(term(names=[expression("metadata.name", "In", "n1", "n2")])), *nodes) == set()
    assert passing(affinity, requiring(term(names=[expression("spec.x", "In", "n1")])), *nodes) == set()


def test_terms_that_all_name_nodes_narrow_the_search() -> None:
    affinity, snapshot = plugin(NodeAffinity), snapshot_of(node("n1"), node("n2"))
    narrow = affinity.pre_filter(CycleState(), PodInfo(requiring(term(names=named("n1")))), snapshot)
    assert narrow.node_names == frozenset({"n1"})
    conflict = affinity.pre_filter(CycleState(), PodInfo(requiring(term(names=named("n1", "n2")))), snapshot)
    assert conflict.verdict.reasons == ("pod affinity terms conflict",)


def test_case_29_a_term_that_contradicts_itself_does_not_hide_another() -> None:
    raw = requiring(term(names=named("node1", "node2")), term(expression("foo", "In", "bar")))
    nodes = [node("node1"), node("node2"), node("node3", labels={"foo": "bar"})]
    affinity = plugin(NodeAffinity)
    assert affinity.pre_filter(CycleState(), PodInfo(raw), snapshot_of(*nodes)).node_names is None
    assert passing(affinity, raw, *nodes) == {"node3"}


def test_preferred_terms_add_their_weights_and_the_largest_sum_is_100() -> None:
    # Sums 0, 20, 50 of at most 50: 0, 40, 100. Weight 0 and a term that cannot be parsed add nothing.
    preferred = [
        {"weight": 20, "preference": term(expression("a", "Exists"))},
        {"weight": 30, "preference": term(expression("b", "Exists"))},
        {"weight": 0, "preference": term(expression("b", "Exists"))},
        {"weight": 99, "preference": term(expression("b", "Near"))},
    ]
    raw = pod(spec={"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
    nodes = [node("n1"), node("n2", labels={"a": ""}), node("n3", labels={"a": "", "b": ""})]
    assert scores(plugin(NodeAffinity), raw, *nodes) == [0, 40, 100]
    assert scores(plugin(NodeAffinity), pod(), *nodes) == [0, 0, 0]


# NodeName, NodeUnschedulable, PrioritySort


def test_a_pod_that_names_its_node_fits_there_only() -> None:
    assert passing(plugin(NodeName), pod(on="n2"), node("n1"), node("n2")) == {"n2"}
    assert passing(plugin(NodeName), pod(), node("n1"), node("n2")) == {"n1", "n2"}
    assert verdicts(plugin(NodeName), pod(on="x"), snapshot_of(node("n1")))["n1"].reasons == (
        "node(s) didn't match the requested node name",
    )


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    nodes = [node("n1"), node("n2", unschedulable=True)]
    assert passing(plugin(NodeUnschedulable), pod(), *nodes) == {"n1"}
    tolerant = tolerating(toleration("node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"))
    assert passing(plugin(NodeUnschedulable), tolerant, *nodes) == {"n1", "n2"}


def test_priority_first_then_time() -> None:
    sort = plugin(PrioritySort)
    queued = [
        QueuedPod(PodInfo(pod(name, priority=p)), since)
        for name, p, since in [("a", 0, 1), ("b", 5, 3), ("c", 5, 2), ("d", -1, 0)]
    ]
    assert [entry.pod.name for entry in sorted(queued, key=sort.sort_key)] == ["c", "b", "a", "d"]


# NodeLabelPriority


def disks(*values: str | None) -> list[dict[str, Any]]:
    return [node(f"n{i}", labels={} if value is None else {"disk": value}) for i, value in enumerate(values)]


def test_listed_values_give_their_scores() -> None:
    by_value = plugin(NodeLabelPriority, label="disk", values={"ssd": 100, "hdd": 30}, otherwise=10)
    assert scores(by_value, pod(), *disks("ssd", "hdd", "tape", None)) == [100, 30, 10, 10]


def test_numbers_are_spread_over_the_range_and_what_is_no_number_is_worst() -> None:
    largest = plugin(NodeLabelPriority, label="disk")
    assert scores(largest, pod(), *disks("0", "5", "20", None, "x", "1_0", "-")) == [0, 25, 100, 0, 0, 0, 0]
    smallest = plugin(NodeLabelPriority, label="disk", order="Ascending")
    assert scores(smallest, pod(), *disks("0", "5", "20", None)) == [100, 75, 0, 0]
    assert scores(largest, pod(), *disks("7", "7", None)) == [100, 100, 0]
    assert scores(largest, pod(), *disks(None, None)) == [0, 0]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "label"),
        ({"label": ""}, "must be a label key"),
        ({"label": "a b"}, "must be a label key"),
        ({"label": "Example.com/x/y"}, "must be a label key"),
        ({"label": "disk", "values": {"ssd": 101}}, "the score of 'ssd' must be from 0 to 100, not 101"),
        ({"label": "disk", "values": {"s s": 1}}, "'s s' cannot be a label's value"),
        ({"label": "disk", "values": {"ssd": 1}, "order": "Ascending"}, "give either `values` or `order`"),
        ({"label": "disk", "otherwise": 5}, "`otherwise` needs `values`"),
        ({"label": "disk", "values": {"ssd": 1}, "otherwise": 101}, "less than or equal to 100"),
        ({"label": "disk", "order": "Sideways"}, "'Descending' or 'Ascending'"),
        ({"label": "disk", "weights": {}}, "Extra inputs are not permitted"),
    ],
)
def test_bad_arguments_of_node_label_priority_are_refused(args: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        plugin(NodeLabelPriority, **args)
