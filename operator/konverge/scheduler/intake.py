"""From the caches into the scheduler: what a change of a pod or a node means for the snapshot, the queue and the books.

A pod is in one of three hands: it waits in the queue, it is assumed (in both: on its node in the snapshot, handed out by
the queue), or it is placed in the snapshot. Only this module and the outcomes of attempts move it.
"""

from collections.abc import Callable

from konverge.cache.store import Change, ChangeType
from konverge.model.resource import Object, ResourceType
from konverge.scheduler.changes import Changes
from konverge.scheduler.events import (
    ClusterEvent,
    NodeChange,
    PodChange,
    ReadChange,
    node_events,
    read_events,
    shrunk,
)
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import SchedulingQueue
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import Ledger


class Intake:
    """The subscribers of the caches."""

    def __init__(
        self,
        snapshot: Snapshot,
        queue: SchedulingQueue,
        ledger: Ledger,
        admits: Callable[[PodInfo], bool],
        changes: Changes,
    ) -> None:
        """`admits` says whether a profile has the pod's `schedulerName`, and lets it into the queue.

        `changes` hears of what plugins read.
        """
        self._snapshot, self._queue, self._ledger, self._admits = snapshot, queue, ledger, admits
        self._changes = changes

    def on_node(self, change: Change) -> None:
        """A node came, changed or went."""
        if change.new is None:
            self._snapshot.remove_node(change.key.name)
            self._queue.notify([ClusterEvent.NODE_GONE], NodeChange(change.old, None))
            return
        self._snapshot.set_node(change.new)
        if change.type is ChangeType.ADDED or change.old is None:
            self._queue.notify([ClusterEvent.NODE_ADDED], NodeChange(None, change.new))
        else:
            self._queue.notify(node_events(change.old, change.new), NodeChange(change.old, change.new))

    def on_namespace(self, change: Change) -> None:
        """A namespace came, changed its labels or went: other pods may be meant by affinity now."""
        if change.new is None:
            self._snapshot.remove_namespace(change.key.name)
        else:
            self._snapshot.set_namespace(change.new)
        self._queue.notify([ClusterEvent.POD_PLACED])

    def on_read(self, resource: ResourceType) -> Callable[[Change], None]:
        """The subscriber of the cache of a resource that plugins read."""

        def on_change(change: Change) -> None:
            if events := read_events(resource, change.old, change.new):
                self._changes.notify()
                self._queue.notify(events, ReadChange(resource, change.old, change.new))

        return on_change

    def on_pod(self, change: Change) -> None:
        """A pod came, changed or went. One made anew under the same name is another pod."""
        old, new = _info(change.old), _info(change.new)
        if old is not None and (new is None or new.uid != old.uid):
            self._gone(old)
        if new is not None:
            self.see(new)

    def see(self, pod: PodInfo) -> None:
        """Put a pod where this version of it belongs."""
        self._ledger.see(pod)
        if pod.finished:
            self._queue.discard(pod.uid)
            self._leave(pod.uid)
        elif pod.node_name:
            self._queue.discard(pod.uid)
            self._place(pod)
        elif self._snapshot.is_assumed(pod.uid) and not pod.deleting:
            if pod.uid in self._queue:
                self._queue.put(pod)
        elif pod.waiting and self._admits(pod):
            self._queue.put(pod)
        else:
            # Perhaps deleted while on its way to a node: the server refuses the bind from now on.
            self._queue.discard(pod.uid)
            self._leave(pod.uid)

    def _place(self, pod: PodInfo) -> None:
        before, node_name = self._snapshot.pod(pod.uid), self._snapshot.node_of(pod.uid)
        assumed = self._snapshot.is_assumed(pod.uid)
        self._snapshot.place(pod)
        if before is None or assumed or before.labels != pod.labels or before.deleting != pod.deleting:
            self._queue.notify([ClusterEvent.POD_PLACED], PodChange(None if assumed else before, pod))
        if before is None:
            return
        if node_name != pod.node_name:
            self._queue.notify([ClusterEvent.POD_GONE], PodChange(before, None))
        elif shrunk(before, pod):
            self._queue.notify([ClusterEvent.POD_SHRUNK], PodChange(before, pod))

    def _gone(self, pod: PodInfo) -> None:
        self._ledger.gone(pod.uid)
        nominated = self._queue.nominations.node_of(pod.uid)
        self._queue.discard(pod.uid)
        self._leave(pod.uid)
        if nominated:
            # It has no node, but others of no higher priority were kept from the room that was meant for it.
            self._queue.notify([ClusterEvent.POD_GONE], PodChange(pod, None))

    def _leave(self, uid: str) -> None:
        # As it was counted: the version that the cache saw last may differ.
        counted = self._snapshot.pod(uid)
        if self._snapshot.forget(uid):
            self._queue.notify([ClusterEvent.POD_GONE], PodChange(counted, None))


def _info(raw: Object | None) -> PodInfo | None:
    return None if raw is None else PodInfo(raw)
