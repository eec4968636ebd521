"""VolumeBinding: where a pod's claims let it go, what is promised to it, and what is written on the way to its node."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from konverge.model.resource import Object, PersistentVolume
from konverge.scheduler.framework import SKIP, SUCCESS, Code, CycleState
from konverge.scheduler.plugins.volume_binding import UNBOUND, VolumeBinding
from konverge.scheduler.plugins.volume_matching import BIND_CONFLICT, NO_SPACE, NO_VOLUME, NODE_CONFLICT
from konverge.scheduler.podinfo import PodInfo
from tests.unit.scheduler.clusters import node, pod, snapshot_of
from tests.unit.scheduler.storage import (
    HOST,
    ZONE,
    Storage,
    capacity,
    claim,
    driver,
    reasons,
    storage_class,
    user,
    volume,
    whole,
)

SELECTED = "volume.kubernetes.io/selected-node"
NODES = [node("a1", labels={ZONE: "a"}), node("a2", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]
IN_A, IN_B = {ZONE: ["a"]}, {ZONE: ["b"]}


def against(raw: Object, *objects: Object) -> dict[str, tuple[str, ...]]:
    """The reasons against the nodes that have any."""
    found = reasons(Storage(*objects).plugin(VolumeBinding), raw, snapshot_of(*NODES))
    return {name: why for name, why in found.items() if why}


def refusal(raw: Object, *objects: Object) -> str:
    verdict = whole(Storage(*objects).plugin(VolumeBinding), raw)
    assert verdict.code is Code.UNRESOLVABLE
    return verdict.reasons[0]


# The pod as a whole


def test_a_pod_without_claims_is_left_to_other_plugins() -> None:
    assert whole(Storage().plugin(VolumeBinding), pod(spec={"volumes": [{"name": "tmp", "emptyDir": {}}]})) == SKIP


def test_a_claim_that_is_missing_lost_or_going_away_turns_the_pod_away() -> None:
    assert refusal(user("data")) == 'persistentvolumeclaim "data" not found'
    lost = claim(volume="gone", phase="Lost")
    assert refusal(user("data"), lost) == 'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"'
    going = claim()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert refusal(user("data"), going) == 'persistentvolumeclaim "data" is being deleted'


@pytest.mark.parametrize(
    ("mode", "details"),
    [
        ("Immediate", {}),
        ("WaitForFirstConsumer", {"spec": {"volumeName": "promised"}}),
        ("WaitForFirstConsumer", {"storage": "unknown"}),
        ("WaitForFirstConsumer", {"storage": ""}),
    ],
)
def test_a_claim_that_does_not_wait_for_its_pod_must_be_bound_already(mode: str, details: dict[str, Any]) -> None:
    assert refusal(user("data"), storage_class(mode=mode), claim(**details)) == UNBOUND


def test_the_claim_of_an_ephemeral_volume_is_made_for_the_pod_and_must_be_its_own() -> None:
    raw = pod(spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    message = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert refusal(raw) == message
    foreign = claim("p-scratch")
    assert refusal(raw, foreign) == "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    assert against(raw, storage_class(), claim("p-scratch", ownerReferences=[owner])) == {}


# Bound claims


def test_a_bound_volume_takes_the_pod_to_the_nodes_that_reach_it() -> None:
    assert against(user("data"), claim(volume="v"), volume("v", on=IN_A)) == {"b1": (NODE_CONFLICT,)}
    assert against(user("data"), claim(volume="v"), volume("v")) == {}


def test_a_bound_volume_that_is_not_there_is_nowhere() -> None:
    assert against(user("data"), claim(volume="v")) == dict.fromkeys(("a1", "a2", "b1"), (NO_VOLUME,))


# Claims that wait: volumes that are there


STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")


def test_a_waiting_claim_needs_a_free_volume_where_its_class_makes_none() -> None:
    assert against(user("data"), STATIC, claim(), volume("v", on=IN_B)) == dict.fromkeys(("a1", "a2"), (BIND_CONFLICT,))
    assert against(user("data"), STATIC, claim()).keys() == {"a1", "a2", "b1"}


@pytest.mark.parametrize(
    "unfit",
    [
        {"size": "900Mi"},
        {"storage": "other"},
        {"modes": ("ReadOnlyMany",)},
        {"phase": "Released"},
        {"meant_for": "another"},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold"},
    ],
)
def test_a_volume_that_does_not_fit_the_claim_is_none(unfit: dict[str, Any]) -> None:
    assert len(against(user("data"), STATIC, claim(), volume("v", **unfit))) == 3
    assert against(user("data"), STATIC, claim(), volume("v", **unfit), volume("w")) == {}


def test_a_claim_may_select_its_volume_by_labels() -> None:
    picky = claim(spec={"selector": {"matchLabels": {"tier": "fast"}}})
    assert len(against(user("data"), STATIC, picky, volume("v"))) == 3
    assert against(user("data"), STATIC, picky, volume("v", labels={"tier": "fast"})) == {}


def test_a_volume_that_a_person_promised_to_the_claim_is_the_only_one() -> None:
    promised = volume("v", on=IN_A, meant_for="data")
    assert against(user("data"), STATIC, claim(), promised, volume("w")) == {"b1": (BIND_CONFLICT,)}


def test_two_claims_need_two_volumes() -> None:
    two = (STATIC, claim("small"), claim("large", "5Gi"))
    only_large = (volume("v", "9Gi", on=IN_A), volume("w", "9Gi", on=IN_B))
    assert len(against(user("large", "small"), *two, *only_large)) == 3
    both = (*only_large, volume("x", "2Gi", on=IN_B))
    assert against(user("large", "small"), *two, *both).keys() == {"a1", "a2"}


# Claims that wait: volumes that are to be made


def test_a_class_with_a_provisioner_makes_volumes_where_its_topologies_allow() -> None:
    assert against(user("data"), storage_class(), claim()) == {}
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
    narrow = storage_class(allowedTopologies=topology)
    assert against(user("data"), narrow, claim()) == dict.fromkeys(("a1", "a2"), (BIND_CONFLICT,))


def test_a_claim_whose_volume_is_being_made_for_a_node_goes_there() -> None:
    underway = claim(annotations={SELECTED: "a2"})
    assert against(user("data"), storage_class(), underway, volume("v")).keys() == {"a1", "b1"}


def test_a_driver_that_tracks_its_capacity_needs_room() -> None:
    parts = (storage_class(), claim(size="5Gi"), driver())
    assert against(user("data"), *parts) == dict.fromkeys(("a1", "a2", "b1"), (NO_SPACE,))
    tight = capacity("in-a", "4Gi", {ZONE: "a"})
    assert against(user("data"), *parts, tight, capacity("on-b1", "5Gi", {HOST: "b1"})).keys() == {"a1", "a2"}
    assert against(user("data"), *parts[:2], driver(tracks=False)) == {}


def test_all_that_is_wrong_with_a_node_is_said() -> None:
    parts = (claim("old", volume="v"), volume("v", on=IN_A), STATIC, claim("new"))
    assert against(user("old", "new"), *parts)["b1"] == (NODE_CONFLICT, BIND_CONFLICT)


# On the way to the node


class Way:
    """One pod on its way to a node, and what the server shows."""

    def __init__(self, node_name: str, raw: Object, *objects: Object, timeout: int = 600) -> None:
        self.storage = Storage(*objects)
        self.one = self.storage.plugin(VolumeBinding, bindTimeoutSeconds=timeout)
        self.node_name, self.pod, self.state = node_name, PodInfo(raw), CycleState()
        snapshot = snapshot_of(*NODES)
        assert self.one.pre_filter(self.state, self.pod, snapshot).verdict == SUCCESS
        assert self.one.reserve(self.state, self.pod, node_name) == SUCCESS


def spec_of(found: Object | None) -> Mapping[str, Any]:
    assert found is not None
    return found["spec"]  # type: ignore[no-any-return]


def test_a_reserved_volume_is_no_other_pods_until_it_is_given_back() -> None:
    objects = (STATIC, claim("mine"), claim("yours"), volume("v", on=IN_A))
    way = Way("a1", user("mine"), *objects)
    snapshot = snapshot_of(*NODES)
    # Of any profile: another instance of the plugin.
    other = way.storage.plugin(VolumeBinding)
    assert len([why for why in reasons(other, user("yours"), snapshot).values() if why]) == 3
    assert spec_of(way.storage.lister.get(PersistentVolume, "v"))["claimRef"]["name"] == "mine"
    way.one.unreserve(way.state, way.pod, "a1")
    assert [name for name, why in reasons(other, user("yours"), snapshot).items() if why] == ["b1"]


def test_of_the_volumes_that_fit_the_smallest_is_taken() -> None:
    volumes = (volume("large", "9Gi"), volume("small", "2Gi"), volume("elsewhere", "1Gi", on=IN_B))
    way = Way("a1", user("data"), STATIC, claim(), *volumes)
    assert "claimRef" in spec_of(way.storage.lister.get(PersistentVolume, "small"))
    assert "claimRef" not in spec_of(way.storage.lister.get(PersistentVolume, "large"))


def test_a_claim_that_gets_a_new_volume_keeps_its_node_while_that_is_assumed() -> None:
    way = Way("b1", user("data"), storage_class(), claim())
    again = way.storage.plugin(VolumeBinding)
    assert [name for name, why in reasons(again, user("data"), snapshot_of(*NODES)).items() if why] == ["a1", "a2"]


def test_bound_claims_need_nothing_on_the_way() -> None:
    way = Way("a1", user("data"), claim(volume="v"), volume("v"))
    assert asyncio.run(way.one.pre_bind(way.state, way.pod, "a1")) == SKIP
