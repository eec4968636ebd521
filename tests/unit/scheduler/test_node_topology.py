"""NodeTopology: groups in one domain, GPUs in one NVLink domain, requests in one NUMA zone, memory bandwidth."""

import json
from typing import Any

import pytest

from konverge.errors import InvalidPluginArgs
from konverge.model.resource import Object, Pod
from konverge.scheduler import Registry
from konverge.scheduler.framework import Code, CycleState
from konverge.scheduler.numa import NodeResourceTopology
from konverge.scheduler.plugins.node_topology import (
    NO_BANDWIDTH,
    NO_DOMAIN,
    NO_NVLINK,
    NO_ZONE_FITS,
    NO_ZONES,
    NVLINK_DOMAIN,
    OTHER_DOMAIN,
    OTHER_NVLINK,
    NodeTopology,
)
from konverge.scheduler.podinfo import PodInfo
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import node, pod, running, snapshot_of, with_plugin
from tests.unit.scheduler.shown import annotated, answers, of_gang, owned, ranks, reading

BLOCK = "topology.konverge.dev/block"


def blocks(**of: str) -> list[dict[str, Any]]:
    """Nodes with their block; empty: without."""
    return [node(name, labels={BLOCK: block} if block else {}) for name, block in of.items()]


# Level


def test_a_group_goes_where_it_is() -> None:
    """Hard: its domain, and no node without one."""
    snapshot = snapshot_of(*blocks(a="1", b="1", c="2", d=""), pods=[of_gang(pod("x", on="a"), "g")])
    hard = reading(NodeTopology, level=BLOCK, mode="Hard")
    assert answers(hard, of_gang(pod(), "g"), snapshot) == {"a": "", "b": "", "c": OTHER_DOMAIN, "d": NO_DOMAIN}
    assert answers(hard, of_gang(pod(), "another"), snapshot) == {"a": "", "b": "", "c": "", "d": NO_DOMAIN}
    assert set(answers(hard, pod(), snapshot).values()) == {""}


def test_soft_ranks_by_the_share_of_the_group() -> None:
    on = [owned(pod(name, on=where), "rs") for name, where in (("x", "a"), ("y", "b"), ("z", "c"), ("v", "c"))]
    snapshot = snapshot_of(*blocks(a="1", b="1", c="2", d="3", e=""), pods=[*on, owned(pod("w", on="a"), "rs")])
    soft = reading(NodeTopology, level=BLOCK, mode="Soft")
    assert ranks(soft, owned(pod(), "rs"), snapshot) == {"a": 100, "b": 100, "c": 66, "d": 0, "e": 0}
    assert set(answers(soft, owned(pod(), "rs"), snapshot).values()) == {""}


def test_pods_of_one_controller_are_a_group_and_those_on_their_way_out_are_not_counted() -> None:
    leaving = owned(pod("x", on="a"), "rs")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = snapshot_of(*blocks(a="1", b="2"), pods=[leaving, owned(pod("y", on="b"), "rs")])
    hard = reading(NodeTopology, level=BLOCK, mode="Hard")
    assert answers(hard, owned(pod(), "rs"), snapshot) == {"a": OTHER_DOMAIN, "b": ""}


def test_the_first_of_a_group_goes_where_all_of_it_has_room() -> None:
    """Block 1 has room for two pods, block 2 for three; a cordoned node counts for nothing."""
    nodes = [
        node("a", cpu="2", labels={BLOCK: "1"}),
        node("b", cpu="2", labels={BLOCK: "2"}),
        node("c", cpu="1", labels={BLOCK: "2"}),
        node("d", cpu="9", labels={BLOCK: "1"}, unschedulable=True),
    ]
    gang = [of_gang(pod(f"p{i}", cpu="1"), "g") for i in range(3)]
    hard = reading(NodeTopology, {Pod: gang}, level=BLOCK, mode="Hard")
    assert answers(hard, gang[0], snapshot_of(*nodes)) == {"a": OTHER_DOMAIN, "b": "", "c": "", "d": OTHER_DOMAIN}
    assert ranks(hard, gang[0], snapshot_of(*nodes)) == {"a": 66, "b": 100, "c": 100, "d": 66}


def test_where_no_domain_has_room_for_all_those_with_most_are_left() -> None:
    nodes = [node("a", cpu="2", labels={BLOCK: "1"}), node("b", cpu="1", labels={BLOCK: "2"})]
    gang = [of_gang(pod(f"p{i}", cpu="1"), "g") for i in range(3)]
    hard = reading(NodeTopology, {Pod: gang}, level=BLOCK, mode="Hard")
    assert answers(hard, gang[0], snapshot_of(*nodes)) == {"a": "", "b": OTHER_DOMAIN}


@simulate(seeds=range(6))
async def test_a_gang_comes_whole_into_the_only_block_that_holds_it(sim: Sim) -> None:
    nodes = [node(f"n{i}", cpu="1", labels={BLOCK: "small" if i < 3 else "large"}) for i in range(7)]
    gang = [of_gang(pod(f"p{i}", cpu="1"), "g") for i in range(4)]
    profile = with_plugin("NodeTopology", level=BLOCK, mode="Hard")
    cluster = await running(sim, *nodes, *gang, profile=profile)
    assert set(await cluster.placed("p0", "p1", "p2", "p3")) == {"n3", "n4", "n5", "n6"}


