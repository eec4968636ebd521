"""VolumeZone, VolumeRestrictions and NodeVolumeLimits, by hand."""

from typing import Any

import pytest

from konverge.model.resource import Object
from konverge.scheduler.framework import SKIP, Code
from konverge.scheduler.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from konverge.scheduler.plugins.volume_restrictions import DISK_CONFLICT, IN_USE, VolumeRestrictions
from konverge.scheduler.plugins.volume_zone import CONFLICT, NO_CLASS, NO_NAME, VolumeZone
from tests.unit.scheduler.clusters import node, pod, snapshot_of
from tests.unit.scheduler.storage import (
    ZONE,
    Storage,
    attachment,
    claim,
    csi_node,
    reasons,
    storage_class,
    user,
    volume,
    whole,
)

BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


# VolumeZone


def outside(labels: dict[str, str], *nodes: dict[str, str]) -> list[bool]:
    """Which nodes with such labels are turned away for a volume with `labels`."""
    storage = Storage(claim(volume="v"), volume("v", labels=labels))
    snapshot = snapshot_of(*(node(f"n{index}", labels=each) for index, each in enumerate(nodes)))
    found = reasons(storage.plugin(VolumeZone), user("data"), snapshot)
    return [found[f"n{index}"] == (CONFLICT,) for index in range(len(nodes))]


def test_a_volume_takes_the_pod_to_its_zone_and_region() -> None:
    nodes: list[dict[str, str]] = [{ZONE: "a", REGION: "r"}, {ZONE: "b", REGION: "r"}, {ZONE: "a"}]
    assert outside({ZONE: "a"}, *nodes) == [False, True, False]
    assert outside({ZONE: "a", REGION: "r"}, *nodes) == [False, True, True]


def test_a_volume_may_be_in_several_zones() -> None:
    assert outside({ZONE: "a__b"}, {ZONE: "a"}, {ZONE: "b"}, {ZONE: "c"}) == [False, False, True]


def test_a_label_that_cannot_be_read_says_nothing() -> None:
    storage = Storage(claim(volume="v"), volume("v", labels={ZONE: "a__"}))
    assert whole(storage.plugin(VolumeZone), user("data")) == SKIP


def test_a_node_that_says_nothing_of_zones_is_in_the_only_one() -> None:
    assert outside({ZONE: "a"}, {}, {"disk": "ssd"}) == [False, False]


def test_the_old_name_of_the_label_matches_the_new_one_on_nodes() -> None:
    assert outside({BETA: "a"}, {ZONE: "a"}, {ZONE: "b"}, {BETA: "a", ZONE: "b"}) == [False, True, False]


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), 'persistentvolumeclaim "data" not found'),
        ((claim(volume="v"),), 'persistentvolume "v" not found'),
        ((claim(storage=""),), NO_CLASS),
        ((claim(),), 'storageclass.storage.k8s.io "late" not found'),
        ((claim(), storage_class(mode="Immediate")), NO_NAME),
    ],
)
def test_what_is_missing_turns_the_pod_away(objects: tuple[Object, ...], message: str) -> None:
    verdict = whole(Storage(*objects).plugin(VolumeZone), user("data"))
    assert (verdict.code, verdict.reasons) == (Code.UNRESOLVABLE, (message,))


def test_a_claim_that_waits_for_its_pod_has_no_zone_yet() -> None:
    assert whole(Storage(claim(), storage_class()).plugin(VolumeZone), user("data")) == SKIP


# VolumeRestrictions


def test_a_claim_for_one_pod_is_for_one_in_the_cluster() -> None:
    alone = claim(modes=("ReadWriteOncePod",))
    snapshot = snapshot_of(node("n1"), node("n2"), pods=[user("data", name="first", on="n1")])
    one = Storage(alone).plugin(VolumeRestrictions)
    assert reasons(one, user("data"), snapshot) == {"n1": (IN_USE,), "n2": (IN_USE,)}
    snapshot.forget("first")
    assert whole(one, user("data"), snapshot) == SKIP


def test_other_claims_may_be_shared() -> None:
    snapshot = snapshot_of(node("n1"), pods=[user("data", name="first", on="n1")])
    assert whole(Storage(claim()).plugin(VolumeRestrictions), user("data"), snapshot) == SKIP


def test_a_missing_claim_turns_the_pod_away() -> None:
    verdict = whole(Storage().plugin(VolumeRestrictions), user("data"))
    assert (verdict.code, verdict.reasons) == (Code.UNRESOLVABLE, ('persistentvolumeclaim "data" not found',))


GCE = {"gcePersistentDisk": {"pdName": "disk"}}
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
ISCSI = {"iscsi": {"iqn": "iqn.x", "targetPortal": "t", "lun": 0}}
RBD = {"rbd": {"monitors": ["m1", "m2"], "pool": "rbd", "image": "i"}}


def read_only(disk: dict[str, dict[str, Any]], **changes: Any) -> dict[str, Any]:
    ((kind, source),) = disk.items()
    return {kind: {**source, "readOnly": True, **changes}}


