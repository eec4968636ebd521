"""The SchedulingPolicy resource and its reconciler.

Spec -> `claims` (who holds a schedulerName) and `profile` (what the scheduler is told) -> the scheduler; its counts come
back through `wakeups` into the status.
"""

from konverge.controllers.scheduling_policy.models import (
    SchedulingPolicy,
    SchedulingPolicySpec,
    SchedulingPolicyStatus,
)
from konverge.controllers.scheduling_policy.reconciler import SchedulingPolicyReconciler

__all__ = ["SchedulingPolicy", "SchedulingPolicyReconciler", "SchedulingPolicySpec", "SchedulingPolicyStatus"]
