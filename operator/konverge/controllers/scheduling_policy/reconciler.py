"""Gives a policy's profile to the scheduler and reports what becomes of its pods.

What the scheduler holds follows from the policies alone, with one exception that is said in Active: an edit that cannot
be used leaves the last usable profile in force, so that a typo does not stop the placing of pods.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NoReturn

from konverge.controllers.scheduling_policy.claims import claimants, sharing
from konverge.controllers.scheduling_policy.models import (
    MAX_REASONS,
    SchedulingPolicy,
    SchedulingPolicyStatus,
    TopReason,
)
from konverge.controllers.scheduling_policy.profile import check, profile_config
from konverge.controllers.scheduling_policy.wakeups import Wakeups
from konverge.errors import SchedulingError, Terminal, UnknownPlugin
from konverge.model.conditions import State, Verdict
from konverge.model.meta import Key
from konverge.model.rbac import Access
from konverge.model.resource import Namespace, Node, Pod
from konverge.ports import Clock
from konverge.runtime.context import Context
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.stats import ProfileStats

ACCEPTED: Final = "Accepted"
ACTIVE: Final = "Active"

STATS_INTERVAL: Final = 5.0
"""Seconds between two status writes of one policy that only refresh its counts."""

MAX_REASON_TEXT: Final = 1024


_SCHEDULING: Final = (
    Access(Namespace, ("get", "list", "watch")),
    Access(Node, ("get", "list", "watch")),
    Access(Pod, ("get", "list", "watch")),
    Access(Pod, ("create",), "binding"),
    Access(Pod, ("patch",), "status"),
)
"""What the scheduler does for the policies."""


class SchedulingPolicyReconciler(Reconciler[SchedulingPolicy], access=_SCHEDULING, workers=1):
    """All policies, one at a time: they share one scheduler, and a schedulerName goes from one to the other."""

    def __init__(self, scheduler: Scheduler | None, clock: Clock) -> None:
        """`scheduler` is None where the operator may not see all nodes and pods, and so cannot place any."""
        self._scheduler = scheduler
        self._counts = Wakeups(clock, interval=STATS_INTERVAL)
        self._rivals = Wakeups(clock)
        self._holders: dict[str, str] = {}
        self._placing: set[str] = set()
        if scheduler is not None:
            scheduler.on_change(self._counts.mention)

    def sources(self) -> Sequence[AsyncIterator[Key]]:
        """Policies whose counts changed, and those whose schedulerName changed hands."""
        return (self._counts.keys(), self._rivals.keys())

    async def reconcile(self, obj: SchedulingPolicy, ctx: Context, /) -> Result:
        """Check the profile, settle who holds its schedulerName, and hand it to the scheduler."""
        if self._scheduler is None:
            message = "this operator runs without its scheduler: let it watch the whole cluster"
            ctx.conditions.set(ACTIVE, "False", "SchedulerUnavailable", message)
            raise Terminal("SchedulerUnavailable", message)
        name = obj.spec.profile.scheduler_name
        holder = self._settle(self._scheduler, name, obj, ctx)
        try:
            config = profile_config(obj.spec)
            check(config, self._scheduler.registry)
            if holder == obj.name:
                self._scheduler.set_profile(obj.name, config)
        except SchedulingError as error:
            self._refuse(obj, error, ctx)
        if holder == obj.name:
            return self._place(self._scheduler, obj, ctx)
        _count(obj.status, None)
        if obj.spec.suspend:
            message = "places no pods while spec.suspend is true"
            ctx.conditions.set(ACCEPTED, "True", "Valid", "the profile can be used")
            ctx.conditions.set(ACTIVE, "False", "Suspended", message)
            return Result(Verdict(State.DONE, "Suspended", message))
        message = (
            f"schedulerName {name} is held by the policy {holder}, which has a higher priority or an earlier name; "
            "change spec.priority of one of them, or suspend it"
        )
        ctx.conditions.set(ACCEPTED, "False", "Conflict", message)
        ctx.conditions.set(ACTIVE, "False", "NotAccepted", f"the policy {holder} places these pods")
        raise Terminal("Conflict", message)

    async def finalize(self, obj: SchedulingPolicy, ctx: Context, /) -> Result:
        """Take the profile away, before the policy is gone and nobody knows of it any more."""
        if self._scheduler is not None:
            self._settle(self._scheduler, obj.spec.profile.scheduler_name, obj, ctx)
            self._withdraw(self._scheduler, obj.name)
        return Result.done()

    def _settle(self, scheduler: Scheduler, name: str, obj: SchedulingPolicy, ctx: Context) -> str | None:
        """Find the policy that holds schedulerName `name`; when it is another than before, wake all that share it.

        The object at hand may be newer than the cache's, as after its finalizer was put on.
        """
        policies = [raw for raw in ctx.list(SchedulingPolicy) if raw["metadata"]["name"] != obj.name]
        policies.append(obj.raw)
        holder = next(iter(claimants(policies, name)), None)
        before = self._holders.get(name)
        if before != holder:
            if before is not None:
                self._withdraw(scheduler, before)
            if holder is None:
                del self._holders[name]
            else:
                self._holders[name] = holder
            for policy in sharing(policies, name):
                if policy != obj.name:
                    self._rivals.mention(policy)
        return holder

    def _withdraw(self, scheduler: Scheduler, policy: str) -> None:
        scheduler.remove_profile(policy)
        self._placing.discard(policy)

    def _place(self, scheduler: Scheduler, obj: SchedulingPolicy, ctx: Context) -> Result:
        self._placing.add(obj.name)
        message = f"pods with schedulerName {obj.spec.profile.scheduler_name} are placed by this policy"
        ctx.conditions.set(ACCEPTED, "True", "Valid", "the profile can be used")
        ctx.conditions.set(ACTIVE, "True", "Ready", message)
        _count(obj.status, scheduler.stats(obj.name))
        return Result(Verdict(State.DONE, "Active", message))

    def _refuse(self, obj: SchedulingPolicy, error: SchedulingError, ctx: Context) -> NoReturn:
        """Say what is wrong with the profile; only an edit of the policy can help."""
        reason = "UnknownPlugin" if isinstance(error, UnknownPlugin) else "InvalidArgs"
        ctx.conditions.set(ACCEPTED, "False", reason, str(error))
        if obj.name in self._placing:
            ctx.conditions.set(ACTIVE, "True", "Ready", "the last profile that could be used stays in force")
        else:
            name = obj.spec.profile.scheduler_name
            ctx.conditions.set(ACTIVE, "False", "NotAccepted", f"pods with schedulerName {name} wait")
        raise Terminal(reason, str(error))


def _count(status: SchedulingPolicyStatus, stats: ProfileStats | None) -> None:
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