@pytest.mark.parametrize(
    ("wanted", "there", "excluded"),
    [
        (GCE, GCE, True),
        (GCE, read_only(GCE), True),
        (read_only(GCE), read_only(GCE), False),
        (GCE, {"gcePersistentDisk": {"pdName": "other"}}, False),
        (EBS, EBS, True),
        (read_only(EBS), read_only(EBS), True),
        (ISCSI, ISCSI, True),
        (read_only(ISCSI), read_only(ISCSI), False),
        (RBD, read_only(RBD, monitors=["m2"]), True),
        (RBD, read_only(RBD, monitors=["m3"]), False),
        (RBD, read_only(RBD, image="j"), False),
        (read_only(RBD), read_only(RBD), False),
        (GCE, EBS, False),
    ],
)
def test_a_disk_that_a_pod_names_itself(wanted: dict[str, Any], there: dict[str, Any], excluded: bool) -> None:
    holder = pod("holder", on="n1", spec={"volumes": [{"name": "v", **there}]})
    snapshot = snapshot_of(node("n1"), node("n2"), pods=[holder])
    found = reasons(Storage().plugin(VolumeRestrictions), pod(spec={"volumes": [{"name": "v", **wanted}]}), snapshot)
    assert found == {"n1": (DISK_CONFLICT,) if excluded else (), "n2": ()}


# NodeVolumeLimits


def csi_volume(name: str, driver: str = "csi.example.com") -> Object:
    return volume(name, csi={"driver": driver, "volumeHandle": f"handle-{name}"})


def bound(*names: str) -> list[Object]:
    """Claims `c-<name>` bound to CSI volumes."""
    return [part for name in names for part in (claim(f"c-{name}", volume=name), csi_volume(name))]


def full(raw: Object, *objects: Object, there: tuple[Object, ...] = ()) -> bool:
    snapshot = snapshot_of(node("n"), pods=there)
    found = reasons(Storage(*objects).plugin(NodeVolumeLimits), raw, snapshot)
    return found["n"] == (TOO_MANY,)


def test_a_node_takes_as_many_volumes_as_its_driver_can_attach() -> None:
    parts = bound("x", "y", "z")
    there = (user("c-x", "c-y", name="first", on="n"),)
    assert full(user("c-z"), *parts, csi_node("n", csi_example_com=2), there=there)
    assert not full(user("c-z"), *parts, csi_node("n", csi_example_com=3), there=there)


@pytest.mark.parametrize("limits", [{}, {"csi_example_com": None}, {"another_com": 0}])
def test_without_a_limit_of_that_driver_there_is_none(limits: dict[str, int | None]) -> None:
    assert not full(user("c-x"), *bound("x"), csi_node("n", **limits))


def test_a_node_without_csi_node_has_no_limits() -> None:
    assert not full(user("c-x"), *bound("x"))


def test_a_volume_counts_once_however_many_pods_share_it() -> None:
    there = (user("c-x", name="first", on="n"), user("c-x", name="second", on="n"))
    assert not full(user("c-x", "c-y"), *bound("x", "y"), csi_node("n", csi_example_com=2), there=there)


def test_what_is_still_attached_counts() -> None:
    still = attachment("a", "n", "old")
    assert full(user("c-x"), *bound("x"), csi_volume("old"), still, csi_node("n", csi_example_com=1))
    elsewhere = attachment("a", "m", "old")
    assert not full(user("c-x"), *bound("x"), csi_volume("old"), elsewhere, csi_node("n", csi_example_com=1))


def test_a_volume_that_is_to_be_made_counts_by_its_class() -> None:
    unbound = (claim("new"), storage_class())
    assert full(user("new"), *unbound, csi_node("n", csi_example_com=0))
    old = (claim("new"), storage_class(provisioner="kubernetes.io/aws-ebs"))
    assert full(user("new"), *old, csi_node("n", ebs_csi_aws_com=0))


def test_a_volume_of_a_driver_that_went_counts_with_the_one_that_does_its_work() -> None:
    parts = (claim(volume="v"), volume("v", awsElasticBlockStore={"volumeID": "vol-1"}))
    assert full(user("data"), *parts, csi_node("n", ebs_csi_aws_com=0))
    assert not full(user("data"), claim(volume="v"), volume("v", nfs={"path": "/"}), csi_node("n", csi_example_com=0))


def test_a_pod_without_attached_volumes_is_left_to_other_plugins() -> None:
    one = Storage(claim(volume="v"), volume("v", hostPath={"path": "/"})).plugin(NodeVolumeLimits)
    assert whole(one, user("data")) == SKIP
    assert whole(one, pod()) == SKIP


def test_a_missing_claim_is_told_of_each_node() -> None:
    found = reasons(Storage().plugin(NodeVolumeLimits), user("data"), snapshot_of(node("n")))
    assert found == {"n": ('looking up PVC default/data: persistentvolumeclaim "data" not found',)}
