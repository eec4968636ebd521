"""The parts of a policy's spec that are short for plugins and their arguments: scoring, topology, regions, gangs, preemption."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from konverge.controllers.scheduling_policy.selecting import LABEL_KEY
from konverge.model.custom import Part
from konverge.model.fields import Cel, ListMap

Wish: TypeAlias = Literal["None", "Preferred", "Required"]
RATIO: Literal["RequestedToCapacityRatio"] = "RequestedToCapacityRatio"


class ResourceWeight(Part):
    """How much one resource counts."""

    name: str = Field(
        min_length=1,
        max_length=316,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$",
        description="Name of the resource, such as cpu, memory or nvidia.com/gpu.",
    )
    weight: int = Field(default=1, ge=1, le=100, description="Its weight among the resources.")


class ShapePoint(Part):
    """One point of the line from utilization to score."""

    utilization: int = Field(ge=0, le=100, description="How much of a resource would be in use, in percent.")
    score: int = Field(ge=0, le=10, description="The score at that utilization.")


class Scoring(Part):
    """How NodeResourcesFit ranks nodes; short for its scoringStrategy in pluginConfig."""

    strategy: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = Field(
        default="LeastAllocated",
        description="LeastAllocated spreads pods, MostAllocated packs them, RequestedToCapacityRatio follows shape.",
    )
    shape: Annotated[
        list[ShapePoint],
        ListMap("utilization"),
        Cel("self.map(p, p.utilization).isSorted()", "utilization must rise from point to point"),
    ] = Field(
        default_factory=list,
        max_length=101,
        description="For RequestedToCapacityRatio: the points of the line, level before the first and after the last.",
    )
    resources: Annotated[list[ResourceWeight], ListMap("name")] = Field(
        default_factory=list, max_length=32, description="The resources that count; without any, cpu and memory alike."
    )


class Topology(Part):
    """How close the pods of one group come together, and to their devices; short for the plugin NodeTopology."""

    level: str | None = Field(
        default=None,
        min_length=1,
        max_length=317,
        pattern=LABEL_KEY,
        description="The node label whose values are the domains: the pods of a group go to one of them.",
    )
    mode: Literal["Hard", "Soft"] = Field(
        default="Soft", description="Hard: a group's pods wait rather than leave its domain. Soft: they prefer it."
    )
    numa: Wish = Field(default="None", description="One NUMA zone of the node holds all that the pod asks for.")
    nvlink: Wish = Field(default="None", description="A group's pods with GPUs are in one NVLink domain.")
    memory_bandwidth: Wish = Field(
        default="None", description="The node has the memory bandwidth that the pod asks for."
    )


class NodeRequirement(Part):
    """One condition on a node label."""

    key: str = Field(min_length=1, max_length=317, pattern=LABEL_KEY, description="The label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="As in a pod's nodeAffinity."
    )
    values: list[Annotated[str, Field(max_length=63)]] = Field(
        default_factory=list, max_length=64, description="One for Gt and Lt, none for Exists and DoesNotExist."
    )


class NodeTerm(Part):
    """Conditions on nodes that must all hold."""

    match_expressions: list[NodeRequirement] = Field(
        min_length=1, max_length=32, description="The conditions on the labels."
    )


class Region(Part):
    """A named set of nodes."""

    name: str = Field(min_length=1, max_length=63, description="What the region is called.")
    kind: Literal["HighIO", "GPUAffinity", "CostOptimal", "Custom"] = Field(
        default="Custom",
        description="Whom it is for: pods with much I/O, pods with GPUs, pods that bear spot nodes, or any.",
    )
    node_selector_terms: list[NodeTerm] = Field(
        min_length=1, max_length=16, description="Its nodes: those for which one of the terms holds."
    )


class RegionShare(Part):
    """A region's share of each group of pods."""

    region: str = Field(min_length=1, max_length=63, description="Name of the region.")
    percent: int = Field(ge=0, le=100, description="The share of a group's pods that goes there.")


class Placement(Part):
    """Which regions of the cluster pods prefer; short for the plugin Regions."""

    regions: Annotated[list[Region], ListMap("name")] = Field(
        min_length=1, max_length=16, description="The regions; of equally good ones the first is preferred."
    )
    spread: Annotated[list[RegionShare], ListMap("region")] = Field(
        default_factory=list, max_length=16, description="How the pods of one group are shared out over the regions."
    )


class Gang(Part):
    """Pods that are placed all together or not at all; short for the plugin Coscheduling."""

    min_count: int = Field(ge=1, le=10_000, description="So many pods of a gang must have a node before any is bound.")
    timeout_seconds: int = Field(
        default=600, ge=1, le=3600, description="How long pods wait on their nodes for the rest of their gang."
    )


class Preemption(Part):
    """Whether a pod may take the place of pods with a lower priority; short for the plugin DefaultPreemption."""

    policy: Literal["LowerPriority", "Never"] = Field(
        default="LowerPriority", description="Never: nobody has to go, whatever the pod's priority."
    )
    min_candidate_nodes_percentage: int = Field(
        default=10, ge=0, le=100, description="At least so many percent of the nodes are tried."
    )
    min_candidate_nodes_absolute: int = Field(default=100, ge=0, description="At least so many nodes are tried.")
