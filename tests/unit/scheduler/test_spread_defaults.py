"""PodTopologySpread for pods without constraints: the defaults, and which pods they count."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from konverge.errors import InvalidPluginArgs
from konverge.model.resource import Object
from konverge.scheduler.framework import SKIP, CycleState, Score
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.pod_topology_spread import UNEVEN, PodTopologySpread
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.registry import Registry
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.workloads import selector_of
from tests.unit.scheduler.clusters import node, pod, snapshot_of
from tests.unit.scheduler.storage import HOST, ZONE, Storage, made, reasons

LIST = "List"


def labelled(name: str = "p", *, on: str = "", owner: Object | None = None, **labels: str) -> dict[str, Any]:
    raw = pod(name, on=on)
    raw["metadata"]["labels"] = labels
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        raw["metadata"]["ownerReferences"] = [{**reference, "uid": "u", "controller": True}]
    return raw


def service(name: str = "web", namespace: str = "default", **selector: str) -> Object:
    return made("Service", name, namespace, spec={"selector": selector} if selector else {})


def replica_set(name: str = "web-1", kind: str = "ReplicaSet", **selector: str) -> Object:
    return made(kind, name, "default", spec={"selector": {"matchLabels": selector}})


def spread_of(raw: Object, *objects: Object) -> str:
    return str(selector_of(PodInfo(raw), Storage(*objects).lister))


# Which pods belong together


def test_a_pod_belongs_with_those_that_its_services_select() -> None:
    raw = labelled(app="web", tier="front", version="7")
    services = [service("a", app="web"), service("b", tier="front"), service("c", app="db"), service("none")]
    assert spread_of(raw, *services) == "app=web,tier=front"
    assert spread_of(raw, service(namespace="other", app="web")) == ""


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_pod_belongs_with_those_of_its_controller(kind: str) -> None:
    owner = replica_set(kind=kind, app="web", hash="1")
    assert spread_of(labelled(owner=owner, app="web", hash="1"), owner) == "app=web,hash=1"
    assert spread_of(labelled(owner=owner, app="web", hash="1")) == ""


def test_a_replication_controller_selects_by_plain_labels() -> None:
    owner = made("ReplicationController", "web", "default", spec={"selector": {"app": "web"}})
    assert spread_of(labelled(owner=owner, app="web"), owner, service(tier="front")) == "app=web"


def test_services_and_controller_are_joined() -> None:
    owner = replica_set(app="web", hash="1")
    assert spread_of(labelled(owner=owner, app="web", hash="1"), owner, service(app="web")) == "app=web,app=web,hash=1"


def test_other_owners_keep_no_pods_alike() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    assert spread_of(labelled(owner=job, app="web")) == ""


# The defaults

WEB = service(app="web")
NODES = [node("a1", labels={ZONE: "a"}), node("a2", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]


def scored(raw: Object, snapshot: Snapshot, *objects: Object, **args: Any) -> list[int]:
    """The normalised scores, by the batch method."""
    one, state, info = Storage(*objects).plugin(PodTopologySpread, **args), CycleState(), PodInfo(raw)
    assert one.pre_score(state, info, snapshot, snapshot.rows) != SKIP
    found: list[int] = one.normalize(state, info, one.score_batch(state, info, snapshot, snapshot.rows)).tolist()
    return found


def test_pods_of_a_service_are_spread_over_nodes_and_zones() -> None:
    snapshot = snapshot_of(*NODES, pods=[labelled("x", on="a1", app="web")])
    # Hostname weighs ln 5 = 1.609 and adds 2, zone weighs ln 4 = 1.386 and adds 4: 6 + 2.995 = 9, 6 + 1.386 = 7, and 6.
    assert scored(labelled(app="web"), snapshot, WEB) == [100 * (9 + 6 - 9) // 9, 100 * (9 + 6 - 7) // 9, 100]


def test_pods_that_belong_to_nothing_are_left_to_other_plugins() -> None:
    snapshot = snapshot_of(*NODES)
    one = Storage(WEB).plugin(PodTopologySpread)
    assert one.pre_score(CycleState(), PodInfo(labelled(app="db")), snapshot, snapshot.rows) == SKIP


def test_own_constraints_take_the_place_of_all_defaults() -> None:
    raw = labelled(app="web")
    hard = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    raw["spec"]["topologySpreadConstraints"] = [hard]
    snapshot = snapshot_of(*NODES)
    one = Storage(WEB).plugin(PodTopologySpread)
    assert one.pre_score(CycleState(), PodInfo(raw), snapshot, snapshot.rows) == SKIP


def test_nodes_without_a_zone_are_still_spread_by_name() -> None:
    snapshot = snapshot_of(node("x"), node("y"), pods=[labelled("p1", on="x", app="web")])
    assert scored(labelled(app="web"), snapshot, WEB) == [66, 100]


def test_the_list_of_a_profile_takes_the_place_of_the_systems_defaults() -> None:
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    one = Storage(WEB).plugin(PodTopologySpread, defaultingType=LIST, defaultConstraints=[constraint])
    snapshot = snapshot_of(*NODES, pods=[labelled("x", on="a1", app="web")])
    assert reasons(one, labelled(app="web"), snapshot) == {"a1": (UNEVEN,), "a2": (UNEVEN,), "b1": ()}
    assert one.pre_score(CycleState(), PodInfo(labelled(app="web")), snapshot, snapshot.rows) == SKIP


def test_an_empty_list_is_no_default_at_all() -> None:
    snapshot = snapshot_of(*NODES)
    one = Storage(WEB).plugin(PodTopologySpread, defaultingType=LIST)
    assert one.pre_score(CycleState(), PodInfo(labelled(app="web")), snapshot, snapshot.rows) == SKIP


def test_with_a_list_nodes_that_lack_a_key_are_not_scored() -> None:
    soft = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    snapshot = snapshot_of(*NODES, node("n"))
    args = {"defaultingType": LIST, "defaultConstraints": [soft]}
    assert scored(labelled(app="web"), snapshot, WEB, **args) == [100, 100, 100, 0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"defaultConstraints": [{"topologyKey": "x", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]}, "List"),
        ({"defaultingType": "Other"}, "'System' or 'List'"),
        (
            {
                "defaultingType": LIST,
                "defaultConstraints": 2 * [{"topologyKey": "x", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
            },
            "topologyKey twice",
        ),
        (
            {
                "defaultingType": LIST,
                "defaultConstraints": [{"topologyKey": "a b", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
            },
            "cannot be a label's key",
        ),
        (
            {
                "defaultingType": LIST,
                "defaultConstraints": [{"topologyKey": "x", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}],
            },
            "greater than or equal to 1",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(args: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPluginArgs, match=words):
        Registry.default().check_args("PodTopologySpread", args)


# Against a plain count


def plain(info: PodInfo, nodes: list[NodeInfo]) -> list[int]:
    """kube-scheduler's sums: a node without a zone is in the zone whose name is empty, and scores nothing for it."""

    def matching(each: NodeInfo) -> int:
        return sum(other.labels.get("app") == info.labels["app"] for other in each.pods.values())

    zones: dict[str, int] = {}
    for each in nodes:
        name = each.labels.get(ZONE, "")
        zones[name] = zones.get(name, 0) + matching(each)
    result = []
    for each in nodes:
        total = 0.0
        if HOST in each.labels:
            total += matching(each) * math.log(len(nodes) + 2) + 2
        if ZONE in each.labels:
            total += zones[each.labels[ZONE]] * math.log(len(zones) + 2) + 4
        result.append(math.floor(total + 0.5))
    return result


places = st.lists(st.sampled_from([None, "", "a", "b", "c"]), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(places, st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["web", "db"])), max_size=8))
def test_the_systems_defaults_by_a_plain_count(zones: list[str | None], there: list[tuple[int, str]]) -> None:
    labels: list[dict[str, str]] = [{} if zone is None else {ZONE: zone} for zone in zones]
    nodes = [node(f"n{index}", labels=each) for index, each in enumerate(labels)]
    pods = [labelled(f"x{index}", on=f"n{at}", app=app) for index, (at, app) in enumerate(there) if at < len(nodes)]
    snapshot, info, state = snapshot_of(*nodes, pods=pods), PodInfo(labelled(app="web")), CycleState()
    one = Storage(WEB).plugin(PodTopologySpread)
    one.pre_score(state, info, snapshot, snapshot.rows)
    found = one.score_batch(state, info, snapshot, snapshot.rows)
    assert found.tolist() == plain(info, list(snapshot.nodes(snapshot.rows)))
    assert np.array_equal(found, Score.score_batch(one, state, info, snapshot, snapshot.rows))
