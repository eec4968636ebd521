"""Profiles and the registry: which plugins run where, and what is refused, in words that say what to do."""

from typing import Any

import pytest

from konverge.errors import InvalidPluginArgs, SchedulingError, UnknownPlugin
from konverge.scheduler import ALL_PLUGINS, PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.framework import Plugin
from konverge.scheduler.plugins.node_label_priority import NodeLabelPriority
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.profile import Profile, compile_profile
from tests.unit.scheduler.clusters import plugin_handle

LABEL = {"NodeLabelPriority": {"label": "disk"}}


def compiled(plugins: dict[Point, PluginSet] | None = None, **config: Any) -> Profile:
    wanted = ProfileConfig(**{"scheduler_name": "x", "plugins": plugins or {}, **config})
    return compile_profile(wanted, Registry.default(), plugin_handle())


VOLUMES = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"]
DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def enabled(*uses: tuple[str, int | None], disabled: set[str] | None = None) -> PluginSet:
    return PluginSet(tuple(PluginUse(*use) for use in uses), frozenset(disabled or ()))


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


def weights(profile: Profile) -> dict[str, int]:
    return {plugin.name: weight for plugin, weight in profile.scores}


def test_the_default_profile_has_kube_schedulers_order_and_weights() -> None:
    profile = compiled()
    assert names(profile.filters) == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        *VOLUMES,
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert weights(profile) == DEFAULT_WEIGHTS
    assert names(profile.pre_filters) == [
        "NodeAffinity",
        "NodePorts",
        *VOLUMES,
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert names(profile.reserves) == names(profile.pre_binds) == ["VolumeBinding"]
    assert names(profile.pre_scores) == [
        "NodeAffinity",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ]
    assert names(profile.pre_enqueues) == ["SchedulingGates"]
    assert (profile.queue_sort.name, names(profile.binds)) == ("PrioritySort", ["DefaultBinder"])


def test_a_plugin_is_one_instance_at_all_its_points() -> None:
    profile = compiled()
    everywhere: list[object] = [profile.filters[3], profile.pre_filters[0], profile.pre_scores[0], profile.scores[1][0]]
    assert all(one is everywhere[0] for one in everywhere)


def test_enabling_adds_and_sets_weights() -> None:
    multi = {Point.MULTI_POINT: enabled(("NodeLabelPriority", 7), ("TaintToleration", 5), ("NodeAffinity", None))}
    profile = compiled(multi, args=LABEL)
    assert weights(profile) == DEFAULT_WEIGHTS | {"TaintToleration": 5, "NodeLabelPriority": 7}
    assert weights(compiled({Point.SCORE: enabled(("NodeLabelPriority", None))}, args=LABEL))["NodeLabelPriority"] == 1
    both = {**multi, Point.SCORE: enabled(("NodeLabelPriority", 9))}
    assert weights(compiled(both, args=LABEL))["NodeLabelPriority"] == 9


def test_disabling_at_one_point_leaves_the_others() -> None:
    profile = compiled({Point.SCORE: enabled(disabled={"TaintToleration"})})
    assert "TaintToleration" not in weights(profile)
    assert "TaintToleration" in names(profile.filters)
    everywhere = compiled({Point.MULTI_POINT: enabled(disabled={"TaintToleration"})})
    assert "TaintToleration" not in names(everywhere.filters)


def test_all_can_be_disabled_and_some_enabled_again() -> None:
    only = {Point.SCORE: enabled(("NodeLabelPriority", 1), disabled={ALL_PLUGINS})}
    assert weights(compiled(only, args=LABEL)) == {"NodeLabelPriority": 1}
    few = enabled(("PrioritySort", None), ("DefaultBinder", None), ("NodeName", None), disabled={ALL_PLUGINS})
    profile = compiled({Point.MULTI_POINT: few})
    assert (names(profile.filters), profile.scores) == (["NodeName"], ())


def test_a_plugin_enabled_at_a_point_goes_before_the_general_ones() -> None:
    first = compiled({Point.FILTER: enabled(("NodeResourcesFit", None))})
    assert names(first.filters)[0] == "NodeResourcesFit"
    assert len(first.filters) == len(compiled().filters)


def test_arguments_reach_their_plugin() -> None:
    profile = compiled(args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}})
    fit = next(plugin for plugin in profile.filters if plugin.name == "NodeResourcesFit")
    assert fit._most  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("plugins", "config", "problem"),
    [
        ({}, {"scheduler_name": ""}, "a profile needs a schedulerName"),
        ({}, {"percentage_of_nodes_to_score": 101}, "must be from 0 \\(adaptive\\) to 100, not 101"),
        ({Point.SCORE: enabled(("NodeName", 1))}, {}, "plugin NodeName does not run at score; it runs at: filter"),
        (
            {Point.SCORE: enabled(("TaintToleration", 0))},
            {},
            "weight of plugin TaintToleration must be from 1 to 100, not 0",
        ),
        ({Point.SCORE: enabled(("TaintToleration", 1), ("TaintToleration", 2))}, {}, "enabled twice at score"),
        ({Point.BIND: enabled(disabled={"DefaultBinder"})}, {}, "needs a bind plugin"),
        ({Point.QUEUE_SORT: enabled(disabled={ALL_PLUGINS})}, {}, "needs exactly one queueSort plugin"),
    ],
)
def test_what_cannot_work_is_refused(plugins: Any, config: Any, problem: str) -> None:
    with pytest.raises(SchedulingError, match=problem):
        compiled(plugins, **config)


@pytest.mark.parametrize(
    ("plugins", "args"),
    [
        ({Point.FILTER: enabled(("Nope", None))}, {}),
        ({Point.FILTER: enabled(disabled={"Nope"})}, {}),
        ({}, {"Nope": {}}),
    ],
    ids=["enabled", "disabled", "args"],
)
def test_an_unknown_plugin_is_refused_wherever_it_is_named(plugins: Any, args: Any) -> None:
    with pytest.raises(UnknownPlugin, match=r"unknown plugin 'Nope'; known: .*DefaultBinder, .*TaintToleration"):
        compiled(plugins, args=args)


def test_bad_arguments_name_plugin_field_and_rule() -> None:
    bad = {"NodeResourcesFit": {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}}
    with pytest.raises(InvalidPluginArgs) as raised:
        compiled(args=bad)
    where = "plugin NodeResourcesFit: scoringStrategy.resources.0.weight"
    assert str(raised.value) == f"{where}: Input should be less than or equal to 100"
    with pytest.raises(
        InvalidPluginArgs, match="plugin NodeLabelPriority: args: Value error, `otherwise` needs `values`"
    ):
        compiled(args={"NodeLabelPriority": {"label": "disk", "otherwise": 5}})


def test_a_plugin_without_arguments_takes_none() -> None:
    with pytest.raises(InvalidPluginArgs, match="plugin NodeName: strict: Extra inputs are not permitted"):
        compiled(args={"NodeName": {"strict": True}})


def test_the_registry_takes_a_name_once_and_only_what_can_be_called() -> None:
    class Nothing(Plugin):
        name = "Nothing"

    registry = Registry([NodeResourcesFit])
    with pytest.raises(SchedulingError, match="a plugin named 'NodeResourcesFit' is registered already"):
        registry.register(NodeResourcesFit)
    with pytest.raises(
        SchedulingError, match="plugin 'Nothing' implements no extension point: derive from PreEnqueue, QueueSort"
    ):
        registry.register(Nothing)
    registry.register(NodeLabelPriority)
    assert registry.names == ("NodeLabelPriority", "NodeResourcesFit")
