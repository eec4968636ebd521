"""Hints: which waiting pods an event helps, plugin by plugin, and how plugins are asked."""

import logging
from collections.abc import Hashable
from typing import Any

import pytest

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
from konverge.scheduler.events import Cause, ClusterEvent, NodeChange, PodChange, ReadChange
from konverge.scheduler.framework import SUCCESS, CycleState, Filter, Plugin, Verdict, unschedulable
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from konverge.scheduler.plugins.node_affinity import NodeAffinity
from konverge.scheduler.plugins.node_ports import NodePorts
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.node_unschedulable import NodeUnschedulable
from konverge.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from konverge.scheduler.plugins.pod_topology_spread import PodTopologySpread
from konverge.scheduler.plugins.taint_toleration import TaintToleration
from konverge.scheduler.plugins.volume_binding import VolumeBinding
from konverge.scheduler.plugins.volume_restrictions import VolumeRestrictions
from konverge.scheduler.plugins.volume_zone import VolumeZone
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import Place
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import node, pod, registry_with
from tests.unit.scheduler.settling import World
from tests.unit.scheduler.shown import reading
from tests.unit.scheduler.storage import attachment, capacity, claim, csi_node, driver, storage_class, user, volume

ZONE = "topology.kubernetes.io/zone"

# What each plugin says


def helped(kind: type[Plugin], waiting: Object, cause: Cause, **args: Any) -> bool:
    return reading(kind, **args).hint(PodInfo(waiting), cause)


def came(raw: Object) -> PodChange:
    return PodChange(None, PodInfo(raw))


def left(raw: Object) -> PodChange:
    return PodChange(PodInfo(raw), None)


def changed(old: Object, new: Object) -> PodChange:
    return PodChange(PodInfo(old), PodInfo(new))


def labelled(raw: dict[str, Any], **labels: str) -> dict[str, Any]:
    raw["metadata"]["labels"] = labels
    return raw


BIG = pod(cpu="4", example_com__gpu="1")
ASKS_GPU: dict[str, Any] = {"cpu": "4", "example_com__gpu": "1"}


@pytest.mark.parametrize(
    ("cause", "answer"),
    [
        (NodeChange(None, node("n", **ASKS_GPU)), True),
        (NodeChange(None, node("n", cpu="4")), False),
        (NodeChange(None, node("n", pods=0, **ASKS_GPU)), False),
        (NodeChange(node("n", cpu="3", example_com__gpu="1"), node("n", **ASKS_GPU)), True),
        (NodeChange(node("n", pods=1, **ASKS_GPU), node("n", pods=2, **ASKS_GPU)), True),
        (NodeChange(node("n", memory="1Gi", **ASKS_GPU), node("n", **ASKS_GPU)), False),
        (NodeChange(node("n", cpu="1"), node("n", cpu="2")), False),
        (left(pod("other", on="n")), True),
        (changed(pod("other", cpu="2", on="n"), pod("other", cpu="1", on="n")), True),
        (changed(pod("other", memory="2Gi", on="n"), pod("other", memory="1Gi", on="n")), False),
    ],
    ids=[
        "a new node with room for it",
        "a new node without one of its resources",
        "a new node that takes no pods",
        "a node grew to hold it",
        "a node takes more pods",
        "a node that holds it grew in what it does not ask for",
        "a node grew and is still too small",
        "any pod left",
        "a pod asks for less of what it asks for",
        "a pod asks for less of something else",
    ],
)
def test_room(cause: Cause, answer: bool) -> None:
    assert helped(NodeResourcesFit, BIG, cause) is answer


def test_taints_labels_and_cordons_help_only_where_they_kept_the_pod_away_before() -> None:
    plain, tainted = node("n"), node("n", taints=["a=x:NoSchedule"])
    cordoned, ssd = node("n", unschedulable=True), node("n", labels={"disk": "ssd"})
    wants_ssd = pod(spec={"nodeSelector": {"disk": "ssd"}})
    cases: list[tuple[type[Plugin], Object, Object, Object]] = [
        (TaintToleration, pod(), tainted, plain),
        (NodeUnschedulable, pod(), cordoned, plain),
        (NodeAffinity, wants_ssd, plain, ssd),
    ]
    for kind, waiting, bad, good in cases:
        answers = [helped(kind, waiting, NodeChange(*pair)) for pair in ((bad, good), (None, good), (good, good))]
        assert (kind, answers) == (kind, [True, True, False])
        assert [helped(kind, waiting, NodeChange(old, bad)) for old in (None, good, bad)] == [False] * 3


