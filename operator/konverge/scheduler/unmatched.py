"""Pods that name a schedulerName of ours and that no policy places: noted as they are seen, told why after a while.

The while is for policies that come one after the other, as when the operator starts: the one that matches may be next.
What a pod says of itself already is not said again, so a restart repeats nothing.
"""

from collections.abc import Callable
from typing import Final

from konverge.cache.informer import Cache
from konverge.model.meta import Key
from konverge.ports import Clock
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies

TELL_AFTER: Final = 10.0
"""Seconds between two rounds of telling."""


class Unmatched:
    """The pods to tell. `tell` is called with the pod and the message."""

    def __init__(self, policies: Policies, pods: Cache, clock: Clock, tell: Callable[[PodInfo, str], None]) -> None:
        self._policies, self._pods, self._clock, self._tell = policies, pods, clock, tell
        self._noted: set[Key] = set()

    def note(self, pod: PodInfo) -> None:
        """No policy places the pod as it is now."""
        self._noted.add(pod.key)

    async def run(self) -> None:
        """Tell pods until cancelled."""
        while True:
            await self._clock.sleep(TELL_AFTER)
            noted, self._noted = self._noted, set()
            for raw in filter(None, map(self._pods.get, sorted(noted))):
                pod = PodInfo(raw)
                message = self._message(pod) if pod.waiting else ""
                if message and (pod.scheduled_condition or {}).get("message") != message:
                    self._tell(pod, message)

    def _message(self, pod: PodInfo) -> str:
        """Why nothing places the pod; empty when that is not so any more."""
        serving = self._policies.serving(pod.scheduler_name)
        policy = self._policies.of(pod)
        if policy is not None:
            return f"held by SchedulingPolicy {policy.owner}, which is suspended" if policy.rule.hold else ""
        if not serving:
            return ""
        owners = ", ".join(each.owner for each in serving)
        return (
            f"no SchedulingPolicy matches this pod: its schedulerName {pod.scheduler_name} is that of {owners}, "
            "whose selectors or canary shares leave it out"
        )
