"""The real API server judges SchedulingPolicies: what it refuses, in which words, and what it fills in."""

from collections.abc import Mapping
from typing import Any

import pytest

from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.errors import Invalid
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.registry import Registry
from konverge.testing import Cluster
from tests.parity.conftest import InstallCrd
from tests.unit.controllers.policies import manifest
from tests.unit.scheduler.clusters import plugin_handle

pytestmark = pytest.mark.e2e

PATH = "/apis/scheduling.konverge.dev/v1alpha1/schedulingpolicies?dryRun=All&fieldValidation=Strict"
RATIO = "RequestedToCapacityRatio"
REGION = {
    "name": "fast",
    "kind": "HighIO",
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}],
}
CHEAP = {
    "name": "cheap",
    "kind": "CostOptimal",
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "spot", "operator": "Exists"},
                {"key": "cores", "operator": "Gt", "values": ["8"]},
            ]
        }
    ],
}


@pytest.fixture(scope="module")
def api(cluster: Cluster, install_crd: InstallCrd) -> Cluster:
    install_crd(SchedulingPolicy)
    return cluster


def create(api: Cluster, profile: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    created: dict[str, Any] = api.request("POST", PATH, manifest(profile=dict(profile or {}), **spec))
    return created


def plugins(**use: Any) -> dict[str, Any]:
    return {"plugins": {"score": {"enabled": [use]}}}


FULL: list[dict[str, Any]] = [
    {"podSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}},
    {
        "podSelector": {
            "matchLabels": {"app": "web", "example.com/tier": ""},
            "matchExpressions": [
                {"key": "example.com/old", "operator": "DoesNotExist"},
                {"key": "stage", "operator": "NotIn", "values": ["dev", "test"]},
            ],
        },
        "priority": -5,
        "canaryPercent": 30,
        "activation": "Lazy",
    },
    {"suspend": True, "stopPolicy": "HoldAndDrain"},
    {"scoring": {"strategy": RATIO, "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}},
    {"topology": {"level": "topology.kubernetes.io/zone", "mode": "Hard", "numa": "Required", "nvlink": "Preferred"}},
    {"topology": {"memoryBandwidth": "Preferred"}},
    {"placement": {"regions": [REGION, CHEAP]}},
    {
        "placement": {
            "regions": [REGION, CHEAP],
            "spread": [{"region": "fast", "percent": 30}, {"region": "cheap", "percent": 70}],
        }
    },
    {"gang": {"minCount": 3}},
    {"gang": {"minCount": 1, "timeoutSeconds": 3600}},
    {"preemption": {"policy": "LowerPriority", "minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 10}},
    {"preemption": {"policy": "Never"}},
]


@pytest.mark.parametrize("spec", FULL)
def test_what_it_takes_the_model_parses_and_the_scheduler_can_run(api: Cluster, spec: dict[str, Any]) -> None:
    policy = SchedulingPolicy.parse(create(api, **spec))

    assert policy.spec == SchedulingPolicy.parse(manifest(**spec)).spec
    compile_profile(profile_config(policy.spec), Registry.default(), plugin_handle())
    rule_of(policy.spec)


def test_it_fills_in_the_defaults_of_the_model(api: Cluster) -> None:
    created = create(api, scoring={}, topology={}, gang={"minCount": 2}, preemption={})["spec"]

    assert {name: created[name] for name in ("priority", "activation", "suspend", "stopPolicy", "canaryPercent")} == {
        "priority": 0,
        "activation": "Immediate",
        "suspend": False,
        "stopPolicy": "None",
        "canaryPercent": 100,
    }
    assert created["profile"]["percentageOfNodesToScore"] == 100
    assert created["gang"]["timeoutSeconds"] == 600
    assert created["preemption"] == {
        "policy": "LowerPriority",
        "minCandidateNodesPercentage": 10,
        "minCandidateNodesAbsolute": 100,
    }
    assert created["topology"] == {"mode": "Soft", "numa": "None", "nvlink": "None", "memoryBandwidth": "None"}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"canaryPercent": 101}, "spec.canaryPercent: Invalid value: 101"),
        ({"stopPolicy": "Kill"}, 'Unsupported value: "Kill": supported values: "None", "Hold", "HoldAndDrain"'),
        ({"activation": "Later"}, 'supported values: "Immediate", "Lazy"'),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            "In and NotIn need values, Exists and DoesNotExist take none",
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}},
            "In and NotIn need values, Exists and DoesNotExist take none",
        ),
        ({"podSelector": {"matchLabels": {"app": "a b"}}}, "spec.podSelector.matchLabels.app: Invalid value"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "", "operator": "Exists"}]}}, "key: Invalid value"),
        ({"scoring": {"strategy": RATIO}}, f"shape goes with the strategy {RATIO}, and only with it"),
        (
            {"scoring": {"strategy": "MostAllocated", "shape": [{"utilization": 0, "score": 0}]}},
            f"shape goes with the strategy {RATIO}, and only with it",
        ),
        (
            {"scoring": {"strategy": RATIO, "shape": [{"utilization": 9, "score": 0}, {"utilization": 3, "score": 1}]}},
            "utilization must rise from point to point",
        ),
        (
            {"scoring": {"strategy": RATIO, "shape": [{"utilization": 9, "score": 0}, {"utilization": 9, "score": 1}]}},
            "Duplicate value",
        ),
        (
            {"scoring": {"strategy": RATIO, "shape": [{"utilization": 9, "score": 11}]}},
            "score: Invalid value: 11",
        ),
        ({"topology": {"mode": "Hard"}}, "mode Hard is about a level: name a node label"),
        ({"topology": {"level": "a b"}}, "spec.topology.level: Invalid value"),
        ({"placement": {"regions": []}}, "spec.placement.regions"),
        (
            {"placement": {"regions": [REGION], "spread": [{"region": "slow", "percent": 100}]}},
            "spread names a region that is not among regions",
        ),
        (
            {"placement": {"regions": [REGION], "spread": [{"region": "fast", "percent": 99}]}},
            "the percents of spread must make 100",
        ),
        ({"gang": {}}, "spec.gang.minCount: Required value"),
        ({"gang": {"minCount": 1, "timeoutSeconds": 3601}}, "spec.gang.timeoutSeconds: Invalid value: 3601"),
        (
            {"preemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}},
            "one of minCandidateNodesPercentage and minCandidateNodesAbsolute must be more than 0",
        ),
        (
            {"profile": plugins(name="NodeResourcesFit", canaryPercent=10)},
            "canaryPercent is the share of pods that meets version: say which version",
        ),
        ({"profile": plugins(name="NodeResourcesFit", weight=101)}, "weight: Invalid value: 101"),
    ],
)
def test_what_it_refuses_it_explains(api: Cluster, spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        create(api, **spec)

    assert problem in str(caught.value)


def test_every_extension_point_can_be_named(api: Cluster) -> None:
    points = (
        *("multiPoint", "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve"),
        *("permit", "preBind", "bind", "postBind"),
    )
    created = create(api, {"plugins": {point: {"disabled": [{"name": "Example"}]} for point in points}})

    assert set(created["spec"]["profile"]["plugins"]) == {*points}
