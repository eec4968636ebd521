"""PodTopologySpread: by hand, and against a plain count over nodes and pods, on random clusters."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from konverge.model.selectors import Selector
from konverge.scheduler.framework import SKIP, SUCCESS, Code, CycleState
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_affinity import Required
from konverge.scheduler.plugins.pod_topology_spread import NO_LABEL, UNEVEN, PodTopologySpread
from konverge.scheduler.plugins.taint_toleration import forbids
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import node, passing, plugin, pod, scores, snapshot_of, verdicts
from tests.unit.scheduler.test_batches import clusters, pods

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def web(name: str = "p", *, on: str = "", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    raw = pod(name, on=on, spec=spec)
    raw["metadata"]["labels"] = {"app": "web"} if labels is None else labels
    return raw


def spread(key: str = ZONE, skew: int = 1, *, soft: bool = False, **more: Any) -> dict[str, Any]:
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": WEB, **more}


def zoned(**zones: str) -> list[dict[str, Any]]:
    return [node(name, labels={ZONE: zone}) for name, zone in zones.items()]


def fitting(constraints: list[dict[str, Any]], nodes: list[Any], *there: dict[str, Any], **more: Any) -> set[str]:
    raw = web(topologySpreadConstraints=constraints, **more)
    return passing(plugin(PodTopologySpread), raw, *nodes, pods=there)


# The filter

THREE = zoned(a1="a", a2="a", b1="b")


def test_a_domain_may_hold_so_many_more_than_the_emptiest() -> None:
    there = [web("x", on="a1")]
    assert fitting([spread()], THREE, *there) == {"b1"}
    assert fitting([spread(skew=2)], THREE, *there) == {"a1", "a2", "b1"}


def test_a_key_that_no_node_has_leaves_the_pod_pending_for_good() -> None:
    """Replay 28."""
    raw = web(topologySpreadConstraints=[spread("rack")])
    found = verdicts(plugin(PodTopologySpread), raw, snapshot_of(*THREE))
    assert {(verdict.code, verdict.reasons) for verdict in found.values()} == {(Code.UNRESOLVABLE, (NO_LABEL,))}


def test_an_uneven_domain_is_a_reason_that_preemption_can_remove() -> None:
    raw = web(topologySpreadConstraints=[spread()])
    found = verdicts(plugin(PodTopologySpread), raw, snapshot_of(*THREE, pods=[web("x", on="a1")]))
    assert (found["a2"].code, found["a2"].reasons, found["b1"]) == (Code.UNSCHEDULABLE, (UNEVEN,), SUCCESS)


def test_only_pods_of_the_namespace_that_match_and_stay_are_counted() -> None:
    leaving, foreign, other = web("x", on="a1"), web("y", on="a1"), web("z", on="a1", labels={"app": "db"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    foreign["metadata"]["namespace"] = "other"
    assert fitting([spread()], THREE, leaving, foreign, other) == {"a1", "a2", "b1"}


def test_pods_that_leave_and_pods_that_stay_are_told_apart() -> None:
    leaving, staying = web("x", on="a1"), web("y", on="b1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert fitting([spread()], THREE, leaving, staying) == {"a1", "a2"}
    assert fitting([spread()], THREE, staying, leaving) == {"a1", "a2"}


def test_a_selector_that_requires_nothing_counts_nothing() -> None:
    everything = spread(labelSelector={})
    assert fitting([everything], THREE, web("x", on="a1")) == {"a1", "a2", "b1"}


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing() -> None:
    raw = web(labels={}, topologySpreadConstraints=[spread()])
    assert passing(plugin(PodTopologySpread), raw, *THREE, pods=[web("x", on="a1")]) == {"a1", "a2", "b1"}


def test_fewer_domains_than_wanted_count_as_an_empty_one() -> None:
    there = [web("x", on="a1"), web("y", on="b1")]
    assert fitting([spread()], THREE, *there) == {"a1", "a2", "b1"}
    assert fitting([spread(minDomains=3)], THREE, *there) == set()


def test_nodes_that_the_pods_affinity_rules_out_are_no_domains_unless_ignored() -> None:
    there = [web("x", on="a1")]
    only_a = {"nodeSelector": {ZONE: "a"}}
    assert fitting([spread()], THREE, *there, **only_a) >= {"a1", "a2"}
    assert fitting([spread(nodeAffinityPolicy="Ignore")], THREE, *there, **only_a) == {"b1"}


def test_tainted_nodes_are_domains_unless_taints_are_honoured() -> None:
    nodes = [*zoned(a1="a"), node("b1", labels={ZONE: "b"}, taints=["k=v:NoSchedule"])]
    there = [web("x", on="a1")]
    assert fitting([spread()], nodes, *there) == {"b1"}
    assert fitting([spread(nodeTaintsPolicy="Honor")], nodes, *there) == {"a1", "b1"}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values() -> None:
    there = [web("x", on="a1", labels={"app": "web", "version": "1"})]
    raw = web(labels={"app": "web", "version": "2"}, topologySpreadConstraints=[spread(matchLabelKeys=["version"])])
    assert passing(plugin(PodTopologySpread), raw, *THREE, pods=there) == {"a1", "a2", "b1"}


def test_all_constraints_must_hold() -> None:
    there = [web("x", on="b1")]
    assert fitting([spread(skew=9), spread(HOST)], THREE, *there) == {"a1", "a2"}
    assert fitting([spread(), spread(HOST)], THREE, *there, web("y", on="a1")) == {"a2"}


# The score


def scored(constraints: list[dict[str, Any]], nodes: list[Any], *there: dict[str, Any]) -> list[int]:
    return scores(plugin(PodTopologySpread), web(topologySpreadConstraints=constraints), *nodes, pods=there)


def test_fewer_matching_pods_are_better_and_the_emptiest_is_100() -> None:
    # Two domains weigh ln 4 = 1.386: a holds 2, so round(2.77) = 3; b round(0) = 0. 100 * (3 + 0 - 3) / 3 = 0.
    assert scored([spread(soft=True)], THREE, web("x", on="a1"), web("y", on="a2")) == [0, 0, 100]


def test_the_skew_that_is_allowed_waters_differences_down() -> None:
    # As before with 4 added: 7 and 4. 100 * (7 + 4 - 7) / 7 = 57.
    assert scored([spread(soft=True, skew=5)], THREE, web("x", on="a1"), web("y", on="a2")) == [57, 57, 100]


def test_a_node_that_lacks_a_key_scores_nothing_and_no_pods_at_all_score_100() -> None:
    assert scored([spread(soft=True)], [*THREE, node("n")]) == [100, 100, 100, 0]


def test_a_pod_without_soft_constraints_is_left_to_other_plugins() -> None:
    snapshot = snapshot_of(*THREE)
    hard = PodInfo(web(topologySpreadConstraints=[spread()]))
    assert plugin(PodTopologySpread).pre_score(CycleState(), hard, snapshot, snapshot.rows) == SKIP


# Against a plain count


def plain_count(pod: PodInfo, entry: dict[str, Any], node: NodeInfo) -> int:
    """The pods on one node that a constraint counts, one by one."""
    selector = Selector.of(entry["labelSelector"])
    wanted = {key: pod.labels[key] for key in entry.get("matchLabelKeys", ()) if key in pod.labels}
    if not (selector.requirements or wanted):
        return 0
    return sum(
        other.namespace == pod.namespace
        and not other.deleting
        and selector.matches(other.labels)
        and wanted.items() <= other.labels.items()
        for other in node.pods.values()
    )


def plain_domains(pod: PodInfo, entry: dict[str, Any], keys: set[str], nodes: list[NodeInfo]) -> dict[str, int]:
    """Pods by domain."""
    found: dict[str, int] = {}
    for each in nodes:
        excluded = entry.get("nodeAffinityPolicy", "Honor") == "Honor" and not Required.of(pod).matches(each)
        tainted = entry.get("nodeTaintsPolicy") == "Honor" and forbids(pod, each.taints)
        if keys <= each.labels.keys() and not excluded and not tainted:
            value = each.labels[entry["topologyKey"]]
            found[value] = found.get(value, 0) + plain_count(pod, entry, each)
    return found


def entries_of(pod: PodInfo, when: str) -> tuple[list[dict[str, Any]], set[str]]:
    entries = [one for one in pod.spec["topologySpreadConstraints"] if one["whenUnsatisfiable"] == when]
    return entries, {one["topologyKey"] for one in entries}


@settings(max_examples=100, deadline=None)
@given(clusters(), pods())
def test_filter_as_by_a_plain_count(snapshot: Snapshot, raw: dict[str, Any]) -> None:
    info, nodes = PodInfo(raw), list(snapshot.nodes(snapshot.rows))
    entries, keys = entries_of(info, "DoNotSchedule")
    domains = [plain_domains(info, entry, keys, nodes) for entry in entries]

    def expected(each: NodeInfo) -> bool:
        for entry, counts in zip(entries, domains, strict=True):
            if entry["topologyKey"] not in each.labels:
                return False
            enough = counts and len(counts) >= entry.get("minDomains", 1)
            itself = Selector.of(entry["labelSelector"]).matches(info.labels)
            fewest = min(counts.values()) if enough else 0
            if counts.get(each.labels[entry["topologyKey"]], 0) + itself - fewest > entry["maxSkew"]:
                return False
        return True

    found = verdicts(plugin(PodTopologySpread), raw, snapshot)
    assert {name: verdict == SUCCESS for name, verdict in found.items()} == {
        each.name: expected(each) for each in nodes
    }


@settings(max_examples=100, deadline=None)
@given(clusters(), pods())
def test_score_as_by_a_plain_count(snapshot: Snapshot, raw: dict[str, Any]) -> None:
    info, nodes = PodInfo(raw), list(snapshot.nodes(snapshot.rows))
    entries, keys = entries_of(info, "ScheduleAnyway")
    one, state = plugin(PodTopologySpread), CycleState()
    if one.pre_score(state, info, snapshot, snapshot.rows) == SKIP:
        assert not entries
        return
    judged = [each for each in nodes if keys <= each.labels.keys()]
    expected = dict.fromkeys((each.name for each in nodes), 0)
    for each in judged:
        total = 0.0
        for entry in entries:
            key = entry["topologyKey"]
            if key == HOST:
                count, size = plain_count(info, entry, each), len(judged)
            else:
                count = plain_domains(info, entry, keys, nodes).get(each.labels[key], 0)
                size = len({other.labels[key] for other in judged})
            total += count * math.log(size + 2) + entry["maxSkew"] - 1
        expected[each.name] = math.floor(total + 0.5)
    found = one.score_batch(state, info, snapshot, snapshot.rows)
    assert dict(zip((each.name for each in nodes), found.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("raw", "normal"), [([3, 0, 1], [0, 100, 66]), ([0, 0, 0], [100, 100, 100])])
def test_normalizing(raw: list[int], normal: list[int]) -> None:
    snapshot, state = snapshot_of(*THREE), CycleState()
    info, one = PodInfo(web(topologySpreadConstraints=[spread(soft=True)])), plugin(PodTopologySpread)
    one.pre_score(state, info, snapshot, snapshot.rows)
    assert one.normalize(state, info, np.array(raw, dtype=np.int64)).tolist() == normal
