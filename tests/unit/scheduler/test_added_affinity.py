"""NodeAffinity's argument addedAffinity: what all pods of a profile have besides their own."""

from typing import Any

import pytest

from konverge.errors import InvalidPluginArgs
from konverge.scheduler.framework import SKIP, Code, CycleState
from konverge.scheduler.plugins.node_affinity import NO_MATCH, NOT_ENFORCED, NodeAffinity
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.registry import Registry
from tests.unit.scheduler.clusters import node, plugin, pod, scores, snapshot_of, verdicts
from tests.unit.scheduler.test_batches import compare

REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
NODES = [node("ssd", labels={"disk": "ssd"}), node("hdd", labels={"disk": "hdd"}), node("none")]


def term(key: str = "disk", operator: str = "In", values: tuple[str, ...] = ("ssd",)) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def requiring(*terms: dict[str, Any]) -> NodeAffinity:
    return plugin(NodeAffinity, addedAffinity={REQUIRED: {"nodeSelectorTerms": terms}})


def test_nodes_outside_are_no_use_to_any_pod_of_the_profile() -> None:
    found = verdicts(requiring(term()), pod(), snapshot_of(*NODES))
    assert {name: verdict.reasons for name, verdict in found.items()} == {
        "ssd": (),
        "hdd": (NOT_ENFORCED,),
        "none": (NOT_ENFORCED,),
    }
    assert found["hdd"].code is Code.UNRESOLVABLE


def test_the_pods_own_must_match_too() -> None:
    raw = pod(spec={"nodeSelector": {"disk": "hdd"}})
    found = verdicts(requiring(term(), term(values=("hdd",))), raw, snapshot_of(*NODES))
    assert {name: verdict.reasons for name, verdict in found.items()} == {
        "ssd": (NO_MATCH,),
        "hdd": (),
        "none": (NOT_ENFORCED,),
    }


def test_no_term_at_all_matches_nothing() -> None:
    found = verdicts(requiring(), pod(), snapshot_of(*NODES))
    assert {verdict.reasons for verdict in found.values()} == {(NOT_ENFORCED,)}


@pytest.mark.parametrize("selector", [{}, {"disk": "hdd"}])
def test_the_batch_form_agrees(selector: dict[str, str]) -> None:
    snapshot = snapshot_of(*NODES)
    compare(
        requiring(term("disk", "Exists", ())), PodInfo(pod(spec={"nodeSelector": selector})), snapshot, snapshot.rows
    )


def test_added_preferences_count_with_the_pods_own() -> None:
    added = {PREFERRED: [{"weight": 30, "preference": term()}]}
    one = plugin(NodeAffinity, addedAffinity=added)
    assert scores(one, pod(), *NODES) == [100, 0, 0]
    own = {"nodeAffinity": {PREFERRED: [{"weight": 60, "preference": term(values=("hdd",))}]}}
    assert scores(one, pod(spec={"affinity": own}), *NODES) == [50, 100, 0]


def test_without_it_a_pod_that_asks_for_nothing_is_left_to_other_plugins() -> None:
    snapshot = snapshot_of(*NODES)
    assert plugin(NodeAffinity).pre_filter(CycleState(), PodInfo(pod()), snapshot).verdict == SKIP


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ({REQUIRED: {"nodeSelectorTerms": [term(operator="Near")]}}, "is no requirement on nodes"),
        ({REQUIRED: {"nodeSelectorTerms": [term(operator="Exists")]}}, "is no requirement on nodes"),
        ({REQUIRED: {"terms": []}}, "nodeSelectorTerms"),
        ({PREFERRED: [{"weight": 0, "preference": term()}]}, "greater than or equal to 1"),
        ({"required": {}}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_used_is_refused(added: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPluginArgs, match=words):
        Registry.default().check_args("NodeAffinity", {"addedAffinity": added})
