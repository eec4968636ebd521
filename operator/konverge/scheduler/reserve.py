"""Reserve and Unreserve: plugins book what a pod was promised on its node, and take it back when that comes to nothing."""

import logging

from konverge.errors import PluginFailed
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Code, CycleState
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile

_log = logging.getLogger(__name__)


def reserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Diagnosis | None:
    """Run the Reserve plugins; a diagnosis if one rejects the pod. On any failure all have been unreserved.

    Raises: PluginFailed.
    """
    for plugin in profile.reserves:
        try:
            verdict = plugin.reserve(state, pod, node_name)
        except Exception as error:
            unreserve(profile, state, pod, node_name)
            message = f"running {plugin.name!r} reserve plugin: {type(error).__name__}: {error}"
            raise PluginFailed(plugin.name, message) from error
        if verdict.code is Code.SUCCESS:
            continue
        unreserve(profile, state, pod, node_name)
        if verdict.rejected:
            diagnosis = Diagnosis(nodes=1, plugins={plugin.name})
            diagnosis.reasons.update(verdict.reasons)
            return diagnosis
        reasons = ", ".join(verdict.reasons) or "no reason given"
        raise PluginFailed(plugin.name, f"running {plugin.name!r} reserve plugin: {verdict.code.value}: {reasons}")
    return None


def unreserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
    """Run the plugins' `unreserve` in reverse. One that raises does not keep the others from it."""
    for plugin in reversed(profile.reserves):
        try:
            plugin.unreserve(state, pod, node_name)
        except Exception:  # noqa: BLE001 - the roll-back must reach the end
            _log.exception("plugin %s failed to unreserve node %s for pod %s", plugin.name, node_name, pod.key)
