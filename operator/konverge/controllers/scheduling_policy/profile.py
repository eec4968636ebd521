"""The scheduler's configuration of a profile out of a policy's spec. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from konverge.controllers.scheduling_policy.models import PluginSet as PluginSetPart
from konverge.controllers.scheduling_policy.models import SchedulingPolicySpec, Scoring
from konverge.errors import InvalidPluginArgs
from konverge.scheduler.framework import Point
from konverge.scheduler.profile import ALL_PLUGINS, PluginSet, PluginUse, ProfileConfig
from konverge.scheduler.registry import Registry

FIT: Final = "NodeResourcesFit"
STRATEGY: Final = "scoringStrategy"


def profile_config(spec: SchedulingPolicySpec) -> ProfileConfig:
    """What the scheduler is told. Raises: InvalidPluginArgs when the spec says the same thing in two places."""
    profile = spec.profile
    chosen = profile.plugins
    by_point = {
        Point.MULTI_POINT: chosen.multi_point,
        Point.PRE_ENQUEUE: chosen.pre_enqueue,
        Point.PRE_FILTER: chosen.pre_filter,
        Point.FILTER: chosen.filter,
        Point.PRE_SCORE: chosen.pre_score,
        Point.SCORE: chosen.score,
        Point.RESERVE: chosen.reserve,
        Point.BIND: chosen.bind,
    }
    return ProfileConfig(
        scheduler_name=profile.scheduler_name,
        plugins={point: _plugin_set(plugins) for point, plugins in by_point.items() if plugins is not None},
        args=_args(spec),
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )


def _plugin_set(plugins: PluginSetPart) -> PluginSet:
    return PluginSet(
        enabled=tuple(PluginUse(plugin.name, plugin.weight) for plugin in plugins.enabled),
        disabled=frozenset(plugin.name for plugin in plugins.disabled),
    )


def _args(spec: SchedulingPolicySpec) -> dict[str, Mapping[str, Any]]:
    args: dict[str, Mapping[str, Any]] = {config.name: config.args for config in spec.profile.plugin_config}
    if spec.scoring is not None:
        given = args.get(FIT, {})
        if STRATEGY in given:
            raise InvalidPluginArgs(
                f"spec.scoring and {STRATEGY} in the pluginConfig of {FIT} both say how nodes are ranked; keep one of them"
            )
        args[FIT] = {**given, STRATEGY: _strategy(spec.scoring)}
    return args


def _strategy(scoring: Scoring) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": scoring.strategy}
    if scoring.resources:
        strategy["resources"] = [{"name": each.name, "weight": each.weight} for each in scoring.resources]
    return strategy


def check(config: ProfileConfig, registry: Registry) -> None:
    """Check names and arguments without making a profile, for a policy that does not hold its schedulerName now.

    Raises: UnknownPlugin; InvalidPluginArgs.
    """
    for plugins in config.plugins.values():
        for name in (*(use.name for use in plugins.enabled), *(plugins.disabled - {ALL_PLUGINS})):
            registry.get(name)
    for name, args in config.args.items():
        registry.check_args(name, args)
