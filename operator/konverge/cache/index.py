"""One secondary index of a store: the values of an object flow in, the keys that share a value flow out."""

from collections.abc import Callable, Iterable

from konverge.model.meta import Key
from konverge.model.resource import Object

IndexFunction = Callable[[Object], Iterable[str]]
"""The values under which an object is to be found. Must be pure: the same values for the same object."""


class Index:
    """Keys by value, and the values of each key, so that an object can be taken out without calling `fn` again."""

    def __init__(self, fn: IndexFunction) -> None:
        self._fn = fn
        # A key that is alone under its value, as the one child of an owner is, needs no dictionary of its own. Else
        # dictionaries, because they keep the order of arrival, and sets do not.
        self._keys: dict[str, Key | dict[Key, None]] = {}
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
            self._add(value, key)

    def remove(self, key: Key) -> None:
        """Find `key` nowhere any more."""
        for value in self._values.pop(key, ()):
            found = self._keys.get(value)
            if isinstance(found, dict):
                found.pop(key, None)
                if not found:
                    del self._keys[value]
            elif found == key:
                del self._keys[value]

    def keys(self, value: str) -> Iterable[Key]:
        """The keys under `value`, in the order in which they came."""
        found = self._keys.get(value)
        if found is None:
            return ()
        return found if isinstance(found, dict) else (found,)

    def _add(self, value: str, key: Key) -> None:
        found = self._keys.get(value)
        if found is None:
            self._keys[value] = key
        elif isinstance(found, dict):
            found[key] = None
        else:
            self._keys[value] = {found: None, key: None}
