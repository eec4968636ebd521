"""Reserve and Unreserve: plugins book what a pod was promised on its node, and take it back when that comes to nothing."""

import logging

from konverge.errors import PluginFailed
from konverge.scheduler.diagnosis import Diagnosis, turned_away
from konverge.scheduler.framework import Code, CycleState, Point
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.watch import PluginWatch, misplaced

_log = logging.getLogger(__name__)


def reserve(profile: Profile, watch: PluginWatch, state: CycleState, pod: PodInfo, node_name: str) -> Diagnosis | None:
    """Run the Reserve plugins; a diagnosis if one rejects the pod. On any failure all have been unreserved.

    Raises: PluginFailed.
    """
    for plugin in profile.reserves:
        try:
            with watch.call(plugin, Point.RESERVE) as call:
                verdict = plugin.reserve(state, pod, node_name)
                call.code = verdict.code
        except PluginFailed:
            unreserve(profile, state, pod, node_name)
            raise
        if verdict.code is Code.SUCCESS:
            continue
        unreserve(profile, state, pod, node_name)
        if verdict.rejected:
            return turned_away(plugin.name, verdict.reasons)
        raise misplaced(plugin, Point.RESERVE, verdict)
    return None


def unreserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
    """Run the plugins' `unreserve` in reverse. One that raises does not keep the others from it."""
    for plugin in reversed(profile.reserves):
        try:
            plugin.unreserve(state, pod, node_name)
        except Exception:  # noqa: BLE001 - the roll-back must reach the end
            _log.exception("plugin %s failed to unreserve node %s for pod %s", plugin.name, node_name, pod.key)
