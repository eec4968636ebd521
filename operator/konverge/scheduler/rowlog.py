"""What changed, in order: writers note rows of the snapshot or names, a reader asks for those noted since its own mark."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

_KEPT: Final = 4096
"""So many of the last changes are kept at least. Who comes later judges all anew, which costs about as much."""

T = TypeVar("T", bound=Hashable)


class Log(Generic[T]):
    """Each reader keeps the mark up to which it has read; the log does not know its readers."""

    def __init__(self) -> None:
        self._noted: list[T] = []
        self._first = 0

    @property
    def end(self) -> int:
        """The mark of one who has read everything."""
        return self._first + len(self._noted)

    def note(self, what: T) -> None:
        """This changed."""
        self._noted.append(what)
        if len(self._noted) >= 2 * _KEPT:
            del self._noted[:_KEPT]
            self._first += _KEPT

    def note_all(self) -> None:
        """So much changed that it is not worth listing."""
        self._first = self.end + 1
        self._noted.clear()

    def since(self, mark: int) -> list[T] | None:
        """What was noted since `mark`, each once; None when that is so long ago that anything may have changed."""
        if mark < self._first:
            return None
        return list(set(self._noted[mark - self._first :]))


class RowLog(Log[int]):
    """Which rows of the snapshot changed."""