# NVLink


def gpu_pod(name: str = "p", *, on: str = "") -> dict[str, Any]:
    return of_gang(pod(name, on=on, nvidia_com__gpu="1"), "g")


def test_gpu_pods_of_a_group_share_an_nvlink_domain() -> None:
    """NVIDIA's own label counts where ours is missing."""
    nodes = [
        node("a", nvidia_com__gpu="8", labels={NVLINK_DOMAIN: "x"}),
        node("b", nvidia_com__gpu="8", labels={"nvidia.com/gpu.clique": "x"}),
        node("c", nvidia_com__gpu="8", labels={NVLINK_DOMAIN: "y", "nvidia.com/gpu.clique": "x"}),
        node("d", nvidia_com__gpu="8"),
    ]
    snapshot = snapshot_of(*nodes, pods=[gpu_pod("x", on="a")])
    required, preferred = (reading(NodeTopology, nvlink=strength) for strength in ("Required", "Preferred"))
    assert answers(required, gpu_pod(), snapshot) == {"a": "", "b": "", "c": OTHER_NVLINK, "d": NO_NVLINK}
    assert ranks(preferred, gpu_pod(), snapshot) == {"a": 100, "b": 100, "c": 0, "d": 0}
    assert set(answers(preferred, gpu_pod(), snapshot).values()) == {""}
    assert set(answers(required, of_gang(pod(), "g"), snapshot).values()) == {""}


# NUMA


def report(name: str, *zones: dict[str, str], version: str = "1") -> Object:
    """What a node's agent reports: the resources available by zone."""
    return {
        "metadata": {"name": name, "resourceVersion": version},
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [{"name": key, "capacity": "99", "available": value} for key, value in zone.items()],
            }
            for number, zone in enumerate(zones)
        ],
    }


REPORTS = [report("a", {"cpu": "4"}, {"cpu": "4"}), report("b", {"cpu": "6"}, {"cpu": "2"})]


def test_requests_must_fit_one_zone() -> None:
    snapshot = snapshot_of(node("a", cpu="8"), node("b", cpu="8"), node("c", cpu="8"))
    required = reading(NodeTopology, {NodeResourceTopology: REPORTS}, numa="Required")
    assert answers(required, pod(cpu="5"), snapshot) == {"a": NO_ZONE_FITS, "b": "", "c": NO_ZONES}
    assert answers(required, pod(), snapshot) == {"a": "", "b": "", "c": ""}
    preferred = reading(NodeTopology, {NodeResourceTopology: REPORTS}, numa="Preferred")
    assert ranks(preferred, pod(cpu="5"), snapshot) == {"a": 0, "b": 100, "c": 0}


def test_all_resources_come_from_the_same_zone_and_what_no_zone_lists_from_anywhere() -> None:
    zones = report("a", {"cpu": "8", "nvidia.com/gpu": "1"}, {"cpu": "8", "nvidia.com/gpu": "4"}, {"cpu": "64"})
    snapshot = snapshot_of(node("a"))
    required = reading(NodeTopology, {NodeResourceTopology: [zones]}, numa="Required")
    assert answers(required, pod(cpu="8", nvidia_com__gpu="4"), snapshot) == {"a": ""}
    assert answers(required, pod(cpu="9", nvidia_com__gpu="1"), snapshot) == {"a": NO_ZONE_FITS}
    assert answers(required, pod(cpu="8", memory="900Gi"), snapshot) == {"a": ""}


def test_without_reports_an_annotation_of_the_node_says_what_the_zones_hold() -> None:
    """A cluster that lacks the resource is no error, and neither is an annotation that makes no sense."""
    said = json.dumps({"0": {"cpu": "4"}, "1": {"cpu": "2"}})
    nodes = [
        annotated(node("a"), topology_konverge_dev__numa_zones=said),
        *(annotated(node(name), topology_konverge_dev__numa_zones=text) for name, text in (("b", "{"), ("c", "[4]"))),
        annotated(node("d"), topology_konverge_dev__numa_zones='{"0": {"cpu": "many"}}'),
    ]
    required = reading(NodeTopology, numa="Required")
    expected = {"a": "", "b": NO_ZONES, "c": NO_ZONES, "d": NO_ZONES}
    assert answers(required, pod(cpu="4"), snapshot_of(*nodes)) == expected
    assert answers(required, pod(cpu="5"), snapshot_of(*nodes)) == {**expected, "a": NO_ZONE_FITS}


