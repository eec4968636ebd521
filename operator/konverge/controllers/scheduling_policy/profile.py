"""What the scheduler is told of a policy: its spec flows in, a rule (which pods) and a profile (how) flow out. Pure.

What the spec has of its own (scoring, topology, placement, gang, preemption) is short for a plugin with arguments: the
plugin is enabled, and its arguments are made here. So there is one way to say a thing to the scheduler, and a spec that
says it twice is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge.controllers.scheduling_policy.models import SchedulingPolicySpec
from konverge.controllers.scheduling_policy.placing import RATIO, Scoring
from konverge.controllers.scheduling_policy.plugins import Plugins
from konverge.controllers.scheduling_policy.plugins import PluginSet as PluginSetPart
from konverge.controllers.scheduling_policy.selecting import LabelSelector
from konverge.errors import InvalidPluginArgs
from konverge.model.selectors import Selector
from konverge.scheduler.framework import Point
from konverge.scheduler.policies import Rule
from konverge.scheduler.profile import PluginSet, PluginUse, ProfileConfig

FIT: Final = "NodeResourcesFit"
STRATEGY: Final = "scoringStrategy"
TOPOLOGY: Final = "NodeTopology"
REGIONS: Final = "Regions"
GANG: Final = "Coscheduling"
PREEMPTION: Final = "DefaultPreemption"

Args = dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Short:
    """A part of the spec that stands for a plugin."""

    field: str
    plugin: str
    args: Mapping[str, Any]


def rule_of(spec: SchedulingPolicySpec) -> Rule:
    """Which pods are the policy's. Raises: InvalidPluginArgs for a selector that no label could match."""
    return Rule(
        pods=_selector(spec.pod_selector, "podSelector"),
        namespaces=_selector(spec.namespace_selector, "namespaceSelector"),
        priority=spec.priority,
        canary_percent=spec.canary_percent,
        hold=spec.suspend,
        drain=spec.suspend and spec.stop_policy == "HoldAndDrain",
        lazy=spec.activation == "Lazy",
    )


def profile_config(spec: SchedulingPolicySpec) -> ProfileConfig:
    """How its pods are placed. Raises: InvalidPluginArgs when the spec says the same thing in two places."""
    profile = spec.profile
    plugins = {
        point: _plugin_set(chosen)
        for point in Point
        if (chosen := _at(profile.plugins, point)) is not None and (chosen.enabled or chosen.disabled)
    }
    args: Args = {config.name: config.args for config in profile.plugin_config}
    if spec.scoring is not None:
        _say(args, "scoring", FIT, {STRATEGY: _strategy(spec.scoring)})
    for short in _shorts(spec):
        _say(args, short.field, short.plugin, short.args)
        _enable(plugins, short.plugin)
    if spec.preemption is not None:
        _say(args, "preemption", PREEMPTION, _limits(spec))
        if spec.preemption.policy == "Never":
            _disable(plugins, PREEMPTION)
    return ProfileConfig(
        scheduler_name=profile.scheduler_name,
        plugins=plugins,
        args={name: given for name, given in args.items() if given},
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )


def _selector(selector: LabelSelector | None, field: str) -> Selector:
    if selector is None:
        return Selector.everything()
    try:
        return Selector.of(selector.model_dump(by_alias=True))
    except ValueError as error:
        raise InvalidPluginArgs(f"spec.{field}: {error}") from None


def _at(plugins: Plugins, point: Point) -> PluginSetPart | None:
    chosen: PluginSetPart | None = getattr(plugins, point.name.lower())
    return chosen


def _plugin_set(plugins: PluginSetPart) -> PluginSet:
    return PluginSet(
        enabled=tuple(
            PluginUse(plugin.name, plugin.weight, plugin.version or "", plugin.canary_percent)
            for plugin in plugins.enabled
        ),
        disabled=frozenset(plugin.name for plugin in plugins.disabled),
    )


def _shorts(spec: SchedulingPolicySpec) -> list[_Short]:
    """The plugins that run only where the spec asks for them."""
    parts = (("topology", TOPOLOGY, spec.topology), ("placement", REGIONS, spec.placement), ("gang", GANG, spec.gang))
    return [
        _Short(field, plugin, part.model_dump(mode="json", by_alias=True, exclude_none=True))
        for field, plugin, part in parts
        if part is not None
    ]


def _limits(spec: SchedulingPolicySpec) -> Mapping[str, Any]:
    """The arguments of preemption, where it is on."""
    if spec.preemption is None or spec.preemption.policy == "Never":
        return {}
    return spec.preemption.model_dump(mode="json", by_alias=True, exclude={"policy"})


def _say(args: Args, field: str, plugin: str, said: Mapping[str, Any]) -> None:
    """Add what a field of the spec says to the plugin's arguments."""
    given = args.get(plugin, {})
    if twice := sorted(said.keys() & given.keys()):
        raise InvalidPluginArgs(
            f"spec.{field} and {', '.join(twice)} in the pluginConfig of {plugin} say the same thing; keep one of them"
        )
    args[plugin] = {**given, **said}


def _enable(plugins: dict[Point, PluginSet], name: str) -> None:
    """Run the plugin at all its points; what the spec says of it at one of them, such as a weight, stays."""
    everywhere = plugins.get(Point.MULTI_POINT, PluginSet())
    if any(use.name == name for use in everywhere.enabled):
        return
    plugins[Point.MULTI_POINT] = PluginSet((*everywhere.enabled, PluginUse(name)), everywhere.disabled)


def _disable(plugins: dict[Point, PluginSet], name: str) -> None:
    if any(use.name == name for chosen in plugins.values() for use in chosen.enabled):
        raise InvalidPluginArgs(f"spec.preemption has the policy Never, and {name} is enabled; keep one of them")
    everywhere = plugins.get(Point.MULTI_POINT, PluginSet())
    plugins[Point.MULTI_POINT] = PluginSet(everywhere.enabled, everywhere.disabled | {name})


def _strategy(scoring: Scoring) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": scoring.strategy}
    if scoring.strategy == RATIO:
        shape = [{"utilization": point.utilization, "score": point.score} for point in scoring.shape]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    if scoring.resources:
        strategy["resources"] = [{"name": each.name, "weight": each.weight} for each in scoring.resources]
    return strategy
