"""Permit: whether a pod that has its node and what it reserved there may go on to be bound, now or later."""

from collections.abc import Mapping
from typing import Final

from konverge.scheduler.diagnosis import Diagnosis, turned_away
from konverge.scheduler.framework import Code, CycleState, Point
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.watch import PluginWatch, misplaced

MAX_WAIT: Final = 3600.0
"""Seconds that a plugin may at most keep a pod waiting: the longest timeout of a gang. kube-scheduler stops at 900."""


def permit(
    profile: Profile, watch: PluginWatch, state: CycleState, pod: PodInfo, node_name: str
) -> Diagnosis | Mapping[str, float]:
    """Ask the Permit plugins: a diagnosis if one rejects the pod, else the seconds that each keeps it waiting at most.

    Raises: PluginFailed.
    """
    timeouts: dict[str, float] = {}
    for plugin in profile.permits:
        with watch.call(plugin, Point.PERMIT) as call:
            answer = plugin.permit(state, pod, node_name)
            call.code = answer.verdict.code
        if answer.verdict.rejected:
            return turned_away(plugin.name, answer.verdict.reasons)
        if answer.verdict.code is Code.WAIT:
            timeouts[plugin.name] = min(answer.timeout, MAX_WAIT)
        elif answer.verdict.code is not Code.SUCCESS:
            raise misplaced(plugin, Point.PERMIT, answer.verdict)
    return timeouts
