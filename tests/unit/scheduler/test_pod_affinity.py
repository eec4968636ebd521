"""InterPodAffinity: by hand, and against a plain walk over nodes and pods, on random clusters."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from konverge.model.selectors import Selector
from konverge.scheduler.framework import SKIP, SUCCESS, Code, CycleState
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.inter_pod_affinity import NOT_APART, NOT_NEAR, NOT_WANTED, InterPodAffinity
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import node, plugin, pod, scores, snapshot_of, verdicts
from tests.unit.scheduler.test_batches import clusters, pods

ZONE = "zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = [node("a1", labels={ZONE: "a"}), node("a2", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"}), node("n")]


def term(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def labelled(app: str, name: str = "p", *, on: str = "", **rules: Any) -> dict[str, Any]:
    """A pod with `near` and `apart` terms, `likes` and `dislikes` that are pairs of weight and term."""
    weighted = {
        kind: [{"weight": weight, "podAffinityTerm": entry} for weight, entry in rules.get(kind, [])]
        for kind in ("likes", "dislikes")
    }
    affinity = {
        "podAffinity": {REQUIRED: rules.get("near", []), PREFERRED: weighted["likes"]},
        "podAntiAffinity": {REQUIRED: rules.get("apart", []), PREFERRED: weighted["dislikes"]},
    }
    raw = pod(name, on=on, spec={"affinity": affinity} if rules else {})
    raw["metadata"]["labels"] = {"app": app}
    return raw


def found(raw: dict[str, Any], *there: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Why each node is rejected."""
    result = verdicts(plugin(InterPodAffinity), raw, snapshot_of(*NODES, pods=there))
    return {name: verdict.reasons for name, verdict in result.items()}


# The filter


def test_a_pod_goes_where_those_it_must_be_near_are() -> None:
    near = labelled("web", near=[term("db")])
    assert found(near, labelled("db", "x", on="a1")) == {"a1": (), "a2": (), "b1": (NOT_NEAR,), "n": (NOT_NEAR,)}


def test_all_terms_must_be_met_by_the_same_pods() -> None:
    near = labelled("web", near=[term("db"), term("cache")])
    assert set(found(near, labelled("db", "x", on="a1"), labelled("cache", "y", on="a1")).values()) == {(NOT_NEAR,)}


def test_the_first_of_a_group_that_wants_to_be_together_goes_anywhere_with_the_label() -> None:
    together = labelled("web", near=[term("web")])
    assert found(together) == {"a1": (), "a2": (), "b1": (), "n": (NOT_NEAR,)}
    assert found(together, labelled("web", "x", on="b1")) == {
        "a1": (NOT_NEAR,),
        "a2": (NOT_NEAR,),
        "b1": (),
        "n": (NOT_NEAR,),
    }


def test_a_pod_keeps_away_from_those_it_must_be_apart_from() -> None:
    apart = labelled("web", apart=[term("db")])
    assert found(apart, labelled("db", "x", on="a1")) == {"a1": (NOT_APART,), "a2": (NOT_APART,), "b1": (), "n": ()}


def test_a_pod_keeps_away_from_those_that_keep_apart_from_it() -> None:
    shy = labelled("db", "x", on="a1", apart=[term("web")])
    assert found(labelled("web"), shy) == {"a1": (NOT_WANTED,), "a2": (NOT_WANTED,), "b1": (), "n": ()}
    assert set(found(labelled("other"), shy).values()) == {()}


def test_only_anti_affinity_can_be_helped_by_preemption() -> None:
    snapshot = snapshot_of(*NODES, pods=[labelled("db", "x", on="a1")])
    one = plugin(InterPodAffinity)
    assert verdicts(one, labelled("web", apart=[term("db")]), snapshot)["a1"].code is Code.UNSCHEDULABLE
    assert verdicts(one, labelled("web", near=[term("db")]), snapshot)["b1"].code is Code.UNRESOLVABLE