def test_a_node_that_comes_to_match_the_added_affinity_helps_though_it_matched_the_pods_own() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "Exists"}]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    cause = NodeChange(node("n", labels={"disk": "ssd"}), node("n", labels={"disk": "ssd", "team": "a"}))
    waiting = pod(spec={"nodeSelector": {"disk": "ssd"}})
    assert helped(NodeAffinity, waiting, cause, addedAffinity=added)
    assert not helped(NodeAffinity, waiting, cause)


def test_a_pod_that_left_helps_with_ports_only_with_one_that_conflicts() -> None:
    def at(*ports: int) -> Object:
        raw = pod(on="n")
        raw["spec"]["containers"][0]["ports"] = [{"hostPort": port} for port in ports]
        return raw

    assert helped(NodePorts, at(80), left(at(80, 443)))
    assert not helped(NodePorts, at(80), left(at(443)))
    assert not helped(NodePorts, at(80), left(at()))
    assert helped(NodePorts, at(80), NodeChange(None, node("n")))


def sociable(field: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    return pod(spec={"affinity": {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})


def test_who_comes_leaves_or_changes_its_labels_near_a_pod_that_minds() -> None:
    near, apart = sociable("podAffinity"), sociable("podAntiAffinity")
    web, db = labelled(pod("x", on="n"), app="web"), labelled(pod("x", on="n"), app="db")
    causes: dict[str, Cause] = {
        "db came": came(db),
        "web came": came(web),
        "db left": left(db),
        "web left": left(web),
        "web became db": changed(web, db),
        "db became web": changed(db, web),
    }
    assert [name for name, cause in causes.items() if helped(InterPodAffinity, near, cause)] == [
        "db came",
        "db left",  # the pod may start the group anew, if it is one of it
        "web became db",
        "db became web",
    ]
    assert [name for name, cause in causes.items() if helped(InterPodAffinity, apart, cause)] == [
        "db left",
        "db became web",
    ]
    assert helped(InterPodAffinity, labelled(pod(), app="db"), left(apart))
    assert not helped(InterPodAffinity, labelled(pod(), app="web"), left(apart))


def test_a_new_node_helps_a_pod_that_minds_others_only_in_a_domain_where_it_must_be() -> None:
    zoned, plain = NodeChange(None, node("n", labels={ZONE: "x"})), NodeChange(None, node("n"))
    assert [helped(InterPodAffinity, sociable("podAffinity"), each) for each in (zoned, plain)] == [True, False]
    assert [helped(InterPodAffinity, sociable("podAntiAffinity"), each) for each in (zoned, plain)] == [True, True]


def spreading(**more: Any) -> dict[str, Any]:
    entry = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}, "maxSkew": 1}
    return pod(spec={"topologySpreadConstraints": [{**entry, "whenUnsatisfiable": "DoNotSchedule", **more}]})


