"""The plugins that exist, by name: the built-in ones and those that a third party registers."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ValidationError

from konverge.errors import InvalidPluginArgs, SchedulingError, UnknownPlugin
from konverge.scheduler.framework import INTERFACES, Handle, Plugin, PluginArgs
from konverge.scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from konverge.scheduler.plugins.default_binder import DefaultBinder
from konverge.scheduler.plugins.image_locality import ImageLocality
from konverge.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from konverge.scheduler.plugins.node_affinity import NodeAffinity
from konverge.scheduler.plugins.node_label_priority import NodeLabelPriority
from konverge.scheduler.plugins.node_name import NodeName
from konverge.scheduler.plugins.node_ports import NodePorts
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.node_unschedulable import NodeUnschedulable
from konverge.scheduler.plugins.pod_topology_spread import PodTopologySpread
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.plugins.scheduling_gates import SchedulingGates
from konverge.scheduler.plugins.taint_toleration import TaintToleration


class Registry:
    """Plugin classes by name."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            self.register(plugin)

    @classmethod
    def default(cls) -> Self:
        """The built-in plugins; add your own with `register`."""
        return cls(
            [
                SchedulingGates,
                PrioritySort,
                NodeUnschedulable,
                NodeName,
                TaintToleration,
                NodeAffinity,
                NodePorts,
                NodeResourcesFit,
                PodTopologySpread,
                InterPodAffinity,
                NodeResourcesBalancedAllocation,
                ImageLocality,
                NodeLabelPriority,
                DefaultBinder,
            ]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, sorted."""
        return tuple(sorted(self._plugins))

    def register(self, plugin: type[Plugin]) -> None:
        """Add a plugin.

        Raises: SchedulingError when its name is taken, or when it implements no extension point.
        """
        if plugin.name in self._plugins:
            raise SchedulingError(f"a plugin named {plugin.name!r} is registered already; give yours another name")
        if not issubclass(plugin, tuple(INTERFACES.values())):
            points = ", ".join(interface.__name__ for interface in INTERFACES.values())
            raise SchedulingError(f"plugin {plugin.name!r} implements no extension point: derive from {points}")
        self._plugins[plugin.name] = plugin

    def get(self, name: str) -> type[Plugin]:
        """The plugin of that name. Raises: UnknownPlugin."""
        try:
            return self._plugins[name]
        except KeyError:
            raise UnknownPlugin(name, self.names) from None

    def check_args(self, name: str, args: Mapping[str, Any]) -> PluginArgs:
        """Parse the arguments of a plugin. Raises: UnknownPlugin, InvalidPluginArgs."""
        model = self.get(name).Args
        try:
            return model.model_validate(args)
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, problem['loc'])) or 'args'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
            raise InvalidPluginArgs(f"plugin {name}: {'; '.join(problems)}") from None

    def build(self, name: str, args: Mapping[str, Any], handle: Handle) -> Plugin:
        """Make the plugin with its arguments. Raises: UnknownPlugin, InvalidPluginArgs."""
        return self.get(name)(self.check_args(name, args), handle)