@pytest.mark.parametrize(
    ("scope", "meant"),
    [
        ({}, {"default"}),
        ({"namespaces": ["other"]}, {"other"}),
        ({"namespaceSelector": {}}, {"default", "other"}),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {"other"}),
        ({"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "a"}}}, {"default", "other"}),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, set()),
    ],
)
def test_whose_pods_a_term_means(scope: dict[str, Any], meant: set[str]) -> None:
    for namespace in ("default", "other"):
        there = labelled("db", "x", on="a1")
        there["metadata"]["namespace"] = namespace
        snapshot = snapshot_of(*NODES, pods=[there])
        snapshot.set_namespace({"metadata": {"name": "other", "labels": {"team": "a"}}})
        verdict = verdicts(plugin(InterPodAffinity), labelled("web", apart=[term("db", **scope)]), snapshot)["a1"]
        assert verdict.rejected == (namespace in meant)


def test_a_namespace_that_was_never_shown_is_known_by_its_name() -> None:
    snapshot = snapshot_of(*NODES, pods=[labelled("db", "x", on="a1")])
    by_name: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
    assert verdicts(plugin(InterPodAffinity), labelled("web", apart=[term("db", **by_name)]), snapshot)["a1"].rejected


def test_a_pod_there_whose_terms_make_no_sense_is_no_trouble_for_others() -> None:
    odd = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    assert set(found(labelled("web"), labelled("db", "x", on="a1", apart=[odd])).values()) == {()}


# The score


def scored(raw: dict[str, Any], *there: dict[str, Any], **args: Any) -> list[int]:
    return scores(plugin(InterPodAffinity, **args), raw, *NODES, pods=there)


def test_preferences_add_up_and_are_spread_over_0_to_100() -> None:
    # a: 30 - 10 = 20, b: -10, elsewhere 0. (20+10)/30, 0, 10/30.
    wishes = labelled("web", likes=[(30, term("db"))], dislikes=[(10, term("cache"))])
    there = [labelled("db", "x", on="a1"), labelled("cache", "y", on="a2"), labelled("cache", "z", on="b1")]
    assert scored(wishes, *there) == [100, 100, 0, 33]


def test_what_pods_there_prefer_counts_for_the_one_that_comes() -> None:
    assert scored(labelled("web"), labelled("db", "x", on="a1", likes=[(5, term("web"))])) == [100, 100, 0, 0]
    assert scored(labelled("web"), labelled("db", "x", on="a1", dislikes=[(5, term("web"))])) == [0, 0, 100, 100]


def test_what_pods_there_require_counts_by_the_weight_of_the_arguments() -> None:
    there = [labelled("db", "x", on="a1", near=[term("web")]), labelled("db", "y", on="b1", likes=[(2, term("web"))])]
    assert scored(labelled("web"), *there) == [50, 50, 100, 0]
    assert scored(labelled("web"), *there, hardPodAffinityWeight=4) == [100, 100, 50, 0]


def test_a_pod_that_nothing_concerns_is_left_to_other_plugins() -> None:
    there = labelled("db", "x", on="a1", likes=[(5, term("web"))])
    snapshot = snapshot_of(*NODES, pods=[there])
    quiet = plugin(InterPodAffinity, ignorePreferredTermsOfExistingPods=True)
    for one, app, verdict in ((plugin(InterPodAffinity), "other", SKIP), (quiet, "web", SKIP)):
        assert one.pre_score(CycleState(), PodInfo(labelled(app)), snapshot, snapshot.rows) == verdict
    assert plugin(InterPodAffinity).pre_filter(CycleState(), PodInfo(labelled("x")), snapshot).verdict == SKIP


# Against a plain walk


def plain_match(owner: PodInfo, entry: Mapping[str, Any], other: PodInfo, snapshot: Snapshot) -> bool:
    """Whether a term of `owner` means `other`."""
    picked, named = entry.get("namespaceSelector"), entry.get("namespaces") or []
    own = picked is None and not named and other.namespace == owner.namespace
    by_label = Selector.of(picked).matches(snapshot.namespace_labels(other.namespace))
    return (own or other.namespace in named or by_label) and Selector.of(entry["labelSelector"]).matches(other.labels)


def rules(one: PodInfo, kind: str, strength: str) -> list[Any]:
    return list((one.spec["affinity"].get(kind) or {}).get(strength) or [])


def everyone(nodes: list[NodeInfo]) -> Iterator[tuple[NodeInfo, PodInfo]]:
    for each in nodes:
        for other in each.pods.values():
            yield each, other


@settings(max_examples=100, deadline=None)
@given(clusters(), pods())
def test_filter_as_by_a_plain_walk(snapshot: Snapshot, raw: dict[str, Any]) -> None:
    info, nodes = PodInfo(raw), list(snapshot.nodes(snapshot.rows))
    near, apart = rules(info, "podAffinity", REQUIRED), rules(info, "podAntiAffinity", REQUIRED)
    meant = [
        (at, other)
        for at, other in everyone(nodes)
        if near and all(plain_match(info, e, other, snapshot) for e in near)
    ]
    anybody = any(entry["topologyKey"] in at.labels for at, _ in meant for entry in near)
    itself = all(plain_match(info, entry, info, snapshot) for entry in near)

    def same(entry: Mapping[str, Any], here: NodeInfo, there: NodeInfo) -> bool:
        key = entry["topologyKey"]
        return key in here.labels and here.labels[key] == there.labels.get(key)

    def expected(here: NodeInfo) -> tuple[str, ...]:
        lacking = any(entry["topologyKey"] not in here.labels for entry in near)
        met = all(any(same(entry, here, at) for at, _ in meant) for entry in near)
        if lacking or not (met or (not anybody and itself)):
            return (NOT_NEAR,)
        for at, other in everyone(nodes):
            if any(same(entry, here, at) and plain_match(info, entry, other, snapshot) for entry in apart):
                return (NOT_APART,)
        for at, other in everyone(nodes):
            theirs = rules(other, "podAntiAffinity", REQUIRED)
            if any(same(entry, here, at) and plain_match(other, entry, info, snapshot) for entry in theirs):
                return (NOT_WANTED,)
        return ()

    judged = verdicts(plugin(InterPodAffinity), raw, snapshot)
    assert {name: verdict.reasons for name, verdict in judged.items()} == {each.name: expected(each) for each in nodes}
    assert all((verdict == SUCCESS) == (not verdict.reasons) for verdict in judged.values())


@settings(max_examples=100, deadline=None)
@given(clusters(), pods())
def test_score_as_by_a_plain_walk(snapshot: Snapshot, raw: dict[str, Any]) -> None:
    info, nodes = PodInfo(raw), list(snapshot.nodes(snapshot.rows))
    sums: Counter[tuple[str, str]] = Counter()
    for at, other in everyone(nodes):
        weighted = [
            (entry["podAffinityTerm"], entry["weight"] * sign, owner, about)
            for owner, about in ((info, other), (other, info))
            for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
            for entry in rules(owner, kind, PREFERRED)
        ]
        weighted += [(entry, 1, other, info) for entry in rules(other, "podAffinity", REQUIRED)]
        for entry, weight, owner, about in weighted:
            key = entry["topologyKey"]
            if key in at.labels and plain_match(owner, entry, about, snapshot):
                sums[key, at.labels[key]] += weight
    expected = [sum(sums[pair] for pair in each.labels.items()) for each in nodes]
    one, state = plugin(InterPodAffinity), CycleState()
    skipped = one.pre_score(state, info, snapshot, snapshot.rows) == SKIP
    assert one.score_batch(state, info, snapshot, snapshot.rows).tolist() == expected
    assert not (skipped and any(expected))


def test_equal_scores_normalize_to_nothing() -> None:
    one, info = plugin(InterPodAffinity), PodInfo(pod())
    assert one.normalize(CycleState(), info, np.array([-7, -7])).tolist() == [0, 0]
    assert one.normalize(CycleState(), info, np.array([-4, -1, 2])).tolist() == [0, 50, 100]
