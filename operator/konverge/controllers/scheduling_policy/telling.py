"""What a policy's status says: how the scheduler has it flows in, conditions, counts and the outcome flow out."""

from collections.abc import Sequence
from typing import Final, NoReturn

from konverge.controllers.scheduling_policy.models import (
    MAX_REASONS,
    SchedulingPolicy,
    SchedulingPolicySpec,
    SchedulingPolicyStatus,
    TopReason,
)
from konverge.errors import Terminal
from konverge.model.conditions import State, Verdict
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.stats import ProfileStats

ACCEPTED: Final = "Accepted"
ACTIVE: Final = "Active"

LABEL_CHECK: Final = 60.0
"""Seconds until it is looked again whether a node has the label of spec.topology.level."""

MAX_REASON_TEXT: Final = 1024


def shadowed(by: str, ctx: Context) -> NoReturn:
    """Another policy has all its pods. Raises: Terminal."""
    message = (
        f"all pods that this policy matches are taken by the policy {by}, which has a higher priority or, with the "
        "same priority and conditions, an earlier name; change spec.priority or the selectors of one of them, or "
        "suspend it"
    )
    ctx.conditions.set(ACCEPTED, "False", "Conflict", message)
    ctx.conditions.set(ACTIVE, "False", "NotAccepted", f"the policy {by} places these pods")
    raise Terminal("Conflict", message)


def suspended(ctx: Context, message: str) -> Result:
    """The policy places nothing, as it was told to."""
    ctx.conditions.set(ACCEPTED, "True", "Valid", "the profile can be used")
    ctx.conditions.set(ACTIVE, "False", "Suspended", message)
    return Result(Verdict(State.DONE, "Suspended", message))


def held(spec: SchedulingPolicySpec, stats: ProfileStats) -> str:
    """What becomes of the pods that a suspended policy keeps."""
    if spec.stop_policy == "HoldAndDrain" and stats.scheduled:
        return (
            f"its pods wait while spec.suspend is true; {stats.scheduled} that have a node are evicted, save those that "
            "nothing would make anew elsewhere"
        )
    return "its pods wait while spec.suspend is true"


def active(scheduler: Scheduler, obj: SchedulingPolicy, ties: Sequence[str], ctx: Context) -> Result:
    """The policy places pods, unless it groups them by a label that no node has. `ties` are its equals by rank."""
    ctx.conditions.set(ACCEPTED, "True", "Valid", "the profile can be used" + _tied(ties))
    message = f"pods with schedulerName {obj.spec.profile.scheduler_name} are placed by this policy"
    topology = obj.spec.topology
    if topology is None or topology.level is None or scheduler.has_label(topology.level):
        ctx.conditions.set(ACTIVE, "True", "Ready", message)
        return Result(Verdict(State.DONE, "Active", message))
    lacking = f"no node has the label {topology.level}, which spec.topology.level names"
    if topology.mode == "Soft":
        ctx.conditions.set(ACTIVE, "True", "Ready", f"{message}; {lacking}")
        return Result(Verdict(State.DONE, "Active", message), requeue_after=LABEL_CHECK)
    ctx.conditions.set(ACTIVE, "False", "TopologyNotFound", lacking)
    return Result(Verdict(State.FAILING, "TopologyNotFound", lacking), requeue_after=LABEL_CHECK)


def _tied(ties: Sequence[str]) -> str:
    if not ties:
        return ""
    return (
        f"; {', '.join(ties)} may match the same pods with the same priority and as many conditions: "
        "there the first name decides"
    )


def count(status: SchedulingPolicyStatus, stats: ProfileStats | None) -> None:
    """Report the counts; None takes them away, for a policy that places nothing counts nothing."""
    status.matched = stats.matched if stats else None
    status.pending = stats.pending if stats else None
    status.scheduled = stats.scheduled if stats else None
    status.unschedulable = stats.unschedulable if stats else None
    status.top_reasons = (
        [TopReason(reason=reason[:MAX_REASON_TEXT], count=count) for reason, count in stats.top_reasons[:MAX_REASONS]]
        if stats
        else None
    )
    last = stats.last_scheduled if stats else None
    # The API's times have whole seconds; the last time stays when the policy stops placing.
    if last is not None:
        status.last_scheduled_time = last.replace(microsecond=0)
