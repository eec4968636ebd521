"""The SchedulingPolicy resource: what a person asks for, what the operator reports, and how kubectl shows it.

The schema holds the fields that are honoured, and no others: the API server refuses the rest by name. The parts of the
spec stand in `selecting` (which pods), `plugins` (kube-scheduler's own configuration) and `placing` (what is short for
it).
"""

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field

from konverge.controllers.scheduling_policy.placing import RATIO, Gang, Placement, Preemption, Scoring, Topology
from konverge.controllers.scheduling_policy.plugins import ProfilePart
from konverge.controllers.scheduling_policy.selecting import LabelSelector
from konverge.model.custom import Column, CustomResource, Part, Spec, Status
from konverge.model.fields import Cel

MAX_REASONS: Final = 10


class SchedulingPolicySpec(Spec):
    """What a person asks for."""

    pod_selector: LabelSelector | None = Field(
        default=None, description="Only pods with such labels; without it all with the profile's schedulerName."
    )
    namespace_selector: LabelSelector | None = Field(
        default=None, description="Only pods in namespaces with such labels; without it in all."
    )
    priority: int = Field(
        default=0,
        ge=-(2**31),
        le=2**31 - 1,
        description=(
            "Of several policies that match a pod the highest priority has it; ties go to the one with more conditions in "
            "its selectors, then to the first name."
        ),
    )
    activation: Literal["Immediate", "Lazy"] = Field(
        default="Immediate",
        description=(
            "When an edit of how pods are placed reaches pods that wait already. Immediate: at once, they are tried again. "
            "Lazy: never, it is for pods that come later; a restarted operator does not know of earlier profiles. Which "
            "pods are the policy's is always decided anew at once."
        ),
    )
    suspend: bool = Field(default=False, description="Place no pods; stopPolicy says what becomes of them.")
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] = Field(
        default="None",
        description=(
            "While suspended. None: the policy is as if it were not there, the next one that matches a pod has it. Hold: its "
            "pods wait for it. HoldAndDrain: and those that have a node are evicted, as disruption budgets allow, if "
            "something is there that makes them anew."
        ),
    )
    canary_percent: int = Field(
        default=100,
        ge=0,
        le=100,
        description="Only this share of the matching pods, by a hash of their uid; the others are the next policy's.",
    )
    profile: ProfilePart = Field(description="The profile that this policy gives to the scheduler.")
    scoring: (
        Annotated[
            Scoring,
            Cel(
                f"(self.strategy == '{RATIO}') == (has(self.shape) && self.shape.size() > 0)",
                f"shape goes with the strategy {RATIO}, and only with it",
            ),
        ]
        | None
    ) = Field(default=None, description="How nodes are ranked by what is free on them.")
    topology: (
        Annotated[
            Topology,
            Cel("self.mode != 'Hard' || has(self.level)", "mode Hard is about a level: name a node label"),
        ]
        | None
    ) = Field(default=None, description="How close pods come to each other and to their devices.")
    placement: (
        Annotated[
            Placement,
            Cel(
                "!has(self.spread) || self.spread.all(s, self.regions.exists(r, r.name == s.region))",
                "spread names a region that is not among regions",
            ),
            Cel(
                "!has(self.spread) || self.spread.size() == 0 || self.spread.map(s, s.percent).sum() == 100",
                "the percents of spread must make 100",
            ),
        ]
        | None
    ) = Field(default=None, description="Which regions of the cluster pods prefer.")
    gang: Gang | None = Field(default=None, description="Pods that are placed all together or not at all.")
    preemption: (
        Annotated[
            Preemption,
            Cel(
                "self.minCandidateNodesPercentage > 0 || self.minCandidateNodesAbsolute > 0",
                "one of minCandidateNodesPercentage and minCandidateNodesAbsolute must be more than 0",
            ),
        ]
        | None
    ) = Field(default=None, description="Whether pods may take the place of others.")


class TopReason(Part):
    """Why pods are unschedulable."""

    reason: str = Field(max_length=1024, description="The reason, in kube-scheduler's words.")
    count: int = Field(description="Number of pods.")


class SchedulingPolicyStatus(Status):
    """What the operator observed; counts are refreshed every few seconds."""

    matched: int | None = Field(default=None, description="Pods that are this policy's.")
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
        Column(
            "Priority",
            ".spec.priority",
            type="integer",
            description="The highest priority has a pod that several match.",
        ),
        Column("Profile", ".spec.profile.schedulerName", description="The schedulerName of the pods that it places."),
        Column("Matched", ".status.matched", type="integer", description="Pods that are this policy's."),
        Column("Pending", ".status.pending", type="integer", description="Pods of these that wait for a node."),
    ],
):
    """How certain pods are placed: which plugins filter and rank the nodes, with which weights and arguments."""
