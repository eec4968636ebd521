"""The plugins that exist, by name: the built-in ones and those that a third party registers."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ValidationError

from konverge.errors import InvalidPluginArgs, SchedulingError, UnknownPlugin
from konverge.model.resource import ResourceType
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.extensions import installed, skip
from konverge.scheduler.framework import INTERFACES, Plugin, PluginArgs
from konverge.scheduler.handle import Handle
from konverge.scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from konverge.scheduler.plugins.coscheduling import Coscheduling
from konverge.scheduler.plugins.default_binder import DefaultBinder
from konverge.scheduler.plugins.default_preemption import DefaultPreemption
from konverge.scheduler.plugins.image_locality import ImageLocality
from konverge.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from konverge.scheduler.plugins.node_affinity import NodeAffinity
from konverge.scheduler.plugins.node_label_priority import NodeLabelPriority
from konverge.scheduler.plugins.node_name import NodeName
from konverge.scheduler.plugins.node_ports import NodePorts
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.node_topology import NodeTopology
from konverge.scheduler.plugins.node_unschedulable import NodeUnschedulable
from konverge.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from konverge.scheduler.plugins.pod_topology_spread import PodTopologySpread
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.plugins.regions import Regions
from konverge.scheduler.plugins.scheduling_gates import SchedulingGates
from konverge.scheduler.plugins.taint_toleration import TaintToleration
from konverge.scheduler.plugins.volume_binding import VolumeBinding
from konverge.scheduler.plugins.volume_restrictions import VolumeRestrictions
from konverge.scheduler.plugins.volume_zone import VolumeZone


class Registry:
    """Plugin classes by name and version. The version of a name that came first is the one that runs by default."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, dict[str, type[Plugin]]] = {}
        for plugin in plugins:
            self.register(plugin)

    @classmethod
    def default(cls) -> Self:
        """The built-in plugins and those of installed packages; add your own with `register`."""
        registry = cls(
            [
                SchedulingGates,
                PrioritySort,
                NodeUnschedulable,
                NodeName,
                TaintToleration,
                NodeAffinity,
                NodePorts,
                NodeResourcesFit,
                VolumeRestrictions,
                NodeVolumeLimits,
                VolumeBinding,
                VolumeZone,
                PodTopologySpread,
                InterPodAffinity,
                DefaultPreemption,
                NodeResourcesBalancedAllocation,
                ImageLocality,
                NodeLabelPriority,
                Coscheduling,
                NodeTopology,
                Regions,
                DefaultBinder,
            ]
        )
        for extension in installed():
            try:
                registry.register(extension.plugin)
            except SchedulingError as error:
                skip(extension.origin, str(error))
        return registry

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, sorted."""
        return tuple(sorted(self._plugins))

    def register(self, plugin: type[Plugin]) -> None:
        """Add a plugin, or another version of one.

        Raises: SchedulingError when its name and version are taken, or when it implements no extension point.
        """
        versions = self._plugins.get(plugin.name, {})
        if plugin.version in versions:
            raise SchedulingError(
                f"a plugin named {plugin.name!r} is registered already with version {plugin.version}; "
                "give yours another name, or another version to run it beside that one"
            )
        if not issubclass(plugin, tuple(INTERFACES.values())):
            points = ", ".join(interface.__name__ for interface in INTERFACES.values())
            raise SchedulingError(f"plugin {plugin.name!r} implements no extension point: derive from {points}")
        self._plugins[plugin.name] = {**versions, plugin.version: plugin}

    def get(self, name: str, version: str = "") -> type[Plugin]:
        """The plugin of that name, in its default version where none is given. Raises: UnknownPlugin."""
        versions = self._plugins.get(name)
        if versions is None:
            raise UnknownPlugin(name, self.names)
        if not version:
            return next(iter(versions.values()))
        try:
            return versions[version]
        except KeyError:
            raise UnknownPlugin(f"{name}@{version}", [f"{name}@{known}" for known in versions]) from None

    def events(self, name: str) -> frozenset[ClusterEvent]:
        """What may change the mind of a plugin, whichever of its versions spoke. Raises: UnknownPlugin."""
        self.get(name)
        return frozenset().union(*(plugin.events for plugin in self._plugins[name].values()))

    @property
    def reads(self) -> frozenset[ResourceType]:
        """What the plugins read besides pods, nodes and namespaces: a scheduler needs a cache of each."""
        return frozenset().union(*(plugin.reads for versions in self._plugins.values() for plugin in versions.values()))

    @property
    def reads_if_served(self) -> frozenset[ResourceType]:
        """The same, of what a cluster may lack."""
        every = (plugin for versions in self._plugins.values() for plugin in versions.values())
        return frozenset().union(*(plugin.reads_if_served for plugin in every))

    def check_args(self, name: str, args: Mapping[str, Any], version: str = "") -> PluginArgs:
        """Parse the arguments of a plugin. Raises: UnknownPlugin, InvalidPluginArgs."""
        model = self.get(name, version).Args
        try:
            return model.model_validate(args)
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, problem['loc'])) or 'args'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
            called = f"{name}@{version}" if version else name
            raise InvalidPluginArgs(f"plugin {called}: {'; '.join(problems)}") from None

    def build(self, name: str, args: Mapping[str, Any], handle: Handle, version: str = "") -> Plugin:
        """Make the plugin with its arguments. Raises: UnknownPlugin, InvalidPluginArgs."""
        return self.get(name, version)(self.check_args(name, args, version), handle)
