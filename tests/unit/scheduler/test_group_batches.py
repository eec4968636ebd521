"""NodeTopology and Regions: the batch methods say of each node what the per-node methods say, on random clusters with
groups of pods, zones, GPUs, bandwidth, spot nodes and prices.
"""

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from konverge.model.resource import Pod
from konverge.scheduler.bandwidth import MEMORY_BANDWIDTH
from konverge.scheduler.framework import Plugin
from konverge.scheduler.gangs import GANG, POD_GROUP
from konverge.scheduler.numa import ZONES, NodeResourceTopology
from konverge.scheduler.plugins.node_topology import GPU_CLIQUE, NVLINK_DOMAIN, NodeTopology
from konverge.scheduler.plugins.regions import IO, Regions
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.spot import PRICE, SPOT, SPOT_LABELS
from tests.unit.scheduler.clusters import node, pod, toleration
from tests.unit.scheduler.shown import owned, reading
from tests.unit.scheduler.test_batches import compare

NODES = [f"n{index}" for index in range(6)]
POOLS = ["x", "y", "z"]
STRENGTHS = st.sampled_from(["None", "Preferred", "Required"])

node_labels = st.fixed_dictionaries(
    {},
    optional={
        "pool": st.sampled_from(POOLS),
        "zone": st.sampled_from(["1", "2", ""]),
        NVLINK_DOMAIN: st.sampled_from(["a", "b"]),
        GPU_CLIQUE: st.sampled_from(["a", "b"]),
        MEMORY_BANDWIDTH: st.sampled_from(["100", "200", "odd"]),
        PRICE: st.sampled_from(["0.1", "0.25", "1", "free"]),
        **{key: st.sampled_from([value, "other"]) for key, value in SPOT_LABELS[:2]},
    },
)
node_annotations = st.fixed_dictionaries(
    {},
    optional={
        MEMORY_BANDWIDTH: st.just("150"),
        ZONES: st.sampled_from(['{"0": {"cpu": "2"}, "1": {"cpu": "1", "memory": "1Gi"}}', "[]", "{"]),
    },
)
pod_annotations = st.fixed_dictionaries(
    {}, optional={MEMORY_BANDWIDTH: st.sampled_from(["50", "120"]), IO: st.just("high"), SPOT: st.just("tolerated")}
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["500m", "2"]),
        "memory": st.just("1Gi"),
        "nvidia.com/gpu": st.just("1"),
        "ephemeral-storage": st.just("1Gi"),
    },
)


@st.composite
def pods(draw: st.DrawFn, name: str, on: str = "") -> dict[str, Any]:
    raw = pod(name, on=on)
    raw["spec"]["containers"][0]["resources"]["requests"] = draw(requests)
    raw["spec"]["tolerations"] = draw(st.sampled_from([[], [toleration(*SPOT_LABELS[0], "NoSchedule")]]))
    raw["metadata"]["annotations"] = draw(pod_annotations)
    raw["metadata"]["labels"] = draw(st.sampled_from([{}, {GANG: "g"}, {POD_GROUP: "g"}, {GANG: "h"}]))
    if draw(st.integers(0, 9)) == 9:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return owned(raw, draw(st.sampled_from(["rs", "other"]))) if draw(st.booleans()) else raw


@st.composite
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    raw = node(name, cpu=draw(st.sampled_from(["1", "4"])), labels=draw(node_labels), nvidia_com__gpu="2")
    raw["metadata"]["annotations"] = draw(node_annotations)
    raw["spec"]["unschedulable"] = draw(st.integers(0, 4)) == 4
    return raw


@st.composite
def reports(draw: st.DrawFn, name: str) -> dict[str, Any]:
    zones = draw(st.lists(st.fixed_dictionaries({"cpu": st.sampled_from(["1", "2", "4"])}), max_size=2))
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "zones": [
            {"type": "Node", "resources": [{"name": key, "available": value} for key, value in zone.items()]}
            for zone in zones
        ],
    }


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    snapshot = Snapshot()
    for name in draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True)):
        snapshot.set_node(draw(nodes(name)))
    for index in range(draw(st.integers(0, 6))):
        snapshot.place(PodInfo(draw(pods(f"x{index}", draw(st.sampled_from(NODES))))))
    if draw(st.booleans()):
        snapshot.set_node(draw(nodes("n0")))
        snapshot.forget("x0")
    return snapshot


@st.composite
def topologies(draw: st.DrawFn, shown: dict[Any, Any]) -> Plugin:
    level = draw(st.sampled_from(["", "zone", "pool"]))
    return reading(
        NodeTopology,
        shown,
        level=level,
        mode=draw(st.sampled_from(["Hard", "Soft"])) if level else "Soft",
        numa=draw(STRENGTHS),
        nvlink=draw(STRENGTHS),
        memoryBandwidth=draw(STRENGTHS),
    )


@st.composite
def placements(draw: st.DrawFn) -> Plugin:
    kinds = draw(st.lists(st.sampled_from(["HighIO", "GPUAffinity", "CostOptimal", "Custom"]), min_size=1, max_size=3))
    regions = [
        {
            "name": f"r{index}",
            "kind": kind,
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "pool", "operator": "In", "values": draw(st.lists(st.sampled_from(POOLS), min_size=1))}
                    ]
                }
            ],
        }
        for index, kind in enumerate(kinds)
    ]
    shares = draw(st.sampled_from([[], [100], [60, 40]]))
    spread = [{"region": f"r{index}", "percent": percent} for index, percent in enumerate(shares)]
    return reading(Regions, regions=regions, spread=spread if len(spread) <= len(regions) else [])


@settings(max_examples=150, deadline=None)
@given(st.data(), clusters(), st.randoms(use_true_random=False))
def test_batch_and_per_node_methods_agree(data: st.DataObject, snapshot: Snapshot, chance: Any) -> None:
    waiting = [data.draw(pods(f"p{index}")) for index in range(data.draw(st.integers(1, 3)))]
    shown: dict[Any, Any] = {Pod: waiting}
    if data.draw(st.booleans()):
        shown[NodeResourceTopology] = [data.draw(reports(name)) for name in NODES[:3]]
    topology, placement = data.draw(topologies(shown)), data.draw(placements())
    info = PodInfo(waiting[0])
    for one in (topology, placement):
        rows = np.array(chance.sample(snapshot.rows.tolist(), chance.randint(0, len(snapshot.rows))), dtype=np.int64)
        compare(one, info, snapshot, rows)
