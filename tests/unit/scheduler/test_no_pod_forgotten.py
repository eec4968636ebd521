"""Hints forget no pod: after random events, trying all pods that wait would place none."""

from collections.abc import Sequence
from random import Random
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from konverge.model.resource import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceType,
    StorageClass,
    VolumeAttachment,
)
from konverge.testing.sim import Sim, run_sim
from tests.unit.scheduler.clusters import node, pod, toleration
from tests.unit.scheduler.settling import World
from tests.unit.scheduler.storage import attachment, capacity, claim, csi_node, driver, storage_class, volume

ZONE = "topology.kubernetes.io/zone"
RACK = "rack"
LABELS = [{"app": "web"}, {"app": "db"}, {}]
WISHES = 9
"""The kinds of wishes that pods have; few at a time, so that what helps is seldom hidden by what helps as well."""


def random_node(chance: Random, name: str, focus: Sequence[int]) -> Object:
    """A node; with few kinds of wishes one that is never full, since a pod that leaves helps all who lack room."""
    cpus, pods = ([1, 2, 4], [1, 2, 4]) if len(focus) == WISHES else ([64], [100])
    labels = {ZONE: chance.choice("xyz")} if chance.random() < 0.8 else {}
    labels |= {RACK: chance.choice("12")} if chance.random() < 0.5 else {}
    return node(
        name,
        cpu=str(chance.choice(cpus)),
        pods=chance.choice(pods),
        labels=labels,
        taints=chance.choice([[], [], ["a=x:NoSchedule"], ["b=y:NoExecute"], ["a=x:PreferNoSchedule"]]),
        unschedulable=chance.random() < 0.2,
    )


