"""For every built-in plugin the batch methods say of each node what the per-node methods say: on random clusters and pods."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import BatchVerdict, CycleState, Filter, Plugin, PreFilter, PreScore, Score
from konverge.scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from konverge.scheduler.plugins.image_locality import ImageLocality
from konverge.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from konverge.scheduler.plugins.node_affinity import NodeAffinity
from konverge.scheduler.plugins.node_label_priority import NodeLabelPriority
from konverge.scheduler.plugins.node_name import NodeName
from konverge.scheduler.plugins.node_ports import NodePorts
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.node_unschedulable import NodeUnschedulable
from konverge.scheduler.plugins.pod_topology_spread import PodTopologySpread
from konverge.scheduler.plugins.taint_toleration import TaintToleration
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.registry import Registry
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import container, node, plugin, pod, toleration

RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]
QUANTITIES = ["0", "1", "100m", "1500m", "2", "4", "1Gi", "8Gi", "9E", "50E"]
VALUES = ["", "1", "5", "-3", "007", "ssd"]
IMAGES = ["app", "app:latest", "big:1", "reg:5000/x"]
APPS = ["web", "db"]
KEYS = ["disk", "zone", "kubernetes.io/hostname"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(QUANTITIES), max_size=4)
labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
taints = st.lists(
    st.builds("{}={}:{}".format, st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(EFFECTS)), max_size=3
)
ports = st.lists(
    st.fixed_dictionaries(
        {"hostPort": st.sampled_from([0, 80, 81])},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "hostIP": st.sampled_from(["", "0.0.0.0", "10.1.1.1", "10.1.1.2"]),
        },
    ),
    max_size=2,
)
containers = st.lists(
    st.builds(
        lambda asked, sidecar, taken, image: {
            **container("c", sidecar=sidecar, **asked),
            "ports": taken,
            "image": image,
        },
        amounts,
        st.booleans(),
        ports,
        st.sampled_from(IMAGES),
    ),
    max_size=2,
)
held = st.lists(
    st.fixed_dictionaries(
        {
            "names": st.lists(
                st.sampled_from([f"{name}:latest" for name in ("app", "reg:5000/x")] + ["big:1"]), max_size=2
            ),
            "sizeBytes": st.sampled_from([0, 10**6, 10**8, 10**10, 2**62]),
        }
    ),
    max_size=2,
)
spreads = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": st.sampled_from(KEYS),
            "maxSkew": st.integers(1, 3),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": st.sampled_from([None, {}, *({"matchLabels": {"app": app}} for app in APPS)]),
        },
        optional={
            "minDomains": st.integers(1, 3),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.just(["tier"]),
        },
    ),
    max_size=3,
)


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    result = []
    for index in range(draw(st.integers(1, 6))):
        raw = node(
            f"n{index}",
            pods=draw(st.integers(0, 3)),
            labels=draw(labels),
            taints=draw(taints),
            unschedulable=draw(st.booleans()),
        )
        raw["status"]["allocatable"] |= draw(amounts)
        raw["status"]["images"] = draw(held)
        if draw(st.booleans()):
            del raw["metadata"]["labels"]["kubernetes.io/hostname"]
        result.append(raw)
    return result


expressions = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])},
    optional={"values": st.lists(st.sampled_from([*VALUES, "n1"]), max_size=2)},
)
fields = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1", "gone"]),
)
terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(expressions, max_size=2), "matchFields": st.lists(fields, max_size=2)}
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": terms}), max_size=3
        ),
    },
)
pod_terms = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(KEYS),
        "labelSelector": st.sampled_from([None, {}, *({"matchLabels": {"app": app}} for app in APPS)]),
    },
    optional={
        "namespaces": st.sampled_from([[], ["other"]]),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "a"}}]),
    },
)
pod_rules = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(pod_terms, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": pod_terms}), max_size=2
        ),
    },
)
tolerations = st.builds(
    toleration,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "x"]),
    st.sampled_from(["", *EFFECTS]),
    st.sampled_from(["", "Equal", "Exists"]),
)


@st.composite
def pods(draw: st.DrawFn, name: str = "p", on: str | None = None) -> dict[str, Any]:
    spec = {
        "containers": draw(containers),
        "initContainers": draw(containers),
        "tolerations": draw(st.lists(tolerations, max_size=2)),
        "nodeSelector": draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1)),
        "affinity": {
            "nodeAffinity": draw(affinities),
            "podAffinity": draw(pod_rules),
            "podAntiAffinity": draw(pod_rules),
        },
        "topologySpreadConstraints": draw(spreads),
    }
    raw = pod(name, on=draw(st.sampled_from(["", "n0", "gone"])) if on is None else on, spec=spec)
    raw["metadata"]["labels"] = draw(
        st.fixed_dictionaries({"app": st.sampled_from(APPS)}, optional={"tier": st.just("a")})
    )
    raw["metadata"]["namespace"] = draw(st.sampled_from(["default", "default", "other"]))
    if draw(st.integers(0, 9)) == 9:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return raw


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """A snapshot that has a history: nodes changed and went, pods came and went."""
    snapshot = Snapshot()
    if draw(st.booleans()):
        snapshot.set_namespace({"metadata": {"name": "other", "labels": {"team": "a"}}})
    for raw in draw(nodes()):
        snapshot.set_node(raw)
    for index in range(draw(st.integers(0, 5))):
        snapshot.place(PodInfo(draw(pods(f"x{index}", on=draw(st.sampled_from(["n0", "n1", "n2"]))))))
    for key in draw(st.sets(st.sampled_from(KEYS))):
        snapshot.label(key)  # a column that must be kept up to date by what follows
    if draw(st.booleans()):
        snapshot.remove_node("n0")
        snapshot.forget("x0")
    for raw in draw(nodes()):
        snapshot.set_node(raw)
    return snapshot


LINES = [[(0, 10), (70, 3), (100, 8)], [(20, 0), (21, 7)], [(50, 5)]]
strategies = st.sampled_from(
    [
        {"type": "LeastAllocated"},
        {"type": "MostAllocated"},
        *(
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": [{"utilization": at, "score": score} for at, score in line]},
            }
            for line in LINES
        ),
    ]
)
weights = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(RESOURCES), "weight": st.integers(1, 100)}),
    min_size=1,
    max_size=4,
    unique_by=lambda entry: entry["name"],
)
fits = st.builds(
    lambda kind, resources, ignored: plugin(
        NodeResourcesFit, scoringStrategy={**kind, "resources": resources}, ignoredResources=ignored
    ),
    strategies,
    weights,
    st.sampled_from([[], ["example.com/gpu"]]),
)
by_label = st.one_of(
    st.builds(
        lambda order: plugin(NodeLabelPriority, label="disk", order=order), st.sampled_from(["Ascending", "Descending"])
    ),
    st.just(plugin(NodeLabelPriority, label="disk", values={"ssd": 90, "5": 10}, otherwise=3)),
)
balanced = st.builds(
    lambda names: plugin(NodeResourcesBalancedAllocation, resources=[{"name": name} for name in names]),
    st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=4, unique=True),
)
PLAIN = [
    plugin(TaintToleration),
    plugin(NodeAffinity),
    plugin(NodeName),
    plugin(NodeUnschedulable),
    plugin(NodePorts),
    plugin(ImageLocality),
    plugin(PodTopologySpread),
    plugin(InterPodAffinity),
    plugin(InterPodAffinity, hardPodAffinityWeight=7, ignorePreferredTermsOfExistingPods=True),
]


def test_every_built_in_filter_and_score_is_fuzzed() -> None:
    registry = Registry.default()
    judging = {name for name in registry.names if issubclass(registry.get(name), (Filter, Score))}
    assert judging == {
        "NodeResourcesFit",
        "NodeLabelPriority",
        "TaintToleration",
        "NodeAffinity",
        "NodeName",
        "NodeUnschedulable",
        "NodePorts",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeTopology",  # with what matters to it and to Regions: test_group_batches.py
        "Regions",
        "VolumeRestrictions",  # with what matters to it and to those below: test_volume_batches.py
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
    }


@settings(max_examples=150, deadline=None)
@given(clusters(), pods(), fits, balanced, by_label, st.randoms(use_true_random=False))
def test_batch_and_per_node_methods_agree(
    snapshot: Snapshot, raw: dict[str, Any], fit: Plugin, balance: Plugin, label: Plugin, chance: Any
) -> None:
    info = PodInfo(raw)
    for one in (fit, balance, label, *PLAIN):
        rows = np.array(chance.sample(snapshot.rows.tolist(), chance.randint(0, len(snapshot.rows))), dtype=np.int64)
        compare(one, info, snapshot, rows)


def compare(one: Plugin, info: PodInfo, snapshot: Snapshot, rows: IntArray) -> None:
    state = CycleState()
    if isinstance(one, PreFilter):
        one.pre_filter(state, info, snapshot)
    if isinstance(one, Filter):
        fast = one.filter_batch(state, info, snapshot, rows)
        slow = Filter.filter_batch(one, state, info, snapshot, rows)
        assert _readable(fast, rows) == _readable(slow, rows)
    if isinstance(one, PreScore):
        one.pre_score(state, info, snapshot, rows)
    if isinstance(one, Score):
        raw = one.score_batch(state, info, snapshot, rows)
        assert raw.tolist() == Score.score_batch(one, state, info, snapshot, rows).tolist()
        assert all(0 <= score <= 100 for score in one.normalize(state, info, raw).tolist())


def _readable(verdict: BatchVerdict, rows: Any) -> list[tuple[set[str], bool]]:
    final = np.zeros(len(rows), dtype=bool) if verdict.unresolvable is None else verdict.unresolvable
    return [({reason for reason, mask in verdict.reasons.items() if mask[i]}, bool(final[i])) for i in range(len(rows))]
