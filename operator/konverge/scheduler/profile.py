"""Profiles: which plugins run at which extension point, with which weights and arguments.

A `ProfileConfig` is what a person asks for, in the shape of kube-scheduler's configuration: the default plugins, less
those disabled, plus those enabled. `compile_profile` turns it into a `Profile` that the cycle can run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.errors import SchedulingError
from konverge.scheduler.framework import (
    INTERFACES,
    Bind,
    Filter,
    Permit,
    Plugin,
    Point,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    Reserve,
    Score,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.registry import Registry

ALL_PLUGINS: Final = "*"
"""In `PluginSet.disabled`: all the default plugins."""

MAX_WEIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plugin that a profile enables. `weight` is that of its scores, 1-100; None is the default plugin's, or 1.

    `version` runs for `canary_percent` of the pods, and the default version for the others; empty is the default version.
    """

    name: str
    weight: int | None = None
    version: str = ""
    canary_percent: int = 100


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What a profile changes at one extension point. A name in both is run with what `enabled` says."""

    enabled: tuple[PluginUse, ...] = ()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """A profile as a person asks for it."""

    scheduler_name: str
    """The `spec.schedulerName` of the pods it is for."""
    plugins: Mapping[Point, PluginSet] = field(default_factory=dict)
    """Changes to the default plugins; `Point.MULTI_POINT` stands for all points that a plugin implements."""
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments by plugin name, camelCase as in a manifest."""
    percentage_of_nodes_to_score: int = 100
    """Stop looking once so many percent of the nodes (and at least 100) fit; 0 adapts to the size of the cluster."""


