"""Gives a policy's profile to the scheduler and reports what becomes of its pods.

What the scheduler holds follows from the policies alone, with one exception that is said in Active: an edit that cannot
be used leaves the last usable profile in force, so that a typo does not stop the placing of pods.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from konverge.cache.informer import Caches
from konverge.cache.store import Change
from konverge.controllers.scheduling_policy.assign import ASSIGN_PODS, assign
from konverge.controllers.scheduling_policy.models import SchedulingPolicy, SchedulingPolicySpec
from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.controllers.scheduling_policy.standing import standing
from konverge.controllers.scheduling_policy.telling import ACCEPTED, ACTIVE, active, count, held, shadowed, suspended
from konverge.controllers.scheduling_policy.wakeups import Wakeups
from konverge.errors import ManifestError, SchedulingError, Terminal, UnknownPlugin
from konverge.model.intercept import Intercept, Operations
from konverge.model.meta import Key, is_deleting, labels_of
from konverge.model.rbac import Access
from konverge.model.resource import (
    ConfigMap,
    Lease,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from konverge.ports import Clock
from konverge.runtime.context import Context
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.scheduler.registry import Registry
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.snapshot import NAMESPACE_NAME

STATS_INTERVAL: Final = 5.0
"""Seconds between two status writes of one policy that only refresh its counts."""

_SCHEDULING: Final = (
    Access(Namespace, ("get", "list", "watch")),
    Access(Node, ("get", "list", "watch")),
    Access(Pod, ("get", "list", "watch", "delete")),
    Access(Pod, ("create",), "binding"),
    Access(Pod, ("create",), "eviction"),
    Access(Pod, ("patch",), "status"),
    Access(PersistentVolume, ("patch",)),
    Access(PersistentVolumeClaim, ("patch",)),
    *(
        Access(read, ("get", "list", "watch"))
        for read in sorted(Registry.default().reads | Registry.default().reads_if_served, key=str)
    ),
)
"""What the scheduler does for the policies, with what its plugins read."""

_SHARED: Final = (
    Access(ConfigMap, ("get", "list", "watch", "create", "patch")),
    Access(Lease, ("list", "delete")),
)
"""What replicas do that share the placing of pods: the register of bookings, and the leases of the members."""


class SchedulingPolicyReconciler(Reconciler[SchedulingPolicy], access=_SCHEDULING, home=_SHARED, workers=1):
    """All policies, one at a time: they share one scheduler, and a pod goes from one to the other."""

    intercepts = (ASSIGN_PODS,)

    def __init__(self, scheduler: Scheduler | None, clock: Clock) -> None:
        """`scheduler` is None where the operator may not see all nodes and pods, and so cannot place any."""
        self._scheduler = scheduler
        self._counts = Wakeups(clock, interval=STATS_INTERVAL)
        self._rivals = Wakeups(clock)
        self._loaded = False
        if scheduler is not None:
            scheduler.on_change(self._counts.mention)

    def sources(self) -> Sequence[AsyncIterator[Key]]:
        """Policies whose counts changed, and those among whose rivals something changed."""
        return (self._counts.keys(), self._rivals.keys())

    @classmethod
    def intercept(cls, _hook: Intercept, obj: Object, namespace: str, caches: Caches, /) -> Operations:
        """Give a new pod to the policy whose selectors match it; all of them, and its namespace, as the caches show them."""
        found = caches.cache(Namespace).get(Key("", namespace))
        labels = {NAMESPACE_NAME: namespace} if found is None else labels_of(found)
        return assign(obj, labels, caches.cache(SchedulingPolicy.resource).list())

    def follow(self, change: Change) -> None:
        """Have the scheduler run a policy as it is in the cache: for replicas that place pods and do not lead.

        What is wrong with the policy, the leader tells.
        """
        raw = change.new or change.old
        if self._scheduler is None or raw is None:
            return
        with suppress(ManifestError):
            obj = SchedulingPolicy.parse(raw)
            if change.new is None or is_deleting(raw):
                self._take_back(self._scheduler, obj)
                return
            try:
                self._hand_over(self._scheduler, obj)
            except SchedulingError:
                if obj.spec.suspend:
                    self._take_back(self._scheduler, obj)

    async def reconcile(self, obj: SchedulingPolicy, ctx: Context, /) -> Result:
        """Check the policy, hand it to the scheduler, and say how it stands among the others for its schedulerName."""
        scheduler = self._scheduler
        if scheduler is None:
            message = "this operator runs without its scheduler: let it watch the whole cluster"
            ctx.conditions.set(ACTIVE, "False", "SchedulerUnavailable", message)
            raise Terminal("SchedulerUnavailable", message)
        self._load(scheduler, obj, ctx)
        try:
            self._hand_over(scheduler, obj)
        except SchedulingError as error:
            self._refuse(scheduler, obj, error, ctx)
        if _gives_way(obj.spec):
            count(obj.status, None)
            return suspended(ctx, "places no pods while spec.suspend is true; others may take them")
        stats = scheduler.stats(obj.name)
        count(obj.status, stats)
        if obj.spec.suspend:
            return suspended(ctx, held(obj.spec, stats))
        stands = standing(obj.name, scheduler.policies(obj.spec.profile.scheduler_name))
        if stands.shadow:
            shadowed(stands.shadow, ctx)
        return active(scheduler, obj, stands.ties, ctx)

    async def finalize(self, obj: SchedulingPolicy, ctx: Context, /) -> Result:  # noqa: ARG002 - the base's signature
        """Take the policy away, before it is gone and nobody knows of it any more."""
        if self._scheduler is not None:
            self._take_back(self._scheduler, obj)
        return Result.done()

    def _load(self, scheduler: Scheduler, obj: SchedulingPolicy, ctx: Context) -> None:
        """Before the first policy is at work all are known, so that none takes a pod that is another's.

        What is wrong with one is told in its own turn. The object at hand may be newer than the cache's.
        """
        if self._loaded:
            return
        self._loaded = True
        for raw in ctx.list(SchedulingPolicy):
            if is_deleting(raw) or raw["metadata"]["name"] == obj.name:
                continue
            with suppress(ManifestError, SchedulingError):
                self._hand_over(scheduler, SchedulingPolicy.parse(raw))

    def _hand_over(self, scheduler: Scheduler, obj: SchedulingPolicy) -> None:
        """Have the scheduler run the policy as it says. Raises: SchedulingError; the scheduler has what it had then."""
        if _gives_way(obj.spec):
            changed = scheduler.remove_profile(obj.name)
            scheduler.check_profile(profile_config(obj.spec))
            rule_of(obj.spec)
        else:
            changed = scheduler.set_profile(obj.name, profile_config(obj.spec), rule_of(obj.spec))
        if changed:
            self._wake_rivals(scheduler, obj)

    def _take_back(self, scheduler: Scheduler, obj: SchedulingPolicy) -> None:
        """Have the scheduler run the policy no longer."""
        if scheduler.remove_profile(obj.name):
            self._wake_rivals(scheduler, obj)

    def _wake_rivals(self, scheduler: Scheduler, obj: SchedulingPolicy) -> None:
        for policy in scheduler.policies(obj.spec.profile.scheduler_name):
            if policy.owner != obj.name:
                self._rivals.mention(policy.owner)

    def _refuse(self, scheduler: Scheduler, obj: SchedulingPolicy, error: SchedulingError, ctx: Context) -> NoReturn:
        """Say what is wrong with the policy; only an edit of it can help."""
        reason = "UnknownPlugin" if isinstance(error, UnknownPlugin) else "InvalidArgs"
        name = obj.spec.profile.scheduler_name
        ctx.conditions.set(ACCEPTED, "False", reason, str(error))
        if obj.spec.suspend:
            self._take_back(scheduler, obj)
        if any(policy.owner == obj.name for policy in scheduler.policies(name)):
            ctx.conditions.set(ACTIVE, "True", "Ready", "the last profile that could be used stays in force")
        else:
            ctx.conditions.set(ACTIVE, "False", "NotAccepted", "this policy places no pods")
        raise Terminal(reason, str(error))


def _gives_way(spec: SchedulingPolicySpec) -> bool:
    """Whether the policy is as if it were not there."""
    return spec.suspend and spec.stop_policy == "None"
