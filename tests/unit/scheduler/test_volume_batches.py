"""The volume plugins say of many nodes what they say of each: on random nodes, claims, volumes and classes."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from konverge.model.resource import Object
from konverge.scheduler.framework import Plugin
from konverge.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from konverge.scheduler.plugins.volume_binding import VolumeBinding
from konverge.scheduler.plugins.volume_candidates import matcher_of
from konverge.scheduler.plugins.volume_restrictions import VolumeRestrictions
from konverge.scheduler.plugins.volume_zone import VolumeZone
from konverge.scheduler.podinfo import PodInfo
from tests.unit.scheduler.clusters import node, snapshot_of
from tests.unit.scheduler.storage import (
    HOST,
    ZONE,
    Storage,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    storage_class,
    user,
    volume,
)
from tests.unit.scheduler.test_batches import compare

PLUGINS: list[type[Plugin]] = [VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone]
NODES, CLASSES, SIZES = ["n0", "n1", "n2", "n3"], ["late", "static"], ["1Gi", "2Gi", "3Gi"]
CLAIMS = ["c0", "c1", "c2"]
VOLUMES = ["v0", "v1", "v2", "v3"]
BETA = "failure-domain.beta.kubernetes.io/zone"
DISK = {"name": "d", "gcePersistentDisk": {"pdName": "disk"}}
topologies = st.sampled_from(
    [None, None, {ZONE: ["a"]}, {ZONE: ["b", "c"]}, {HOST: ["n1"]}, {ZONE: ["a"], HOST: ["n0", "n1"]}]
)


@st.composite
def classes(draw: st.DrawFn) -> list[Object]:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": draw(st.sampled_from([["a"], ["b"]]))}]}]
    made = storage_class("late", allowedTopologies=draw(st.sampled_from([[], allowed])))
    parts = [made, storage_class("static", provisioner="kubernetes.io/no-provisioner")]
    if draw(st.booleans()):
        parts.append(driver())
        rooms = draw(st.lists(st.sampled_from([{ZONE: "a"}, {ZONE: "b"}, {HOST: "n2"}, {}]), max_size=2))
        parts += [capacity(f"room{index}", draw(st.sampled_from(SIZES)), on) for index, on in enumerate(rooms)]
    return parts


@st.composite
def claims(draw: st.DrawFn) -> list[Object]:
    result = []
    for name in CLAIMS:
        selected = draw(st.sampled_from([None, None, None, "n1", "gone"]))
        result.append(
            claim(
                name,
                draw(st.sampled_from(SIZES)),
                volume=draw(st.sampled_from(["", "", *VOLUMES[:2], "missing"])),
                storage=draw(st.sampled_from(CLASSES)),
                modes=draw(st.sampled_from([("ReadWriteOnce",), ("ReadWriteOncePod",)])),
                annotations={} if selected is None else {"volume.kubernetes.io/selected-node": selected},
            )
        )
    return result


@st.composite
def volumes(draw: st.DrawFn) -> list[Object]:
    return [
        volume(
            name,
            draw(st.sampled_from(SIZES)),
            on=draw(topologies),
            storage=draw(st.sampled_from(CLASSES)),
            meant_for=draw(st.sampled_from(["", "", "", *CLAIMS])),
            phase=draw(st.sampled_from(["Available", "Available", "Bound"])),
            modes=draw(st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadWriteOncePod")])),
            labels=draw(st.dictionaries(st.sampled_from([ZONE, BETA]), st.sampled_from(["a", "b__c"]))),
            csi={"driver": "csi.example.com", "volumeHandle": name},
        )
        for name in draw(st.lists(st.sampled_from(VOLUMES), unique=True))
    ]


@st.composite
def users(draw: st.DrawFn, name: str, on: str = "") -> dict[str, Any]:
    disks = draw(st.sampled_from([(), (), (DISK,)]))
    return user(*draw(st.lists(st.sampled_from(CLAIMS), max_size=3)), name=name, on=on, volumes=disks)


@st.composite
def nodes(draw: st.DrawFn) -> list[Object]:
    keys = st.sampled_from([ZONE, BETA])
    return [
        node(name, labels=draw(st.dictionaries(keys, st.sampled_from(["a", "b", "c"]))))
        for name in draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True))
    ]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_batch_and_per_node_methods_agree(data: st.DataObject) -> None:
    furniture = [*data.draw(nodes())]
    there = [data.draw(users(f"x{index}", data.draw(st.sampled_from(NODES)))) for index in range(3)]
    limited = [csi_node(name, csi_example_com=data.draw(st.integers(0, 4))) for name in NODES[:3]]
    attached = [attachment(f"a-{name}", data.draw(st.sampled_from(NODES)), name) for name in VOLUMES[:2]]
    parts = [*data.draw(classes()), *data.draw(claims()), *data.draw(volumes())]
    storage, snapshot = Storage(*parts, *limited, *attached), snapshot_of(*furniture, pods=there)
    info = PodInfo(data.draw(users("p")))
    chosen = data.draw(st.lists(st.sampled_from(snapshot.rows.tolist()), unique=True))
    for kind in PLUGINS:
        compare(storage.plugin(kind), info, snapshot, np.array(chosen, dtype=np.int64))


waiting_claims = st.builds(
    lambda names, sizes, kinds, selected: [
        claim(
            name,
            size,
            storage=kind,
            annotations={"volume.kubernetes.io/selected-node": selected} if selected and name == "c2" else {},
        )
        for name, size, kind in zip(names, sizes, kinds, strict=True)
    ],
    st.permutations(CLAIMS),
    st.lists(st.sampled_from(SIZES), min_size=3, max_size=3),
    st.lists(st.sampled_from(["late", "late", "static"]), min_size=3, max_size=3),
    st.sampled_from(["", "", "", "n1", "gone"]),
)


@settings(max_examples=300, deadline=None)
@given(nodes(), classes(), volumes(), waiting_claims, st.integers(0, 3), st.lists(st.sampled_from(VOLUMES), max_size=2))
def test_waiting_and_bound_claims_are_judged_alike_by_node_and_by_rows(
    furniture: list[Object],
    kinds: list[Object],
    there: list[Object],
    waiting: list[Object],
    count: int,
    taken: list[str],
) -> None:
    lister, snapshot = Storage(*kinds, *there).lister, snapshot_of(*furniture)
    matcher = matcher_of([claim(f"b-{name}", volume=name) for name in taken], waiting[:count], lister)
    by_rows = matcher.judge_rows(snapshot, snapshot.rows)
    if by_rows is None:
        candidates = [volume for volume in there if not volume["spec"].get("claimRef")]
        assert count > 1, "claims can only compete where there are two"
        assert candidates
        return
    for index, row in enumerate(snapshot.rows.tolist()):
        plan = matcher.judge(snapshot.node(row))
        assert {reason for reason, mask in by_rows.items() if mask[index]} == set(plan.reasons)
        assert plan.reasons or len(plan.bindings) + len(plan.provisions) == count


MANY = [f"c{index}" for index in range(6)]
DRIVERS = ["csi.example.com", "other.example.com"]
some = st.lists(st.sampled_from(MANY), max_size=3, unique=True)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NODES), some), max_size=4),
    st.lists(st.sampled_from(MANY), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(MANY)), max_size=3, unique=True),
)
def test_limits_are_the_same_for_many_nodes_as_for_each(
    there: list[tuple[str, list[str]]], wanted: list[str], limits: list[int], attached: list[tuple[str, str]]
) -> None:
    volumes = [
        volume(f"v-{name}", csi={"driver": DRIVERS[index % 2], "volumeHandle": name}) for index, name in enumerate(MANY)
    ]
    parts = [claim(name, volume=f"v-{name}") for name in MANY]
    limited = [csi_node(name, csi_example_com=limit) for name, limit in zip(NODES[:3], limits, strict=True)]
    still = [attachment(f"{at}-{name}", at, f"v-{name}") for at, name in attached]
    pods = [user(*claims, name=f"x{index}", on=at) for index, (at, claims) in enumerate(there)]
    snapshot = snapshot_of(*map(node, NODES), pods=pods)
    one = Storage(*volumes, *parts, *limited, *still).plugin(NodeVolumeLimits)
    compare(one, PodInfo(user(*wanted)), snapshot, snapshot.rows)


zones = st.dictionaries(st.sampled_from([ZONE, BETA]), st.sampled_from(["a", "b", "c"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(zones, min_size=1, max_size=5), st.dictionaries(st.sampled_from([ZONE, BETA]), st.just("a__b")))
def test_zones_are_the_same_for_many_nodes_as_for_each(labels: list[dict[str, str]], own: dict[str, str]) -> None:
    snapshot = snapshot_of(*(node(f"n{index}", labels=each) for index, each in enumerate(labels)))
    one = Storage(claim(volume="v"), volume("v", labels=own)).plugin(VolumeZone)
    compare(one, PodInfo(user("data")), snapshot, snapshot.rows)
