"""The caches as plugins read them: what the server shows, and over it what plugins assume that it will show soon."""

from collections.abc import Mapping, Sequence
from functools import partial

from konverge.cache.informer import Cache
from konverge.cache.store import Change, Objects
from konverge.errors import SchedulingError
from konverge.model.meta import Key, key_of, resource_version
from konverge.model.resource import Object, ResourceType
from konverge.scheduler.handle import Index
from konverge.scheduler.rowlog import Log


class CacheLister:
    """See `konverge.scheduler.handle.Lister`."""

    def __init__(self, caches: Mapping[ResourceType, Cache]) -> None:
        self._caches = caches
        self._assumed: dict[ResourceType, dict[Key, Object]] = {}
        self._logs: dict[ResourceType, Log[Key]] = {resource: Log() for resource in caches}
        self._indexes: set[tuple[ResourceType, str]] = set()
        for resource, cache in caches.items():
            cache.subscribe(partial(self._changed, resource))

    def get(self, resource: ResourceType, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""
        key = Key(namespace if resource.namespaced else "", name)
        shown = self._cache(resource).get(key)
        return shown if shown is None else self._standing(resource, key, shown) or shown

    def list(self, resource: ResourceType, namespace: str | None = None) -> Sequence[Object]:
        """All of them, or those of one namespace."""
        return self._as_assumed(resource, self._cache(resource).list(namespace if resource.namespaced else None))

    def by_index(self, resource: ResourceType, index: Index, value: str) -> Sequence[Object]:
        """Those that the server shows under that value of the index, which is kept up to date once it was asked for."""
        cache = self._cache(resource)
        if (resource, index.name) not in self._indexes:
            cache.add_index(f"scheduler/{index.name}", index.fn)
            self._indexes.add((resource, index.name))
        return self._as_assumed(resource, cache.by_index(f"scheduler/{index.name}", value))

    def version(self, resource: ResourceType) -> int:
        """Another number whenever something of the resource may read otherwise than before."""
        self._cache(resource)
        return self._logs[resource].end

    def changed(self, resource: ResourceType, since: int) -> Sequence[Key] | None:
        """Of which objects that holds since then, which was the `version`; None when it may be any of them."""
        self._cache(resource)
        return self._logs[resource].since(since)

    def assume(self, resource: ResourceType, obj: Object) -> None:
        """Read `obj`, a changed copy of what was read, until the server shows another version of it, or it is forgotten."""
        self._cache(resource)
        self._assumed.setdefault(resource, {})[key_of(obj)] = obj
        self._logs[resource].note(key_of(obj))

    def forget(self, resource: ResourceType, obj: Object) -> None:
        """Read what the server has again, if `obj` is what is assumed."""
        assumed, key = self._assumed.get(resource, {}), key_of(obj)
        if assumed.get(key) is obj:
            del assumed[key]
            self._logs[resource].note(key)

    def wrote(self, resource: ResourceType, obj: Object) -> None:
        """Take over what a write returned: the next read gives it or something newer."""
        self._cache(resource).wrote(obj)

    def _changed(self, resource: ResourceType, change: Change) -> None:
        self._logs[resource].note(change.key)

    def _as_assumed(self, resource: ResourceType, shown: Objects) -> Sequence[Object]:
        """The objects with what is assumed in the place of what is shown."""
        cache, assumed = self._cache(resource), self._assumed.get(resource) or {}
        if len(shown) < len(assumed):
            return [self._standing(resource, key_of(obj), obj) or obj for obj in shown]
        instead = {
            id(now): standing
            for key in list(assumed)
            if (now := cache.get(key)) is not None and (standing := self._standing(resource, key, now)) is not None
        }
        return [instead.get(id(obj), obj) for obj in shown] if instead else shown

    def _standing(self, resource: ResourceType, key: Key, shown: Object) -> Object | None:
        """What is assumed of `shown`, where that is still the version that the assumption was made of."""
        assumed = self._assumed.get(resource)
        found = assumed.get(key) if assumed else None
        if assumed is None or found is None or resource_version(found) == resource_version(shown):
            return found
        del assumed[key]
        return None

    def _cache(self, resource: ResourceType) -> Cache:
        try:
            return self._caches[resource]
        except KeyError:
            held = ", ".join(sorted(known.name for known in self._caches)) or "nothing"
            raise SchedulingError(
                f"the scheduler holds no cache of {resource}; a plugin that reads it names it in `reads`. Held: {held}"
            ) from None
