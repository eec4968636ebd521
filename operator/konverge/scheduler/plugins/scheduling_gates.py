"""SchedulingGates: a pod with `spec.schedulingGates` stays out of the queue until all of them are gone.

The API server itself says so in the pod's condition, with the reason SchedulingGated.
"""

from typing import ClassVar

from konverge.scheduler.framework import SUCCESS, PreEnqueue, Verdict, unresolvable
from konverge.scheduler.podinfo import PodInfo


class SchedulingGates(PreEnqueue):
    """See the module."""

    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo, /) -> Verdict:
        """Reject a pod that has a gate."""
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]") if pod.gates else SUCCESS