def test_what_was_promised_is_taken_off_its_zone_until_the_node_reports_it() -> None:
    reports = [report("a", {"cpu": "4"}, {"cpu": "4"})]
    plugin = reading(NodeTopology, {NodeResourceTopology: reports}, numa="Required")
    snapshot = snapshot_of(node("a", cpu="8"))

    def promise(name: str) -> None:
        state, info = CycleState(), PodInfo(pod(name, cpu="3"))
        plugin.pre_filter(state, info, snapshot)
        snapshot.assume(info, "a")
        plugin.reserve(state, info, "a")

    promise("x")
    assert answers(plugin, pod(cpu="4"), snapshot) == {"a": ""}
    promise("y")
    assert answers(plugin, pod(cpu="2"), snapshot) == {"a": NO_ZONE_FITS}
    plugin.unreserve(CycleState(), PodInfo(pod("y")), "a")
    assert answers(plugin, pod(cpu="4"), snapshot) == {"a": ""}
    promise("y")
    snapshot.forget("x")
    assert answers(plugin, pod(cpu="4"), snapshot) == {"a": ""}
    lister: Any = plugin._lister
    lister.objects[NodeResourceTopology] = [report("a", {"cpu": "4"}, {"cpu": "1"}, version="2")]
    assert answers(plugin, pod(cpu="4"), snapshot) == {"a": ""}
    assert answers(plugin, pod(cpu="5"), snapshot) == {"a": NO_ZONE_FITS}


# Memory bandwidth


def streaming(name: str = "p", gigabytes: str = "100", *, on: str = "") -> dict[str, Any]:
    return annotated(pod(name, on=on), topology_konverge_dev__memory_bandwidth=gigabytes)


def test_the_bandwidth_that_pods_declare_is_taken_off_the_nodes() -> None:
    nodes = [
        node("a", labels={"topology.konverge.dev/memory-bandwidth": "200"}),
        annotated(node("b"), topology_konverge_dev__memory_bandwidth="250.5"),
        node("c", labels={"topology.konverge.dev/memory-bandwidth": "fast"}),
    ]
    snapshot = snapshot_of(*nodes, pods=[streaming("x", "150", on="a"), streaming("y", "150.5", on="b")])
    required, preferred = (reading(NodeTopology, memoryBandwidth=strength) for strength in ("Required", "Preferred"))
    assert answers(required, streaming(), snapshot) == {"a": NO_BANDWIDTH, "b": "", "c": NO_BANDWIDTH}
    assert ranks(preferred, streaming(), snapshot) == {"a": 50, "b": 100, "c": 0}
    assert set(answers(required, pod(), snapshot).values()) == {""}


def test_more_bandwidth_than_the_node_has_is_not_to_be_had_by_preemption() -> None:
    required = reading(NodeTopology, memoryBandwidth="Required")
    snapshot = snapshot_of(
        node("a", labels={"topology.konverge.dev/memory-bandwidth": "200"}), pods=[streaming(on="a")]
    )
    codes = []
    for gigabytes in ("150", "201"):
        state, info = CycleState(), PodInfo(streaming(gigabytes=gigabytes))
        required.pre_filter(state, info, snapshot)
        codes.append(required.filter(state, info, snapshot.node(0)).code)
    assert codes == [Code.UNSCHEDULABLE, Code.UNRESOLVABLE]


@pytest.mark.parametrize("said", ["lots", "-1"])
def test_a_pod_that_declares_nonsense_is_told_so(said: str) -> None:
    required = reading(NodeTopology, memoryBandwidth="Required")
    verdict = required.pre_filter(CycleState(), PodInfo(streaming(gigabytes=said)), snapshot_of(node("a"))).verdict
    assert verdict.code is Code.UNRESOLVABLE
    assert verdict.reasons[0].startswith("annotation topology.konverge.dev/memory-bandwidth: ")


# Together


def test_the_score_is_the_mean_of_the_aspects() -> None:
    nodes = [node(name, cpu="8", labels={BLOCK: block}) for name, block in (("a", "1"), ("b", "2"))]
    snapshot = snapshot_of(*nodes, pods=[of_gang(pod("x", on="a"), "g")])
    both = reading(NodeTopology, {NodeResourceTopology: REPORTS}, level=BLOCK, numa="Preferred")
    assert ranks(both, of_gang(pod(cpu="4"), "g"), snapshot) == {"a": 100, "b": 50}
    assert ranks(both, of_gang(pod(cpu="5"), "g"), snapshot) == {"a": 50, "b": 50}


def test_a_pod_that_no_aspect_is_about_is_skipped() -> None:
    snapshot, state, info = snapshot_of(node("a")), CycleState(), PodInfo(pod())
    one = reading(
        NodeTopology, level=BLOCK, mode="Hard", numa="Required", nvlink="Required", memoryBandwidth="Required"
    )
    assert one.pre_filter(state, info, snapshot).verdict.code is Code.SKIP
    assert one.pre_score(state, info, snapshot, snapshot.rows).code is Code.SKIP


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"mode": "Hard"}, "`mode: Hard` needs `level`"),
        ({"level": "no key!"}, "level: Value error, must be a label key"),
        ({"numa": "Always"}, "numa: Input should be 'None', 'Preferred' or 'Required'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPluginArgs, match=says):
        Registry.default().check_args("NodeTopology", args)
