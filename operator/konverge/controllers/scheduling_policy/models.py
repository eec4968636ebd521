"""The SchedulingPolicy resource: what a person asks for, what the operator reports, and how kubectl shows it.

The schema holds the fields that are honoured, and no others: the API server refuses the rest by name.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field

from konverge.model.custom import Column, CustomResource, Part, Spec, Status
from konverge.model.fields import Cel, Immutable, ListMap

DEFAULT_SCHEDULER: Final = "default-scheduler"
MAX_REASONS: Final = 10
_PLUGIN_NAME: Final = r"^[A-Za-z][-A-Za-z0-9_.]*$"


class EnabledPlugin(Part):
    """A plugin that runs beside, or instead of, the default ones."""

    name: str = Field(min_length=1, max_length=63, pattern=_PLUGIN_NAME, description="Name of the plugin.")
    weight: int | None = Field(
        default=None, ge=1, le=100, description="Weight of its score; without it that of the default plugin, or 1."
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

    enabled: Annotated[list[EnabledPlugin], ListMap("name")] = Field(
        default_factory=list, max_length=64, description="Plugins to run in addition to the default ones."
    )
    disabled: Annotated[list[DisabledPlugin], ListMap("name")] = Field(
        default_factory=list, max_length=64, description="Default plugins not to run."
    )


class Plugins(Part):
    """Changes to the default plugins, by extension point, as in kube-scheduler's configuration."""

    multi_point: PluginSet | None = Field(default=None, description="All points that a plugin implements.")
    pre_enqueue: PluginSet | None = Field(default=None, description="Keeps the pod out of the queue until it is ready.")
    pre_filter: PluginSet | None = Field(default=None, description="Looks at the pod once, before any node.")
    filter: PluginSet | None = Field(default=None, description="Says whether the pod fits a node.")
    pre_score: PluginSet | None = Field(default=None, description="Looks at the pod once, before nodes are ranked.")
    score: PluginSet | None = Field(default=None, description="Ranks the nodes that the pod fits.")
    reserve: PluginSet | None = Field(default=None, description="Keeps books on what a pod was promised.")
    bind: PluginSet | None = Field(default=None, description="Tells the API server where the pod goes.")


class PluginConfig(Part):
    """The arguments of one plugin."""

    name: str = Field(min_length=1, max_length=63, pattern=_PLUGIN_NAME, description="Name of the plugin.")
    args: dict[str, Any] = Field(default_factory=dict, description="Its arguments, as its documentation says.")


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
        description="Pods with this spec.schedulerName are placed by this policy. Immutable.",
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


class ResourceWeight(Part):
    """How much one resource counts."""

    name: str = Field(
        min_length=1,
        max_length=316,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$",
        description="Name of the resource, such as cpu, memory or nvidia.com/gpu.",
    )
    weight: int = Field(default=1, ge=1, le=100, description="Its weight among the resources.")


class Scoring(Part):
    """How NodeResourcesFit ranks nodes; short for its scoringStrategy in pluginConfig."""

    strategy: Literal["LeastAllocated", "MostAllocated"] = Field(
        default="LeastAllocated", description="LeastAllocated spreads pods, MostAllocated packs them."
    )
    resources: Annotated[list[ResourceWeight], ListMap("name")] = Field(
        default_factory=list, max_length=32, description="The resources that count; without any, cpu and memory alike."
    )


class SchedulingPolicySpec(Spec):
    """What a person asks for."""

    priority: int = Field(
        default=0,
        ge=-(2**31),
        le=2**31 - 1,
        description="Of several policies for one schedulerName the highest priority holds it; ties go to the first name.",
    )
    suspend: bool = Field(
        default=False, description="Place no pods. A policy of lower priority takes over, if there is one."
    )
    profile: ProfilePart = Field(description="The profile that this policy gives to the scheduler.")
    scoring: Scoring | None = Field(default=None, description="How nodes are ranked by what is free on them.")


class TopReason(Part):
    """Why pods are unschedulable."""

    reason: str = Field(max_length=1024, description="The reason, in kube-scheduler's words.")
    count: int = Field(description="Number of pods.")


class SchedulingPolicyStatus(Status):
    """What the operator observed; counts are refreshed every few seconds."""

    matched: int | None = Field(default=None, description="Pods with the profile's schedulerName.")
    pending: int | None = Field(default=None, description="Pods of these that wait for a node.")
    scheduled: int | None = Field(default=None, description="Pods of these that have a node.")
    unschedulable: int | None = Field(default=None, description="Pods of these that fitted nowhere when last tried.")
    top_reasons: list[TopReason] | None = Field(
        default=None, max_length=MAX_REASONS, description="The most frequent reasons why pods are unschedulable."
    )
    last_scheduled_time: AwareDatetime | None = Field(default=None, description="When a pod last got a node.")


class SchedulingPolicy(
    CustomResource[SchedulingPolicySpec, SchedulingPolicyStatus],
    group="scheduling.konverge.dev",
    version="v1alpha1",
    namespaced=False,
    short_names=["schedpol"],
    columns=[
        Column("Priority", ".spec.priority", type="integer", description="The highest priority holds a schedulerName."),
        Column("Profile", ".spec.profile.schedulerName", description="The schedulerName of the pods that it places."),
        Column("Matched", ".status.matched", type="integer", description="Pods with that schedulerName."),
        Column("Pending", ".status.pending", type="integer", description="Pods of these that wait for a node."),
    ],
):
    """How pods with a certain schedulerName are placed: which plugins filter and rank the nodes, with which weights."""
