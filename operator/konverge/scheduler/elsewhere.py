"""Pods that other replicas place, where several share the work: what they say of themselves counts here too.

In flow waiting pods that are another replica's; out flow, from their status, why they wait (for the books of their policy)
and the nodes that are being cleared for them (which less important pods leave to them).
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from konverge.cache.store import Change
from konverge.model.meta import uid_of
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import SchedulingQueue
from konverge.scheduler.stats import Ledger

_AVAILABLE: Final = re.compile(r"0/\d+ nodes are available: (.+?)\.( |$)")
_COUNTED: Final = re.compile(r"\d+ (.+)")


class Elsewhere:
    """See the module. `theirs` says whether a waiting pod is another replica's."""

    def __init__(self, queue: SchedulingQueue, ledger: Ledger, theirs: Callable[[PodInfo], bool]) -> None:
        self._queue, self._ledger, self._theirs = queue, ledger, theirs

    def on_pod(self, change: Change) -> None:
        """A pod came, changed or went; the queue knows of it already."""
        old, new = change.old, None if change.new is None else PodInfo(change.new)
        if old is not None and uid_of(old) not in self._queue:
            self._queue.nominations.discard(uid_of(old))
        if new is not None:
            self.see(new)

    def see(self, pod: PodInfo) -> None:
        """Take over what the pod says, if it is another replica's."""
        if not pod.waiting or pod.uid in self._queue or not self._theirs(pod):
            return
        self._queue.nominations.put(pod, pod.nominated_node)
        condition = pod.scheduled_condition or {}
        if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
            self._ledger.stuck(pod, dict.fromkeys(reasons_in(condition.get("message") or ""), 0))
        else:
            self._ledger.freed(pod)


def reasons_in(message: str) -> Iterable[str]:
    """The reasons in what `Diagnosis.message` says, without their counts."""
    found = _AVAILABLE.match(message)
    if found is None:
        return [message] if message else []
    parts = re.split(r", (?=\d+ )", found[1])
    counted = [match[1] for match in map(_COUNTED.fullmatch, parts) if match]
    return counted if len(counted) == len(parts) else [found[1]]
