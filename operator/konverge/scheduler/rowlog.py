"""Which rows of the snapshot changed, in order: writers note rows, a reader asks for those noted since its own mark."""

from typing import Final

_KEPT: Final = 4096
"""So many of the last changes are kept at least. Who comes later judges all rows anew, which costs about as much."""


class RowLog:
    """Each reader keeps the mark up to which it has read; the log does not know its readers."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._first = 0

    @property
    def end(self) -> int:
        """The mark of one who has read everything."""
        return self._first + len(self._rows)

    def note(self, row: int) -> None:
        """`row` changed."""
        self._rows.append(row)
        if len(self._rows) >= 2 * _KEPT:
            del self._rows[:_KEPT]
            self._first += _KEPT

    def note_all(self) -> None:
        """So many rows changed that they are not worth listing."""
        self._first = self.end + 1
        self._rows.clear()

    def since(self, mark: int) -> list[int] | None:
        """The rows noted since `mark`, each once; None when that is so long ago that any row may have changed."""
        if mark < self._first:
            return None
        return list(set(self._rows[mark - self._first :]))
