"""What the scheduler is told of a policy."""

from typing import Any

import pytest

from konverge.controllers.scheduling_policy.profile import check, profile_config
from konverge.errors import InvalidPluginArgs, UnknownPlugin
from konverge.scheduler.framework import Point
from konverge.scheduler.profile import PluginSet, PluginUse, ProfileConfig
from konverge.scheduler.registry import Registry
from tests.unit.controllers.policies import policy


def config(**spec: Any) -> ProfileConfig:
    return profile_config(policy(**spec).spec)


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


@pytest.mark.parametrize("point", [point for point in Point if point is not Point.QUEUE_SORT])
def test_every_point_but_the_one_queue_can_be_changed(point: Point) -> None:
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
    check(found, Registry.default())


def test_scoring_without_resources_leaves_the_plugins_default() -> None:
    assert config(scoring={}).args == {"NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated"}}}


def test_saying_the_strategy_twice_is_refused() -> None:
    args = {"scoringStrategy": {"type": "MostAllocated"}}

    with pytest.raises(InvalidPluginArgs, match="keep one of them"):
        config(scoring={}, profile={"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]})


def test_an_unknown_plugin_is_found_without_making_a_profile() -> None:
    for plugins in ({"enabled": [{"name": "Nope"}]}, {"disabled": [{"name": "Nope"}]}):
        with pytest.raises(UnknownPlugin, match=r"known: .*NodeResourcesFit"):
            check(config(profile={"plugins": {"score": plugins}}), Registry.default())


def test_unusable_arguments_are_found_without_making_a_profile() -> None:
    wrong = config(profile={"pluginConfig": [{"name": "NodeLabelPriority", "args": {"colour": "red"}}]})

    with pytest.raises(InvalidPluginArgs, match="NodeLabelPriority"):
        check(wrong, Registry.default())
