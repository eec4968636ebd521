"""PrioritySort: the higher priority first, then the one that waits longer."""

from typing import Any, ClassVar

from konverge.scheduler.framework import QueuedPod, QueueSort


class PrioritySort(QueueSort):
    """See the module."""

    name: ClassVar[str] = "PrioritySort"

    def sort_key(self, queued: QueuedPod, /) -> tuple[Any, ...]:
        """Priority downwards, then time upwards."""
        return (-queued.pod.priority, queued.since)
