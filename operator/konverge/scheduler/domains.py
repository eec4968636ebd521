"""How many pods are where, kept up to date pod by pod: by domain of a node label, or by node.

In flow the rows on which pods of a kind come and go; out flow arrays of counts, ready to be spread over rows.
"""

from typing import Final, Protocol

import numpy as np

from konverge.scheduler.columns import IntArray, InternedColumn, grown

_NO_DOMAIN: Final = 0
"""The id of None in a label's column: nodes that lack the label are in no domain."""


class Counts(Protocol):
    """Counts that follow pods."""

    def add(self, row: int, pods: int) -> None:
        """So many pods more (or less) are on that row."""
        ...


class DomainCounts:
    """Pods by domain: by the id of the node label's value. The labels must hold still between adding and taking off."""

    def __init__(self, column: InternedColumn[str | None]) -> None:
        self._column = column
        self._counts: IntArray = np.zeros(len(column.values), dtype=np.int64)
        self.pods = 0
        """In all domains together."""

    def add(self, row: int, pods: int) -> None:
        """So many pods more (or less) are on that row."""
        domain = self._column.id_at(row)
        if domain != _NO_DOMAIN:
            self._fit()
            self._counts[domain] += pods
            self.pods += pods

    @property
    def by_id(self) -> IntArray:
        """The counts by id of the label's value; not to be changed."""
        self._fit()
        return self._counts[: len(self._column.values)]

    def _fit(self) -> None:
        if len(self._counts) < len(self._column.values):
            self._counts = grown(self._counts, len(self._column.values))


class RowCounts:
    """Pods by row of the snapshot."""

    def __init__(self) -> None:
        self._counts: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, row: int, pods: int) -> None:
        """So many pods more (or less) are on that row."""
        if row >= len(self._counts):
            self._counts = grown(self._counts, row + 1)
        self._counts[row] += pods

    def up_to(self, size: int) -> IntArray:
        """The counts of the rows from 0 to `size` - 1; not to be changed."""
        if size > len(self._counts):
            self._counts = grown(self._counts, size)
        return self._counts[:size]