DEFAULT_PLUGINS: Final = (
    PluginUse("SchedulingGates"),
    PluginUse("PrioritySort"),
    PluginUse("NodeUnschedulable"),
    PluginUse("NodeName"),
    PluginUse("TaintToleration", 3),
    PluginUse("NodeAffinity", 2),
    PluginUse("NodePorts"),
    PluginUse("NodeResourcesFit", 1),
    PluginUse("VolumeRestrictions"),
    PluginUse("NodeVolumeLimits"),
    PluginUse("VolumeBinding"),
    PluginUse("VolumeZone"),
    PluginUse("PodTopologySpread", 2),
    PluginUse("InterPodAffinity", 2),
    PluginUse("DefaultPreemption"),
    PluginUse("NodeResourcesBalancedAllocation", 1),
    PluginUse("ImageLocality", 1),
    PluginUse("DefaultBinder"),
)
"""What runs where a profile changes nothing, in this order, with kube-scheduler's weights."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile that can be run."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    pre_enqueues: tuple[PreEnqueue, ...]
    queue_sort: QueueSort
    pre_filters: tuple[PreFilter, ...]
    filters: tuple[Filter, ...]
    post_filters: tuple[PostFilter, ...]
    pre_scores: tuple[PreScore, ...]
    scores: tuple[tuple[Score, int], ...]
    """With their weights."""
    reserves: tuple[Reserve, ...]
    permits: tuple[Permit, ...]
    pre_binds: tuple[PreBind, ...]
    binds: tuple[Bind, ...]
    post_binds: tuple[PostBind, ...]


def compile_profile(
    config: ProfileConfig,
    registry: Registry,
    handle: Handle,
    *,
    share: int = 0,
    made: dict[type[Plugin], Plugin] | None = None,
) -> Profile:
    """Check `config` and make its plugins, one instance each, as they run for the pods of one share.

    A pod's `share`, 0-99, decides which version of a plugin it meets: the canary's below its percentage, else the
    default one. Plugins that are in `made` are taken from there, and put there.

    Raises: UnknownPlugin; InvalidPluginArgs; SchedulingError for anything else that is wrong with it.
    """
    check_config(config, registry)
    versions = _versions(config, share)
    weights = {use.name: use.weight for use in DEFAULT_PLUGINS}
    chosen = {point: _names_at(point, config, registry, versions) for point in INTERFACES}
    known = made if made is not None else {}
    instances: dict[str, Plugin] = {}
    for name in dict.fromkeys(name for names in chosen.values() for name in names):
        version = versions.get(name, "")
        plugin = registry.get(name, version)
        if plugin not in known:
            known[plugin] = registry.build(name, config.args.get(name, {}), handle, version)
        instances[name] = known[plugin]
    for point in (Point.MULTI_POINT, Point.SCORE):
        for use in config.plugins.get(point, PluginSet()).enabled:
            weights[use.name] = use.weight or weights.get(use.name)
    sorters: tuple[QueueSort, ...] = _of(chosen[Point.QUEUE_SORT], instances)
    binds: tuple[Bind, ...] = _of(chosen[Point.BIND], instances)
    scores: tuple[Score, ...] = _of(chosen[Point.SCORE], instances)
    if len(sorters) != 1 or not binds:
        lacking = "exactly one queueSort plugin" if len(sorters) != 1 else "a bind plugin"
        raise SchedulingError(f"profile {config.scheduler_name!r} needs {lacking}; enable PrioritySort, DefaultBinder")
    return Profile(
        scheduler_name=config.scheduler_name,
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        pre_enqueues=_of(chosen[Point.PRE_ENQUEUE], instances),
        queue_sort=sorters[0],
        pre_filters=_of(chosen[Point.PRE_FILTER], instances),
        filters=_of(chosen[Point.FILTER], instances),
        post_filters=_of(chosen[Point.POST_FILTER], instances),
        pre_scores=_of(chosen[Point.PRE_SCORE], instances),
        scores=tuple((score, weights.get(score.name) or 1) for score in scores),
        reserves=_of(chosen[Point.RESERVE], instances),
        permits=_of(chosen[Point.PERMIT], instances),
        pre_binds=_of(chosen[Point.PRE_BIND], instances),
        binds=binds,
        post_binds=_of(chosen[Point.POST_BIND], instances),
    )


def check_config(config: ProfileConfig, registry: Registry) -> None:
    """Check the names, versions, weights and arguments. Raises: as `compile_profile`."""
    if not config.scheduler_name:
        raise SchedulingError("a profile needs a schedulerName: the spec.schedulerName of the pods it is for")
    if not 0 <= config.percentage_of_nodes_to_score <= 100:
        raise SchedulingError(
            f"percentageOfNodesToScore must be from 0 (adaptive) to 100, not {config.percentage_of_nodes_to_score}"
        )
    always = {use.name: use.version for use in _canaries(config) if use.canary_percent == 100}
    for name, args in config.args.items():
        registry.check_args(name, args, always.get(name, ""))
    for point, plugins in config.plugins.items():
        for name in plugins.disabled - {ALL_PLUGINS}:
            registry.get(name)
        names = [use.name for use in plugins.enabled]
        for use in plugins.enabled:
            _check_use(point, use, config, registry)
            if names.count(use.name) > 1:
                raise SchedulingError(f"plugin {use.name} is enabled twice at {point.value}; keep one")
    canaries: dict[str, PluginUse] = {}
    for use in _canaries(config):
        first = canaries.setdefault(use.name, use)
        if (first.version, first.canary_percent) != (use.version, use.canary_percent):
            raise SchedulingError(
                f"plugin {use.name} is enabled with version {first.version} for {first.canary_percent} % and with version "
                f"{use.version} for {use.canary_percent} % of the pods; a pod meets one version at all points, keep one"
            )


def _check_use(point: Point, use: PluginUse, config: ProfileConfig, registry: Registry) -> None:
    """Whatever version of the plugin a pod meets must exist, take the arguments, and run at `point`."""
    for version in (use.version,) if use.canary_percent == 100 else (use.version, ""):
        plugin = registry.get(use.name, version)
        if point is not Point.MULTI_POINT and not issubclass(plugin, INTERFACES[point]):
            points = ", ".join(p.value for p, interface in INTERFACES.items() if issubclass(plugin, interface))
            raise SchedulingError(f"plugin {use.name} does not run at {point.value}; it runs at: {points}")
        registry.check_args(use.name, config.args.get(use.name, {}), version)
    if use.weight is not None and not 1 <= use.weight <= MAX_WEIGHT:
        raise SchedulingError(f"the weight of plugin {use.name} must be from 1 to 100, not {use.weight}")
    if not 0 <= use.canary_percent <= 100:
        raise SchedulingError(f"the canaryPercent of plugin {use.name} must be from 0 to 100, not {use.canary_percent}")
    if use.canary_percent < 100 and not use.version:
        raise SchedulingError(
            f"the canaryPercent of plugin {use.name} is the share of pods that meet its `version`; say which version"
        )


def _canaries(config: ProfileConfig) -> list[PluginUse]:
    return [use for plugins in config.plugins.values() for use in plugins.enabled if use.version]


def _versions(config: ProfileConfig, share: int) -> dict[str, str]:
    """The version by plugin that the pods of a share meet, where it is not the default one."""
    return {use.name: use.version for use in _canaries(config) if share < use.canary_percent}


def _names_at(point: Point, config: ProfileConfig, registry: Registry, versions: Mapping[str, str]) -> list[str]:
    """The plugins that run at `point`, in order: those enabled there, then those of all points."""
    everywhere = config.plugins.get(Point.MULTI_POINT, PluginSet())
    here = config.plugins.get(point, PluginSet())
    added = [use.name for use in everywhere.enabled]
    defaults = [use.name for use in DEFAULT_PLUGINS if not _disables(everywhere, use.name) or use.name in added]
    general = [
        name
        for name in dict.fromkeys([*defaults, *added])
        if issubclass(registry.get(name, versions.get(name, "")), INTERFACES[point]) and not _disables(here, name)
    ]
    return list(dict.fromkeys([*(use.name for use in here.enabled), *general]))


def _disables(plugins: PluginSet, name: str) -> bool:
    return name in plugins.disabled or ALL_PLUGINS in plugins.disabled


def _of(names: list[str], instances: Mapping[str, Plugin]) -> tuple[Any, ...]:
    """The instances of `names`; that each implements its point was checked when it was chosen."""
    return tuple(instances[name] for name in names)
