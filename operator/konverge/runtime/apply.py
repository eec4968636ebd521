"""Desired children in, server-side applies out: only what differs is sent, and nobody else's child is taken (`adopt`).

A child carries a hash of what was last applied. It is skipped when the hash is that of what is desired now and the live
object still holds it: so a field that is no longer desired is noticed (the hash moves), drift is noticed (the object no
longer holds it), and neither a restart nor the server's rewriting of values causes a write.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import orjson

from konverge.cache.informer import Cache, Caches
from konverge.cache.store import OWNER_INDEX
from konverge.errors import AlreadyExists, Conflict, Invalid, NotFound
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.ports import Api, Propagation
from konverge.runtime.adopt import MANAGED_BY_LABEL, check_ours, check_place, made_by
from konverge.runtime.compare import holds, projection
from konverge.runtime.diff import HASH_ANNOTATION, Difference, differences
from konverge.runtime.echo import OwnWrites, of_a_child
from konverge.runtime.sparse import Desired, as_stored, sparse

logger = logging.getLogger(__name__)

Keys = list[Key]
Differences = list[Difference]

REMEMBERED: Final = 4096
"""How many children are remembered whose live form differs from the desired one by the server's rewriting."""


class Applier:
    """Writes children for their owners, through the cache so that the next read sees them.

    `wake` is called with an owner about whose child there is news.
    """

    def __init__(self, api: Api, caches: Caches, wake: Callable[[Object], None], *, field_manager: str) -> None:
        self._api, self._caches, self._wake, self.field_manager = api, caches, wake, field_manager
        self._rewritten: OrderedDict[tuple[ResourceType, Key], tuple[str, Any]] = OrderedDict()
        self._own: dict[ResourceType, OwnWrites] = {}

    async def apply(
        self,
        owner: Object,
        resource: ResourceType,
        name: str,
        desired: Desired,
        namespace: str | None,
    ) -> Object:
        """Make the child hold `desired`; see `Context.apply`."""
        wanted = self._complete(owner, resource, name, desired, namespace)
        key = Key(namespace or "", name)
        live = self._caches.cache(resource).get(key)
        if live is not None:
            check_ours(owner, resource, live, self.field_manager)
            if meta.is_deleting(live) or self._settled(resource, key, live, wanted):
                return live
        write = self._write(owner, resource, name, wanted, namespace, known=live is not None)
        applied = await self._send(owner, resource, key, write)
        self._remember(resource, key, applied, wanted)
        if logger.isEnabledFor(logging.DEBUG):
            told = ", ".join(map(str, differences(resource, live, applied))) if live is not None else "created"
            logger.debug("applied %s %s: %s", resource.kind, key, told or "nothing changed")
        return applied

    async def _write(
        self, owner: Object, resource: ResourceType, name: str, wanted: Object, namespace: str | None, *, known: bool
    ) -> Object:
        """Apply. What the cache does not show may be there all the same, and another's: so that is not forced at first."""
        apply = partial(self._api.apply, resource, name, wanted, namespace, field_manager=self.field_manager)
        if known:
            return await apply()
        try:
            return await apply(force=False)
        except (Conflict, Invalid):
            live = await self._read(resource, name, namespace)
            if live is None:
                raise
            check_ours(owner, resource, live, self.field_manager)
        return await apply()

    async def diff(
        self, owner: Object, resource: ResourceType, name: str, desired: Desired, namespace: str | None
    ) -> Differences:
        """What `apply` would change, as the server says; see `Context.diff`."""
        wanted = self._complete(owner, resource, name, desired, namespace)
        live = await self._read(resource, name, namespace)
        if live is not None:
            check_ours(owner, resource, live, self.field_manager)
        then = await self._api.apply(resource, name, wanted, namespace, field_manager=self.field_manager, dry_run=True)
        return differences(resource, live, then)

    async def _read(self, resource: ResourceType, name: str, namespace: str | None) -> Object | None:
        """Past the cache: what others did meanwhile would look like a change of ours."""
        try:
            return await self._api.get(resource, name, namespace)
        except NotFound:
            return None

    async def create_once(
        self,
        owner: Object,
        resource: ResourceType,
        name: str,
        desired: Desired,
        namespace: str | None,
    ) -> Object:
        """Create the child unless it is there; see `Context.create_once`."""
        key = Key(namespace or "", name)
        live = self._caches.cache(resource).get(key)
        if live is None:
            wanted = self._complete(owner, resource, name, desired, namespace)
            live = await self._send(owner, resource, key, self._create(resource, name, wanted, namespace))
        check_ours(owner, resource, live, self.field_manager)
        return live

    async def _create(self, resource: ResourceType, name: str, wanted: Object, namespace: str | None) -> Object:
        try:
            return await self._api.create(resource, wanted, namespace)
        except AlreadyExists:
            return await self._api.get(resource, name, namespace)

    async def patch(
        self, resource: ResourceType, name: str, patch: Mapping[str, Any], namespace: str | None, cache: Cache
    ) -> Object:
        """Merge into what is no child, and let `cache` see it; see `Context.patch`."""
        patched = await self._api.patch(resource, name, patch, namespace, field_manager=self.field_manager)
        cache.wrote(patched)
        return patched

    async def delete(
        self,
        owner: Object,
        resource: ResourceType,
        name: str,
        namespace: str | None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete the child if it is there; see `Context.delete`."""
        live = self._caches.cache(resource).get(Key(namespace or "", name))
        if live is None or meta.is_deleting(live):
            return
        check_ours(owner, resource, live, self.field_manager)
        await self._delete(resource, live, propagation)

    async def prune(self, owner: Object, resource: ResourceType, keep: Collection[Key]) -> Keys:
        """Delete the children that are not in `keep`; see `Context.prune`."""
        gone: Keys = []
        for child in self._caches.cache(resource).by_index(OWNER_INDEX, meta.uid_of(owner)):
            key = meta.key_of(child)
            if key not in keep and made_by(self.field_manager, child) and not meta.is_deleting(child):
                await self._delete(resource, child)
                gone.append(key)
        return gone

    async def _delete(self, resource: ResourceType, live: Object, propagation: Propagation = "Background") -> None:
        """Delete that very object: one of the same name that was made meanwhile stays."""
        key = meta.key_of(live)
        try:
            await self._api.delete(
                resource, key.name, key.namespace or None, uid=meta.uid_of(live), propagation=propagation
            )
        except NotFound:
            self._caches.cache(resource).removed(live)

    def own(self, resource: ResourceType) -> OwnWrites:
        """The writes to children of that resource."""
        if resource not in self._own:
            self._own[resource] = OwnWrites(self._caches.cache(resource), of_a_child)
        return self._own[resource]

    async def _send(self, owner: Object, resource: ResourceType, key: Key, write: Awaitable[Object]) -> Object:
        return await self.own(resource).send(key, write, partial(self._wake, owner))

    def _complete(
        self,
        owner: Object,
        resource: ResourceType,
        name: str,
        desired: Desired,
        namespace: str | None,
    ) -> dict[str, Any]:
        check_place(owner, resource, namespace)
        body = as_stored(resource, sparse(desired))
        given = body.get("metadata") or {}
        metadata: dict[str, Any] = {**given, "name": name}
        if namespace:
            metadata["namespace"] = namespace
        metadata["labels"] = {**(given.get("labels") or {}), MANAGED_BY_LABEL: self.field_manager}
        metadata["ownerReferences"] = [meta.owner_reference(owner)]
        wanted = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        annotations = given.get("annotations") or {}
        metadata["annotations"] = {**annotations, HASH_ANNOTATION: _digest(wanted)}
        return wanted

    def _settled(self, resource: ResourceType, key: Key, live: Object, wanted: Mapping[str, Any]) -> bool:
        digest = wanted["metadata"]["annotations"][HASH_ANNOTATION]
        if meta.annotations_of(live).get(HASH_ANNOTATION) != digest:
            return False
        if holds(live, wanted):
            return True
        return self._rewritten.get((resource, key)) == (digest, projection(live, wanted))

    def _remember(self, resource: ResourceType, key: Key, applied: Object, wanted: Mapping[str, Any]) -> None:
        """Keep the server's own form of what it rewrote beyond what `holds` understands: next time it is no drift."""
        self._rewritten.pop((resource, key), None)
        if not holds(applied, wanted):
            digest = wanted["metadata"]["annotations"][HASH_ANNOTATION]
            self._rewritten[resource, key] = (digest, projection(applied, wanted))
            while len(self._rewritten) > REMEMBERED:
                self._rewritten.popitem(last=False)


def _digest(wanted: Mapping[str, Any]) -> str:
    return blake2b(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS), digest_size=10).hexdigest()
