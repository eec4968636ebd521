"""PostFilter: whether there is a way out for a pod that fits nowhere."""

import logging

from konverge.errors import PluginFailed
from konverge.scheduler.company import Companies
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Code, CycleState, Point, PostFilterResult, Trials, unschedulable
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.watch import PluginWatch, misplaced

_log = logging.getLogger(__name__)


def post_filter(
    profile: Profile,
    watch: PluginWatch,
    state: CycleState,
    pod: PodInfo,
    trials: Trials,
    diagnosis: Diagnosis,
    companies: Companies,
) -> None:
    """Ask the PostFilter plugins until one finds a way, or says that there is none; the answer goes into `diagnosis`.

    One that fails takes nothing away from why the pod fits nowhere: its error is added to that. A way whose victims would
    go in vain, because others that the pod needs would find no nodes, is none.
    """
    said: list[str] = []
    diagnosis.nominated = None if profile.post_filters else ""
    for plugin in profile.post_filters:
        try:
            with watch.call(plugin, Point.POST_FILTER) as call:
                answer = plugin.post_filter(state, pod, trials, diagnosis)
                if answer.victims and (lacking := companies.lacking(profile, state, pod, answer)):
                    answer = PostFilterResult(unschedulable(lacking), node_name="")
                call.code = answer.verdict.code
            if answer.verdict.code is not Code.SUCCESS and not answer.verdict.rejected:
                raise misplaced(plugin, Point.POST_FILTER, answer.verdict)
        except PluginFailed as error:
            _log.exception("no way out for pod %s", pod.key)
            diagnosis.nominated, diagnosis.way_out = None, str(error)
            return
        if answer.node_name is not None:
            diagnosis.nominated, diagnosis.victims = answer.node_name, answer.victims
        if answer.verdict.code is Code.SUCCESS:
            return
        said += answer.verdict.reasons
        if answer.verdict.code is Code.UNRESOLVABLE:
            break
    companies.stuck(profile, state, pod)
    diagnosis.way_out = ", ".join(said)
