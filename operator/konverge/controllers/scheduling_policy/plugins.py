"""The part of a policy's spec that is kube-scheduler's own configuration: its plugins by extension point, and their args."""

from typing import Annotated, Any, Final

from pydantic import Field

from konverge.model.custom import Part
from konverge.model.fields import Cel, Immutable, ListMap

DEFAULT_SCHEDULER: Final = "default-scheduler"
_PLUGIN_NAME: Final = r"^[A-Za-z][-A-Za-z0-9_.]*$"


class EnabledPlugin(Part):
    """A plugin that runs beside, or instead of, the default ones."""

    name: str = Field(min_length=1, max_length=63, pattern=_PLUGIN_NAME, description="Name of the plugin.")
    weight: int | None = Field(
        default=None, ge=1, le=100, description="Weight of its score; without it that of the default plugin, or 1."
    )
    version: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        description="Which of the plugin's registered versions; without it the default one.",
    )
    canary_percent: int = Field(
        default=100,
        ge=0,
        le=100,
        description="The share of the pods that meets this version, by a hash of their uid; the others meet the default one.",
    )


class DisabledPlugin(Part):
    """A default plugin that does not run."""

    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=r"^(\*|[A-Za-z][-A-Za-z0-9_.]*)$",
        description="Name of the plugin; * means all.",
    )


class PluginSet(Part):
    """What changes at one extension point."""

    enabled: Annotated[
        list[
            Annotated[
                EnabledPlugin,
                Cel(
                    "self.canaryPercent == 100 || has(self.version)",
                    "canaryPercent is the share of pods that meets version: say which version",
                ),
            ]
        ],
        ListMap("name"),
    ] = Field(default_factory=list, max_length=64, description="Plugins to run in addition to the default ones.")
    disabled: Annotated[list[DisabledPlugin], ListMap("name")] = Field(
        default_factory=list, max_length=64, description="Default plugins not to run."
    )


class Plugins(Part):
    """Changes to the default plugins, by extension point, as in kube-scheduler's configuration."""

    multi_point: PluginSet | None = Field(default=None, description="All points that a plugin implements.")
    pre_enqueue: PluginSet | None = Field(default=None, description="Keeps the pod out of the queue until it is ready.")
    queue_sort: PluginSet | None = Field(
        default=None, description="Orders the pods that wait; the same plugin in all policies."
    )
    pre_filter: PluginSet | None = Field(default=None, description="Looks at the pod once, before any node.")
    filter: PluginSet | None = Field(default=None, description="Says whether the pod fits a node.")
    post_filter: PluginSet | None = Field(default=None, description="Looks for a way out when no node fits.")
    pre_score: PluginSet | None = Field(default=None, description="Looks at the pod once, before nodes are ranked.")
    score: PluginSet | None = Field(default=None, description="Ranks the nodes that the pod fits.")
    reserve: PluginSet | None = Field(default=None, description="Keeps books on what a pod was promised.")
    permit: PluginSet | None = Field(default=None, description="Holds a pod back that has a node, until others do too.")
    pre_bind: PluginSet | None = Field(default=None, description="Prepares what the pod needs on its node.")
    bind: PluginSet | None = Field(default=None, description="Tells the API server where the pod goes.")
    post_bind: PluginSet | None = Field(default=None, description="Is told of pods that were bound.")


class PluginConfig(Part):
    """The arguments of one plugin."""

    name: str = Field(min_length=1, max_length=63, pattern=_PLUGIN_NAME, description="Name of the plugin.")
    args: dict[str, Any] = Field(
        default_factory=dict, description="Its arguments, as its documentation says; the same for all its versions."
    )


class ProfilePart(Part):
    """The profile that this policy gives to the scheduler."""

    scheduler_name: Annotated[
        str,
        Immutable(),
        Cel(f"self != '{DEFAULT_SCHEDULER}'", f"{DEFAULT_SCHEDULER} is kube-scheduler's: choose another schedulerName"),
    ] = Field(
        min_length=1,
        max_length=63,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="Pods with this spec.schedulerName can be placed by this policy. Immutable.",
    )
    plugins: Plugins = Field(default_factory=Plugins, description="Changes to the default plugins.")
    plugin_config: Annotated[list[PluginConfig], ListMap("name")] = Field(
        default_factory=list, max_length=64, description="Arguments of plugins."
    )
    percentage_of_nodes_to_score: int = Field(
        default=100,
        ge=0,
        le=100,
        description="Stop looking once so many percent of the nodes, and at least 100, fit; 0 adapts to the cluster's size.",
    )
