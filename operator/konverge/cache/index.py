"""One secondary index of a store: the values of an object flow in, the keys that share a value flow out."""

from collections.abc import Callable, Iterable
from typing import Final

from konverge.model.meta import Key
from konverge.model.resource import Object

IndexFunction = Callable[[Object], Iterable[str]]
"""The values under which an object is to be found. Must be pure: the same values for the same object."""

_NOTHING: Final[dict[Key, None]] = {}


class Index:
    """Keys by value, and the values of each key, so that an object can be taken out without calling `fn` again."""

    def __init__(self, fn: IndexFunction) -> None:
        self._fn = fn
        self._keys: dict[str, dict[Key, None]] = {}  # dictionaries keep the order of arrival, sets do not
        self._values: dict[Key, tuple[str, ...]] = {}

    def values_of(self, obj: Object) -> tuple[str, ...]:
        """What the index's function gives for `obj`. Raises: what the function raises."""
        return tuple(self._fn(obj))

    def put(self, key: Key, values: tuple[str, ...]) -> None:
        """Find `key` under exactly `values` from now on."""
        if self._values.get(key, ()) == values:
            return
        self.remove(key)
        if values:
            self._values[key] = values
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def remove(self, key: Key) -> None:
        """Find `key` nowhere any more."""
        for value in self._values.pop(key, ()):
            keys = self._keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys[value]

    def keys(self, value: str) -> Iterable[Key]:
        """The keys under `value`, in the order in which they came."""
        return self._keys.get(value, _NOTHING)
