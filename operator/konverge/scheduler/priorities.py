"""How important the least important pod on each row of the snapshot is: where there is nobody that a pod could push out."""

from collections import Counter
from typing import Final

from konverge.scheduler.columns import AmountColumn, BoolArray, IntArray

_TOP: Final = 2**32
"""More than any priority, which are 32 bits with a sign. The column holds how far below this the lowest one is."""


class PriorityIndex:
    """The priorities of the pods, by row."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[int]] = {}
        self._depths = AmountColumn()

    def add(self, row: int, priority: int) -> None:
        """A pod comes onto `row`."""
        counts = self._counts.setdefault(row, Counter())
        counts[priority] += 1
        self._depths.set(row, _TOP - min(counts))

    def remove(self, row: int, priority: int) -> None:
        """A pod leaves it."""
        counts = self._counts[row]
        counts[priority] -= 1
        if not counts[priority]:
            del counts[priority]
        if not counts:
            del self._counts[row]
        self._depths.set(row, _TOP - min(counts) if counts else 0)

    def any_below(self, priority: int, rows: IntArray) -> BoolArray:
        """On which of `rows` there is a pod of lower priority."""
        found: BoolArray = self._depths.take(rows) > _TOP - priority
        return found
