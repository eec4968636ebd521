"""The shared view of the cluster: what the API server holds flows in through reflectors, reads and subscriptions flow out.

`Informer` covers one resource in one scope, `Cache` joins the informers of one resource over several namespaces, `Caches`
owns the caches of a process. Whoever writes tells the cache what the write returned (`wrote`, `removed`), so that the next
read sees it or something newer: the watch would tell only later.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from konverge.cache.advice import explain
from konverge.cache.delivery import Delivery, Subscriber, Unsubscribe
from konverge.cache.index import IndexFunction
from konverge.cache.reflector import ListWatcher, Reflector, ReflectorHealth
from konverge.cache.store import (
    BadObjectHook,
    Objects,
    Store,
    Transform,
    leaving_out,
    log_bad_object,
    metadata_of,
    strip_managed_fields,
)
from konverge.errors import CacheNotSynced
from konverge.model.meta import Key, finalizers_of, is_newer, key_of, labels_of
from konverge.model.resource import Object, ResourceType
from konverge.model.selectors import Selector
from konverge.ports import Clock, Random, Scope

RESYNC: Final = 36_000.0
"""Seconds between two replays of what is held to the subscribers: ten hours."""

RESYNC_JITTER: Final = 0.1
"""The share by which each such wait is longer or shorter, by chance."""

_EVERYWHERE: Final = Scope()


class Informer:
    """A store of one resource in one scope, kept equal to the server's by `run`, and those who want to know of changes."""

    def __init__(
        self,
        api: ListWatcher,
        resource: ResourceType,
        scope: Scope = _EVERYWHERE,
        *,
        clock: Clock,
        random: Random,
        transform: Transform = strip_managed_fields,
        on_bad_object: BadObjectHook = log_bad_object,
        resync: float = RESYNC,
        watch_list: bool = False,
    ) -> None:
        """`resync` is in seconds, 0 for never. `watch_list`: see `Reflector`; `transform` is only for whole objects."""
        self.resource, self.scope = resource, scope
        held_as = metadata_of if scope.metadata_only else leaving_out(scope.left_out) if scope.left_out else transform
        self.store = Store(resource, transform=held_as, on_bad_object=on_bad_object)
        self._labels = Selector.parse(scope.label_selector)
        self._clock, self._random, self._resync = clock, random, resync
        self._delivery = Delivery(self.store)
        self._reflector = Reflector(
            api, resource, scope, self._delivery, clock=clock, random=random, watch_list=watch_list
        )

    @property
    def health(self) -> ReflectorHealth:
        """What the reflector is doing; a live view."""
        return self._reflector.health

    @property
    def resource_version(self) -> str:
        """The last version of the resource that the server showed; empty before the first list."""
        return self._reflector.version

    @property
    def synced(self) -> asyncio.Event:
        """Set once the resource was listed and all of it delivered."""
        return self._delivery.synced

    def subscribe(self, fn: Subscriber) -> Unsubscribe:
        """Call `fn` with every change from now on, after an ADDED (`initial`) for each object held already.

        The latter comes again at each resync: so what a subscriber lost through a fault of its own is made up for.
        Returns what ends it.
        """
        return self._delivery.subscribe(fn)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._resync:
                group.create_task(self._replay_now_and_then(), name=f"resync {self.resource}")
            await self._reflector.run()

    async def wait_for_sync(self, timeout: float) -> None:  # noqa: ASYNC109 - the clock's seconds, not the loop's
        """Wait until the resource was listed once.

        Raises: CacheNotSynced after `timeout` seconds, saying what is in the way and what to do.
        """
        await _wait_for_sync([self], timeout, self._clock)

    def wrote(self, obj: Object) -> None:
        """Take over what a write returned. Ignored where it is no news, or outside the scope."""
        if self._covers(obj):
            self._delivery.wrote(obj)

    def removed(self, obj: Object) -> None:
        """Take over that `obj`, as last read, was deleted.

        Ignored while it has finalizers: then the server keeps it, and the watch tells when it goes.
        """
        if not finalizers_of(obj):
            self._delivery.removed(obj)

    async def _replay_now_and_then(self) -> None:
        while True:
            # By chance, so that the caches of a process do not all do it at once.
            await self._clock.sleep(self._resync * self._random.uniform(1 - RESYNC_JITTER, 1 + RESYNC_JITTER))
            self._delivery.replay()

    def _covers(self, obj: Object) -> bool:
        key = key_of(obj)
        if self.scope.namespace and key.namespace != self.scope.namespace:
            return False
        # Field selectors are the server's to judge: such a scope takes over only what it held already.
        known = not self.scope.field_selector or self.store.get(key) is not None
        return known and self._labels.matches(labels_of(obj))