def test_a_pod_that_spreads_minds_the_pods_that_are_counted_and_the_nodes_in_domains() -> None:
    db, web = labelled(pod("x", on="n"), app="db"), labelled(pod("x", on="n"), app="web")
    elsewhere = {**db, "metadata": {**db["metadata"], "namespace": "other"}}
    leaving = {**db, "metadata": {**db["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    waiting = spreading()
    assert all(helped(PodTopologySpread, waiting, each) for each in (came(db), left(db), changed(web, db)))
    assert helped(PodTopologySpread, waiting, changed(db, leaving))
    assert not any(
        helped(PodTopologySpread, waiting, each)
        for each in (came(web), left(web), came(elsewhere), changed(db, db), left(leaving))
    )
    x, y, plain = (node("n", labels=labels) for labels in ({ZONE: "x"}, {ZONE: "y"}, {}))
    tainted = node("n", labels={ZONE: "x"}, taints=["a=x:NoSchedule"])
    pairs = [(None, x), (x, None), (x, y), (x, plain), (plain, x), (x, tainted)]
    assert all(helped(PodTopologySpread, waiting, NodeChange(*each)) for each in pairs)
    assert not any(helped(PodTopologySpread, waiting, NodeChange(*each)) for each in [(None, plain), (plain, None)])
    assert not helped(PodTopologySpread, waiting, NodeChange(x, node("n", labels={ZONE: "x", "disk": "ssd"})))


def test_a_node_that_is_counted_no_longer_helps_a_pod_that_spreads_over_the_nodes_it_may_go_to() -> None:
    waiting = spreading()
    waiting["spec"]["nodeSelector"] = {"disk": "ssd"}
    cause = NodeChange(node("n", labels={ZONE: "x", "disk": "ssd"}), node("n", labels={ZONE: "x"}))
    assert helped(PodTopologySpread, waiting, cause)
    waiting["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
    assert not helped(PodTopologySpread, waiting, cause)


READERS: tuple[type[Plugin], ...] = (VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits)


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.name)
def test_of_claims_only_the_pods_own_help(kind: type[Plugin]) -> None:
    own, other = claim("data"), claim("other")
    elsewhere = {**own, "metadata": {**own["metadata"], "namespace": "other"}}
    causes = [ReadChange(PersistentVolumeClaim, None, each) for each in (own, other, elsewhere)]
    assert [helped(kind, user("data"), each) for each in causes] == [True, False, False]
    assert not helped(kind, user("data"), ReadChange(PersistentVolumeClaim, own, None))


@pytest.mark.parametrize(
    ("kind", "resource", "old", "new", "answer"),
    [
        (VolumeBinding, StorageClass, None, storage_class(), True),
        (VolumeBinding, StorageClass, storage_class(), storage_class(allowedTopologies=[{}]), True),
        (VolumeBinding, StorageClass, storage_class(), storage_class(labels={"a": "b"}), False),
        (VolumeBinding, StorageClass, storage_class(), None, False),
        (VolumeBinding, PersistentVolume, None, volume("v"), True),
        (VolumeBinding, CSIStorageCapacity, None, capacity("k", "1Gi"), True),
        (VolumeBinding, CSIStorageCapacity, capacity("k", "1Gi"), capacity("k", "2Gi"), True),
        (VolumeBinding, CSIStorageCapacity, capacity("k", "2Gi"), capacity("k", "1Gi"), False),
        (VolumeBinding, CSIDriver, driver(), driver(tracks=False), True),
        (VolumeBinding, CSIDriver, driver(), None, True),
        (VolumeBinding, CSIDriver, driver(tracks=False), driver(), False),
        (VolumeZone, StorageClass, None, storage_class(), True),
        (VolumeZone, StorageClass, None, storage_class(mode="Immediate"), False),
        (VolumeZone, StorageClass, storage_class(), storage_class(), False),
        (VolumeZone, PersistentVolume, None, volume("v"), True),
        (VolumeZone, PersistentVolume, volume("v", labels={ZONE: "x"}), volume("v", labels={ZONE: "y"}), True),
        (VolumeZone, PersistentVolume, volume("v", labels={ZONE: "x"}), volume("v", "2Gi", labels={ZONE: "x"}), False),
        (VolumeZone, PersistentVolume, volume("v"), None, False),
        (NodeVolumeLimits, CSINode, None, csi_node("n", d=1), True),
        (NodeVolumeLimits, CSINode, csi_node("n", d=1), csi_node("n", d=2), True),
        (NodeVolumeLimits, CSINode, csi_node("n", d=1), csi_node("n"), True),
        (NodeVolumeLimits, CSINode, csi_node("n", d=1), csi_node("n", d=1), False),
        (NodeVolumeLimits, VolumeAttachment, attachment("a", "n", "v"), None, True),
        (NodeVolumeLimits, VolumeAttachment, None, attachment("a", "n", "v"), False),
    ],
)
def test_storage(
    kind: type[Plugin], resource: ResourceType, old: Object | None, new: Object | None, answer: bool
) -> None:
    assert helped(kind, user("data"), ReadChange(resource, old, new)) is answer


def test_who_leaves_helps_with_volumes_it_had() -> None:
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "a"}}
    other = user("other", name="x", on="n")
    assert helped(VolumeRestrictions, user("data"), left(user("data", name="x", on="n")))
    assert helped(VolumeRestrictions, user(volumes=(disk,)), left(user(name="x", on="n", volumes=(disk,))))
    assert not helped(VolumeRestrictions, user("data", volumes=(disk,)), left(other))
    assert helped(NodeVolumeLimits, user("data"), left(other))
    assert not helped(NodeVolumeLimits, user("data"), left(pod("x", on="n")))


# How plugins are asked


class Picky(Filter):
    """A pod goes only to the node that its label `app` names."""

    name = "Picky"
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.POD_GONE})

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        return SUCCESS if node.name == pod.labels["app"] else unschedulable("no")

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        return isinstance(cause, NodeChange) and cause.new is not None and cause.new.name == pod.labels["app"]


