"""The SchedulingPolicy resource and its reconciler.

Spec -> `profile` (what the scheduler is told: which pods, and how) -> the scheduler; its counts come back through `wakeups`
into the status, beside how the policy stands among the others (`standing`, `telling`).
"""

from konverge.controllers.scheduling_policy.models import (
    SchedulingPolicy,
    SchedulingPolicySpec,
    SchedulingPolicyStatus,
)
from konverge.controllers.scheduling_policy.reconciler import SchedulingPolicyReconciler

__all__ = ["SchedulingPolicy", "SchedulingPolicyReconciler", "SchedulingPolicySpec", "SchedulingPolicyStatus"]