class Cache:
    """All that is held of one resource, over the informers of its namespaces, or over the one of the whole cluster."""

    def __init__(self, resource: ResourceType, informers: Sequence[Informer]) -> None:
        self.resource = resource
        self.informers = tuple(informers)
        self._by_namespace: Mapping[str | None, Informer] = {i.scope.namespace: i for i in self.informers}

    def get(self, key: Key) -> Object | None:
        """The object of that key; None when there is none, or when its namespace is not covered."""
        informer = self._of(key.namespace)
        return informer.store.get(key) if informer else None

    def list(self, namespace: str | None = None, selector: Selector | None = None) -> Objects:
        """The objects of a namespace (None: of all covered) that `selector` matches (None: all)."""
        if namespace is not None:
            informer = self._of(namespace)
            return informer.store.list(namespace, selector) if informer else []
        return [obj for informer in self.informers for obj in informer.store.list(None, selector)]

    def add_index(self, name: str, fn: IndexFunction) -> None:
        """Keep objects findable under each value that the pure function `fn` gives for them.

        Raises: ValueError when the name is taken.
        """
        for informer in self.informers:
            informer.store.add_index(name, fn)

    def by_index(self, name: str, value: str) -> Objects:
        """The objects for which the index's function gave `value`. Raises: KeyError naming the indexes that exist."""
        return [obj for informer in self.informers for obj in informer.store.by_index(name, value)]

    def subscribe(self, fn: Subscriber) -> Unsubscribe:
        """As `Informer.subscribe`, over all informers."""
        endings = [informer.subscribe(fn) for informer in self.informers]

        def unsubscribe() -> None:
            for ending in endings:
                ending()

        return unsubscribe

    def has_seen(self, version: str) -> bool:
        """Whether all that happened to the resource up to that resourceVersion is shown here."""
        return all(not is_newer(version, informer.resource_version) for informer in self.informers)

    def wrote(self, obj: Object) -> None:
        """Take over what a write returned: the next read sees it or something newer."""
        informer = self._of(key_of(obj).namespace)
        if informer:
            informer.wrote(obj)

    def removed(self, obj: Object) -> None:
        """Take over that `obj`, as last read, was deleted."""
        informer = self._of(key_of(obj).namespace)
        if informer:
            informer.removed(obj)

    def __len__(self) -> int:
        return sum(len(informer.store) for informer in self.informers)

    def _of(self, namespace: str) -> Informer | None:
        return self._by_namespace.get(None) or self._by_namespace.get(namespace)


class Caches:
    """The caches of a process, one a resource, made when first asked for.

    With `namespaces`, namespaced resources are listed and watched in each of these alone, so that Roles suffice.
    """

    def __init__(
        self,
        api: ListWatcher,
        *,
        namespaces: Sequence[str] = (),
        clock: Clock,
        random: Random,
        on_bad_object: BadObjectHook = log_bad_object,
        resync: float = RESYNC,
        watch_list: bool = True,
    ) -> None:
        """`resync` (seconds, 0 for never) and `watch_list` are for every informer: see there."""
        self._api, self._clock, self._random = api, clock, random
        self._resync, self._watch_list = resync, watch_list
        self._namespaces: tuple[str | None, ...] = tuple(dict.fromkeys(namespaces)) or (None,)
        self._on_bad_object = on_bad_object
        self._caches: dict[tuple[ResourceType, Scope], Cache] = {}
        self._running: asyncio.TaskGroup | None = None

    def cache(
        self,
        resource: ResourceType,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        left_out: tuple[str, ...] = (),
    ) -> Cache:
        """The cache of `resource`, or of the part that server-side selectors leave; made when first asked for.

        With `metadata_only` its objects have only apiVersion, kind and metadata, which saves the rest in transport and
        in memory; without the fields of `left_out` (such as `spec.template`) they save memory. Either is another cache
        than that of the whole objects. Starts at once when `run` is on.
        """
        whole = Scope(None, label_selector, field_selector, metadata_only, left_out)
        cache = self._caches.get((resource, whole))
        if cache is None:
            namespaces = self._namespaces if resource.namespaced else (None,)
            scopes = [replace(whole, namespace=namespace) for namespace in namespaces]
            cache = Cache(resource, [self._informer(resource, scope) for scope in scopes])
            self._caches[resource, whole] = cache
            if self._running:
                self._start(self._running, cache)
        return cache

    async def run(self) -> None:
        """Follow the server with every cache, also those made later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._running = group
            try:
                for cache in self._caches.values():
                    self._start(group, cache)
                await asyncio.get_running_loop().create_future()  # for ever
            finally:
                self._running = None

    async def wait_for_sync(self, timeout: float) -> None:  # noqa: ASYNC109 - the clock's seconds, not the loop's
        """Wait until every resource was listed once.

        Raises: CacheNotSynced after `timeout` seconds, saying of each that is missing what is in the way and what to do.
        """
        await _wait_for_sync(self.informers, timeout, self._clock)

    def health(self) -> list[ReflectorHealth]:
        """The state of every reflector; live views."""
        return [informer.health for informer in self.informers]

    @property
    def informers(self) -> list[Informer]:
        """The informers of all caches."""
        return [informer for cache in self._caches.values() for informer in cache.informers]

    def _informer(self, resource: ResourceType, scope: Scope) -> Informer:
        return Informer(
            self._api,
            resource,
            scope,
            clock=self._clock,
            random=self._random,
            on_bad_object=self._on_bad_object,
            resync=self._resync,
            watch_list=self._watch_list,
        )

    def _start(self, group: asyncio.TaskGroup, cache: Cache) -> None:
        for informer in cache.informers:
            group.create_task(
                informer.run(), name=f"informer {cache.resource} {informer.scope.namespace or ''}".strip()
            )


async def _wait_for_sync(informers: Sequence[Informer], seconds: float, clock: Clock) -> None:
    async def all_synced() -> None:
        for informer in informers:
            await informer.synced.wait()

    waiting, limit = asyncio.ensure_future(all_synced()), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({waiting, limit}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        limit.cancel()
    reasons = [explain(i.health.error, i.resource, i.scope) for i in informers if not i.synced.is_set()]
    if reasons:
        raise CacheNotSynced(f"not synced after {seconds:g} s: " + "\n".join(reasons))
