"""A bounded mapping that makes what it lacks, and drops what was not used for longest."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LatestUsed(Generic[K, V]):
    """`dropped` is told of each value that had to make room."""

    def __init__(self, bound: int, dropped: Callable[[V], None] | None = None) -> None:
        self._bound, self._dropped = bound, dropped
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made if it is not there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            return value
        value = self._values[key] = make()
        if len(self._values) > self._bound:
            _, oldest = self._values.popitem(last=False)
            if self._dropped is not None:
                self._dropped(oldest)
        return value

    def clear(self) -> None:
        """Drop all, telling nobody."""
        self._values.clear()

    def __iter__(self) -> Iterator[V]:
        """The values, the one that was not used for longest first."""
        return iter(self._values.values())
