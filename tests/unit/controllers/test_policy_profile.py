"""What the scheduler is told of a policy."""

from typing import Any

import pytest

from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.errors import InvalidPluginArgs
from konverge.model.selectors import Selector
from konverge.scheduler.framework import Point
from konverge.scheduler.policies import Rule
from konverge.scheduler.profile import PluginSet, PluginUse, ProfileConfig, compile_profile
from konverge.scheduler.registry import Registry
from tests.unit.controllers.policies import policy
from tests.unit.scheduler.clusters import plugin_handle


def config(**spec: Any) -> ProfileConfig:
    return profile_config(policy(**spec).spec)


def rule(**spec: Any) -> Rule:
    return rule_of(policy(**spec).spec)


def usable(found: ProfileConfig) -> None:
    """The built-in plugins take what they are told."""
    compile_profile(found, Registry.default(), plugin_handle())


def test_a_bare_policy_changes_nothing_of_the_default_plugins() -> None:
    assert config(scheduler_name="batch") == ProfileConfig("batch")


def test_plugins_keep_their_points_weights_and_order() -> None:
    found = config(
        profile={
            "plugins": {
                "score": {
                    "enabled": [{"name": "NodeLabelPriority", "weight": 7}, {"name": "TaintToleration"}],
                    "disabled": [{"name": "*"}],
                },
                "filter": {"disabled": [{"name": "NodeName"}]},
            }
        }
    )

    assert found.plugins == {
        Point.SCORE: PluginSet(
            enabled=(PluginUse("NodeLabelPriority", 7), PluginUse("TaintToleration")), disabled=frozenset({"*"})
        ),
        Point.FILTER: PluginSet(disabled=frozenset({"NodeName"})),
    }


def test_versions_and_canaries_go_through() -> None:
    use = {"name": "NodeResourcesFit", "version": "v2", "canaryPercent": 10}

    assert config(profile={"plugins": {"multiPoint": {"enabled": [use]}}}).plugins == {
        Point.MULTI_POINT: PluginSet(enabled=(PluginUse("NodeResourcesFit", None, "v2", 10),))
    }


@pytest.mark.parametrize("point", list(Point))
def test_every_point_can_be_changed(point: Point) -> None:
    found = config(profile={"plugins": {point.value: {"disabled": [{"name": "*"}]}}})

    assert list(found.plugins) == [point]


def test_arguments_go_through_as_they_are() -> None:
    args = {"label": "disktype", "values": {"ssd": 100}}

    assert config(profile={"pluginConfig": [{"name": "NodeLabelPriority", "args": args}]}).args == {
        "NodeLabelPriority": args
    }


def test_the_percentage_goes_through() -> None:
    assert config(profile={"percentageOfNodesToScore": 30}).percentage_of_nodes_to_score == 30


def test_scoring_is_short_for_the_strategy_of_node_resources_fit() -> None:
    found = config(
        scoring={"strategy": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]},
        profile={"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/fpga"]}}]},
    )

    assert found.args == {
        "NodeResourcesFit": {
            "ignoredResources": ["example.com/fpga"],
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
            },
        }
    }
    usable(found)


def test_a_ratio_follows_its_shape() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 80, "score": 10}]
    found = config(scoring={"strategy": "RequestedToCapacityRatio", "shape": shape})

    assert found.args["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": shape},
    }
    usable(found)


def test_scoring_without_resources_leaves_the_plugins_default() -> None:
    assert config(scoring={}).args == {"NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated"}}}


def test_saying_the_strategy_twice_is_refused() -> None:
    args = {"scoringStrategy": {"type": "MostAllocated"}}

    with pytest.raises(InvalidPluginArgs, match=r"spec\.scoring and scoringStrategy .* keep one of them"):
        config(scoring={}, profile={"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]})


SHORT = [
    ("gang", {"minCount": 3, "timeoutSeconds": 60}, "Coscheduling", {"minCount": 3, "timeoutSeconds": 60}),
    (
        "topology",
        {"level": "example.com/rack", "mode": "Hard", "numa": "Required"},
        "NodeTopology",
        {
            "level": "example.com/rack",
            "mode": "Hard",
            "numa": "Required",
            "nvlink": "None",
            "memoryBandwidth": "None",
        },
    ),
]


@pytest.mark.parametrize(("field", "value", "plugin", "args"), SHORT)
def test_a_field_that_is_short_for_a_plugin_enables_it_with_its_arguments(
    field: str, value: Any, plugin: str, args: Any
) -> None:
    found = config(**{field: value})

    assert found.plugins == {Point.MULTI_POINT: PluginSet(enabled=(PluginUse(plugin),))}
    assert found.args == {plugin: args}


@pytest.mark.parametrize(("field", "value", "plugin", "args"), SHORT)
def test_what_such_a_field_says_cannot_be_said_again(field: str, value: Any, plugin: str, args: Any) -> None:
    with pytest.raises(InvalidPluginArgs, match=rf"spec\.{field} and .* in the pluginConfig of {plugin}"):
        config(**{field: value}, profile={"pluginConfig": [{"name": plugin, "args": args}]})


@pytest.mark.parametrize("point", [Point.SCORE, Point.MULTI_POINT])
def test_such_a_plugin_runs_at_all_its_points_with_the_weight_that_it_is_given(point: Point) -> None:
    weighted = {"plugins": {point.value: {"enabled": [{"name": "NodeTopology", "weight": 9}]}}}
    found = config(topology={"level": "example.com/rack"}, profile=weighted)
    profile = compile_profile(found, Registry.default(), plugin_handle())

    assert {plugin.name: weight for plugin, weight in profile.scores}["NodeTopology"] == 9
    assert "NodeTopology" in {plugin.name for plugin in profile.pre_filters}


def test_preemption_has_its_limits() -> None:
    found = config(preemption={"minCandidateNodesAbsolute": 5})

    assert found.plugins == {}
    assert found.args == {"DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 5}}


def test_preemption_never_disables_its_plugin() -> None:
    assert config(preemption={"policy": "Never"}).plugins == {
        Point.MULTI_POINT: PluginSet(disabled=frozenset({"DefaultPreemption"}))
    }
    enabled = {"plugins": {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}}
    with pytest.raises(InvalidPluginArgs, match="policy Never, and DefaultPreemption is enabled"):
        config(preemption={"policy": "Never"}, profile=enabled)


def test_without_selectors_all_pods_are_the_policys() -> None:
    assert rule() == Rule()


def test_selectors_priority_and_canary_make_the_rule() -> None:
    found = rule(
        podSelector={"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
        priority=7,
        canaryPercent=30,
        activation="Lazy",
    )

    assert found == Rule(
        pods=Selector.parse("app=web,tier"),
        namespaces=Selector.parse("team in (a,b)"),
        priority=7,
        canary_percent=30,
        lazy=True,
    )
    assert found.specificity == 3


@pytest.mark.parametrize(
    ("stop_policy", "hold", "drain"), [("None", True, False), ("Hold", True, False), ("HoldAndDrain", True, True)]
)
def test_what_a_suspended_policy_does_with_its_pods(stop_policy: str, hold: bool, drain: bool) -> None:
    found = rule(suspend=True, stopPolicy=stop_policy)

    assert (found.hold, found.drain) == (hold, drain)
    assert rule(stopPolicy=stop_policy) == Rule()


def test_a_selector_that_no_label_can_match_is_refused_by_name() -> None:
    with pytest.raises(InvalidPluginArgs, match=r"spec\.podSelector: 'a b' cannot be a label's key"):
        rule(podSelector={"matchLabels": {"a b": "x"}})
