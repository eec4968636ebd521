"""What happened last of each kind: for pods that were under way meanwhile, which no event finds in the queue."""

from collections.abc import Iterable
from typing import NamedTuple

from konverge.scheduler.events import ClusterEvent


class _Last(NamedTuple):
    number: int
    uid: str
    before: int
    """The last one that another pod, or none, brought."""


class Lately:
    """Numbers events, and remembers two of each kind: so a pod is told of the others' though it brought the last itself."""

    def __init__(self) -> None:
        self.number = 0
        """Of the last event."""
        self._last: dict[ClusterEvent, _Last] = {}

    def note(self, events: Iterable[ClusterEvent], uid: str) -> None:
        """These happened, to the pod of that uid; empty: to something else."""
        self.number += 1
        for event in events:
            last = self._last.get(event, _Last(0, "", 0))
            before = last.before if last.uid == uid else last.number
            self._last[event] = _Last(self.number, uid, before)

    def since(self, number: int, uid: str) -> list[ClusterEvent]:
        """The kinds that happened after that number, and not to the pod of that uid alone."""
        return [
            event for event, last in self._last.items() if (last.before if last.uid == uid else last.number) > number
        ]