class Grouped(Picky):
    """The same, and pods of one label are alike."""

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        return pod.labels["app"]


class Failing(Picky):
    """One that cannot say whom an event helps."""

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:
        raise LookupError(cause)


class KeyFails(Picky):
    """One that cannot say which pods are alike."""

    def hint_key(self, pod: PodInfo, /) -> Hashable:
        raise LookupError(pod)


async def two_templates(sim: Sim, plugin: type[Plugin], each: int) -> World:
    """A world in which so many pods of either template wait for their node."""
    world = World(sim, registry_with(plugin))
    world.node("n", node("n"))
    for number in range(2 * each):
        world.pod(f"p{number}", labelled(pod(f"p{number}"), app=f"n{number % 2}"))
    await world.settle()
    assert world.queue.sizes[Place.UNSCHEDULABLE] == 2 * each
    return world


@pytest.mark.parametrize("plugin", [Picky, Grouped, KeyFails])
@simulate()
async def test_an_event_wakes_the_pods_that_the_plugin_picks_and_no_others(sim: Sim, plugin: type[Plugin]) -> None:
    world = await two_templates(sim, plugin, each=3)
    attempts = world.attempts
    world.node("n1", node("n1"))
    await world.settle()
    assert sorted(world.bound()) == ["p1", "p3", "p5"]
    assert world.attempts - attempts == 3


@pytest.mark.parametrize(("plugin", "questions"), [(Picky, 400), (Grouped, 2)])
@simulate()
async def test_of_pods_that_are_alike_one_is_asked_about(sim: Sim, plugin: type[Plugin], questions: int) -> None:
    world = await two_templates(sim, plugin, each=200)
    for _ in range(5):
        world.observer.answers.clear()
        world.queue.notify([ClusterEvent.POD_GONE], left(pod("x", on="n")))
        assert world.observer.answers == {("Picky", "PodGone", "QueueSkip"): questions}
    world.queue.notify([ClusterEvent.POD_PLACED], came(pod("x", on="n")))
    assert sum(world.observer.answers.values()) == questions  # it does not listen to that


@simulate()
async def test_who_raises_has_its_pods_tried_and_is_counted_and_named_once(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    world = await two_templates(sim, Failing, each=2)
    attempts = world.attempts
    with caplog.at_level(logging.WARNING):
        world.node("n1", node("n1"))
        await world.settle()
    assert sorted(world.bound()) == ["p1", "p3"]
    assert world.attempts - attempts == 4
    assert world.observer.answers == {("Picky", "NodeAdded", "Error"): 4}
    (line,) = [record.getMessage() for record in caplog.records if "Picky" in record.getMessage()]
    assert line.startswith("plugin Picky failed to say which pods an event helps")


@simulate()
async def test_an_event_without_its_cause_wakes_all_whose_plugins_listen(sim: Sim) -> None:
    world = await two_templates(sim, Picky, each=2)
    attempts = world.attempts
    world.queue.notify([ClusterEvent.POD_GONE])
    await world.settle()
    assert (world.attempts - attempts, world.observer.answers) == (4, {})


@simulate()
async def test_a_pod_that_gave_back_the_node_that_was_kept_for_it_helps_those_who_were_kept_away(sim: Sim) -> None:
    world = World(sim)
    world.node("n", node("n", cpu="2"))
    world.pod("first", pod("first", cpu="3", priority=5))
    await world.settle()
    world.queue.nominations.put(PodInfo(world.pods["first"]), "n")
    world.pod("p", pod("p", cpu="1"))
    await world.settle()
    assert world.bound() == []
    world.pod("first", None)
    await world.settle()
    assert world.bound() == ["p"]
