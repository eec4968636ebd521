"""The columns of the snapshot: numpy arrays with one entry a node, so that a plugin judges all nodes in one step.

Amounts are int64. What is no number (a label's value, a set of taints) is interned: the column holds a small id, and a
plugin judges each distinct value once and spreads the answers with `table[ids]`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

V = TypeVar("V", bound=Hashable)

_FIRST_CAPACITY = 64
_FEW = 16
"""Up to so many distinct values, judging all is cheaper than finding those in use."""


class AmountColumn:
    """An int64 a row, zero where never set."""

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.values: IntArray = np.zeros(capacity, dtype=np.int64)

    def set(self, row: int, value: int) -> None:
        """Set one row, growing as needed."""
        if row >= len(self.values):
            self.values = grown(self.values, row + 1)
        self.values[row] = value

    def take(self, rows: IntArray) -> IntArray:
        """The values of `rows`."""
        try:
            return self.values[rows]
        except IndexError:  # rows that nothing was ever set in, in a column that is younger or sparser than they are
            self.values = grown(self.values, int(rows.max()) + 1)
            return self.values[rows]


class InternedColumn(Generic[V]):
    """A value a row, kept as an id. Id 0 is `empty`, what a row holds that was never set."""

    def __init__(self, empty: V) -> None:
        self.values: list[V] = [empty]
        self._ids: dict[V, int] = {empty: 0}
        self._column = AmountColumn()

    def set(self, row: int, value: V) -> None:
        """Set one row."""
        number = self._ids.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self._column.set(row, number)

    def ids(self, rows: IntArray) -> IntArray:
        """The ids of the values that `rows` hold: indexes into `values`."""
        return self._column.take(rows)

    def id_at(self, row: int) -> int:
        """The id of the value of one row that was set."""
        return int(self._column.values[row])

    def judge_bool(self, rows: IntArray, judge: Callable[[V], bool]) -> BoolArray:
        """What `judge` says of each row's value; it is asked once a distinct value."""
        ids = self.ids(rows)
        return _spread(ids, self.values, judge, np.bool_)

    def judge_int(self, rows: IntArray, judge: Callable[[V], int]) -> IntArray:
        """What `judge` says of each row's value; it is asked once a distinct value."""
        ids = self.ids(rows)
        return _spread(ids, self.values, judge, np.int64)


N = TypeVar("N", np.bool_, np.int64)


def _spread(ids: IntArray, values: Sequence[V], judge: Callable[[V], int], dtype: type[N]) -> npt.NDArray[N]:
    table = np.zeros(len(values), dtype=dtype)
    for number in range(len(values)) if len(values) <= _FEW else np.unique(ids).tolist():
        table[number] = judge(values[number])
    spread: npt.NDArray[N] = table[ids]
    return spread


def grown(values: npt.NDArray[N], size: int) -> npt.NDArray[N]:
    """A copy with room for at least `size` rows, doubling so that growth stays cheap."""
    larger = np.zeros(max(size, 2 * len(values)), dtype=values.dtype)
    larger[: len(values)] = values
    return larger