def random_wish(chance: Random, focus: Sequence[int]) -> dict[str, Any]:
    """Something that a pod asks of nodes, of other pods or of volumes, of the kinds in `focus`."""
    term = {"topologyKey": chance.choice([ZONE, RACK]), "labelSelector": {"matchLabels": chance.choice(LABELS[:2])}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    labels = {"key": chance.choice([ZONE, RACK]), "operator": chance.choice(["Exists", "DoesNotExist"])}
    named = {"key": "metadata.name", "operator": "In", "values": [f"n{chance.randrange(6)}"]}
    terms = [chance.choice([{"matchExpressions": [labels]}, {"matchFields": [named]}])]
    policies = {"nodeTaintsPolicy": chance.choice(["Honor", "Ignore"]), "minDomains": chance.choice([1, 2])}
    spread = {**term, **policies, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    by_rack = {"nodeSelector": {RACK: chance.choice("12")}}
    wishes: list[dict[str, Any]] = [
        {},
        {"nodeSelector": {ZONE: chance.choice("xyz")}},
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        },
        {"affinity": {"podAffinity": required}},
        {"affinity": {"podAntiAffinity": required}},
        {"topologySpreadConstraints": [spread]},
        {"topologySpreadConstraints": [spread], **by_rack},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{chance.randrange(3)}"}}]},
        {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": chance.choice("ab")}}]},
    ]
    return wishes[chance.choice(focus)]


def random_pod(chance: Random, name: str, focus: Sequence[int], on: str = "") -> Object:
    spec = random_wish(chance, focus)
    if chance.random() < 0.3:
        spec["tolerations"] = [toleration(key=chance.choice(["a", "b"]), operator="Exists")]
    raw = pod(name, cpu=chance.choice([None, "500m", "1", "2"]), on=on, spec=spec)
    if chance.random() < 0.3:
        raw["spec"]["containers"][0]["ports"] = [{"hostPort": chance.choice([80, 81])}]
    raw["metadata"]["labels"] = dict(chance.choice(LABELS))
    return raw


def random_read(chance: Random, resource: ResourceType, name: str) -> Object:
    zones = {ZONE: [chance.choice("xyz")]} if chance.random() < 0.5 else None
    csi = {"driver": "csi.example.com", "volumeHandle": name}
    modes = chance.choice([("ReadWriteOnce",), ("ReadWriteOncePod",)])
    found: dict[ResourceType, Object] = {
        PersistentVolumeClaim: claim(
            name, chance.choice(["1Gi", "5Gi"]), volume=chance.choice(["", "v0", "v1"]), modes=modes
        ),
        PersistentVolume: volume(
            name, chance.choice(["1Gi", "9Gi"]), labels={ZONE: chance.choice("xyz")}, on=zones, csi=csi
        ),
        StorageClass: storage_class(mode=chance.choice(["WaitForFirstConsumer", "Immediate"])),
        CSIDriver: driver(tracks=chance.random() < 0.5),
        CSINode: csi_node(name, csi_example_com=chance.choice([None, 0, 1])),
        VolumeAttachment: attachment(name, f"n{chance.randrange(6)}", chance.choice(["v0", "v1"])),
        CSIStorageCapacity: capacity(name, chance.choice(["1Gi", "9Gi"]), {ZONE: chance.choice("xyz")}),
    }
    return found[resource]


READ = {
    PersistentVolumeClaim: ["c0", "c1", "c2"],
    PersistentVolume: ["v0", "v1", "v2"],
    StorageClass: ["late"],
    CSIDriver: ["csi.example.com"],
    CSINode: ["n1", "n2"],
    VolumeAttachment: ["a0", "a1"],
    CSIStorageCapacity: ["k0"],
}


def something_happens(world: World, chance: Random, number: int, focus: Sequence[int]) -> None:
    name = f"n{chance.randrange(6)}"
    there = sorted(world.bound())
    about_volumes = len(focus) < WISHES and 7 in focus and chance.random() < 0.5
    match 11 if about_volumes else chance.randrange(12):
        case 0:
            world.node(name, random_node(chance, name, focus))
        case 1 if len(world.nodes) > 1:
            world.node(chance.choice(sorted(world.nodes)), None)
        case 2 | 3:
            # One part of a node changes at a time, as most often.
            name = chance.choice(sorted(world.nodes))
            part = chance.choice(["metadata", "spec", "status"])
            world.node(name, {**world.nodes[name], part: random_node(chance, name, focus)[part]})
        case 4 | 5 | 6:
            world.pod(f"p{number}", random_pod(chance, f"p{number}", focus))
        case 7 if there:
            world.pod(chance.choice(there), None)
        case 8:
            world.pod(f"p{number}", random_pod(chance, f"p{number}", focus, on=chance.choice(sorted(world.nodes))))
        case 9 if there:
            name = chance.choice(there)
            raw = world.pods[name]
            labels = dict(chance.choice(LABELS))
            leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if chance.random() < 0.5 else {}
            world.pod(name, {**raw, "metadata": {**raw["metadata"], "labels": labels, **leaving}})
        case 10 if there:
            name = chance.choice(there)
            raw = world.pods[name]
            (main,) = raw["spec"]["containers"]
            less = {**main, "resources": {"requests": {"cpu": "100m"}}}
            world.pod(name, {**raw, "spec": {**raw["spec"], "containers": [less]}})
        case _:
            resource = chance.choice(list(READ))
            name = chance.choice(READ[resource])
            new = random_read(chance, resource, name) if chance.random() < 0.8 else None
            if new is not None or (resource, name) in world.read:
                world.object(resource, name, new)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_whatever_happens_trying_all_waiting_pods_would_place_none_that_the_hints_did_not(
    seed: int, events: int
) -> None:
    async def scenario(sim: Sim) -> None:
        world, chance = World(sim), Random(seed)
        focus = chance.sample(range(WISHES), chance.choice([1, 2, WISHES]))
        world.node("n0", random_node(chance, "n0", focus))
        for number in range(events):
            something_happens(world, chance, number, focus)
            await world.settle()
            assert world.would_fit() == []

    run_sim(scenario)
