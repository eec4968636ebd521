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
    Handle,
    Plugin,
    Point,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    Reserve,
    Score,
)
from konverge.scheduler.registry import Registry

ALL_PLUGINS: Final = "*"
"""In `PluginSet.disabled`: all the default plugins."""

MAX_WEIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plugin that a profile enables. `weight` is that of its scores, 1-100; None is the default plugin's, or 1."""

    name: str
    weight: int | None = None


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
    PluginUse("PodTopologySpread", 2),
    PluginUse("InterPodAffinity", 2),
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
    pre_scores: tuple[PreScore, ...]
    scores: tuple[tuple[Score, int], ...]
    """With their weights."""
    reserves: tuple[Reserve, ...]
    binds: tuple[Bind, ...]


def compile_profile(config: ProfileConfig, registry: Registry, handle: Handle) -> Profile:
    """Check `config` and make its plugins, one instance each.

    Raises: UnknownPlugin; InvalidPluginArgs; SchedulingError for anything else that is wrong with it.
    """
    _check(config, registry)
    weights = {use.name: use.weight for use in DEFAULT_PLUGINS}
    chosen = {point: _names_at(point, config, registry) for point in INTERFACES}
    instances = {
        name: registry.build(name, config.args.get(name, {}), handle)
        for name in dict.fromkeys(name for names in chosen.values() for name in names)
    }
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
        pre_scores=_of(chosen[Point.PRE_SCORE], instances),
        scores=tuple((score, weights.get(score.name) or 1) for score in scores),
        reserves=_of(chosen[Point.RESERVE], instances),
        binds=binds,
    )


def _check(config: ProfileConfig, registry: Registry) -> None:
    if not config.scheduler_name:
        raise SchedulingError("a profile needs a schedulerName: the spec.schedulerName of the pods it is for")
    if not 0 <= config.percentage_of_nodes_to_score <= 100:
        raise SchedulingError(
            f"percentageOfNodesToScore must be from 0 (adaptive) to 100, not {config.percentage_of_nodes_to_score}"
        )
    for name, args in config.args.items():
        registry.check_args(name, args)
    for point, plugins in config.plugins.items():
        for name in plugins.disabled - {ALL_PLUGINS}:
            registry.get(name)
        names = [use.name for use in plugins.enabled]
        for use in plugins.enabled:
            plugin = registry.get(use.name)
            if point is not Point.MULTI_POINT and not issubclass(plugin, INTERFACES[point]):
                points = ", ".join(p.value for p, interface in INTERFACES.items() if issubclass(plugin, interface))
                raise SchedulingError(f"plugin {use.name} does not run at {point.value}; it runs at: {points}")
            if use.weight is not None and not 1 <= use.weight <= MAX_WEIGHT:
                raise SchedulingError(f"the weight of plugin {use.name} must be from 1 to 100, not {use.weight}")
            if names.count(use.name) > 1:
                raise SchedulingError(f"plugin {use.name} is enabled twice at {point.value}; keep one")


def _names_at(point: Point, config: ProfileConfig, registry: Registry) -> list[str]:
    """The plugins that run at `point`, in order: those enabled there, then those of all points."""
    everywhere = config.plugins.get(Point.MULTI_POINT, PluginSet())
    here = config.plugins.get(point, PluginSet())
    added = [use.name for use in everywhere.enabled]
    defaults = [use.name for use in DEFAULT_PLUGINS if not _disables(everywhere, use.name) or use.name in added]
    general = [
        name
        for name in dict.fromkeys([*defaults, *added])
        if issubclass(registry.get(name), INTERFACES[point]) and not _disables(here, name)
    ]
    return list(dict.fromkeys([*(use.name for use in here.enabled), *general]))


def _disables(plugins: PluginSet, name: str) -> bool:
    return name in plugins.disabled or ALL_PLUGINS in plugins.disabled


def _of(names: list[str], instances: Mapping[str, Plugin]) -> tuple[Any, ...]:
    """The instances of `names`; that each implements its point was checked when it was chosen."""
    return tuple(instances[name] for name in names)
