"""Desired children in, server-side applies out: only what differs is sent, and nobody else's child is taken.

A child carries a hash of what was last applied. It is skipped when the hash is that of what is desired now and the live
object still holds it: so a field that is no longer desired is noticed (the hash moves), drift is noticed (the object no
longer holds it), and neither a restart nor the server's rewriting of values causes a write.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import orjson
from pydantic import BaseModel

from konverge.cache.informer import Caches
from konverge.errors import AlreadyExists, NotController, NotFound
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.ports import Api
from konverge.runtime.compare import holds, projection
from konverge.runtime.echo import OwnWrites, of_a_child

HASH_ANNOTATION: Final = "konverge.dev/desired-hash"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
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
        desired: Mapping[str, Any] | BaseModel,
        namespace: str | None,
    ) -> Object:
        """Make the child hold `desired`; see `Context.apply`."""
        wanted = self._complete(owner, resource, name, desired, namespace)
        key = Key(namespace or "", name)
        live = self._caches.cache(resource).get(key)
        if live is not None:
            self._check_ours(owner, resource, live)
            if self._settled(resource, key, live, wanted):
                return live
        write = self._api.apply(resource, name, wanted, namespace, field_manager=self.field_manager)
        applied = await self._send(owner, resource, key, write)
        self._remember(resource, key, applied, wanted)
        return applied

    async def create_once(
        self,
        owner: Object,
        resource: ResourceType,
        name: str,
        desired: Mapping[str, Any] | BaseModel,
        namespace: str | None,
    ) -> Object:
        """Create the child unless it is there; see `Context.create_once`."""
        key = Key(namespace or "", name)
        live = self._caches.cache(resource).get(key)
        if live is None:
            wanted = self._complete(owner, resource, name, desired, namespace)
            live = await self._send(owner, resource, key, self._create(resource, name, wanted, namespace))
        self._check_ours(owner, resource, live)
        return live

    async def _create(self, resource: ResourceType, name: str, wanted: Object, namespace: str | None) -> Object:
        try:
            return await self._api.create(resource, wanted, namespace)
        except AlreadyExists:
            return await self._api.get(resource, name, namespace)

    async def delete(self, owner: Object, resource: ResourceType, name: str, namespace: str | None) -> None:
        """Delete the child if it is there; see `Context.delete`."""
        cache = self._caches.cache(resource)
        live = cache.get(Key(namespace or "", name))
        if live is None or meta.is_deleting(live):
            return
        self._check_ours(owner, resource, live)
        try:
            await self._api.delete(resource, name, namespace, uid=meta.uid_of(live))
        except NotFound:
            cache.removed(live)

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
        desired: Mapping[str, Any] | BaseModel,
        namespace: str | None,
    ) -> dict[str, Any]:
        body = _sparse(desired)
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

    def _check_ours(self, owner: Object, resource: ResourceType, live: Object) -> None:
        """An object of ours is one that this owner controls, or an orphan that carries our label."""
        controller = meta.controller_of(live)
        if controller is None:
            if meta.labels_of(live).get(MANAGED_BY_LABEL) == self.field_manager:
                return
            raise NotController(
                f"{resource.kind} {meta.key_of(live)} is there already and nobody's child; delete it, or label it "
                f"{MANAGED_BY_LABEL}={self.field_manager} to let {owner['kind']} {meta.key_of(owner)} adopt it"
            )
        if controller.get("uid") != meta.uid_of(owner):
            raise NotController(
                f"{resource.kind} {meta.key_of(live)} belongs to {controller.get('kind')} {controller.get('name')}, "
                f"not to {owner['kind']} {meta.key_of(owner)}; rename one of the two"
            )

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


def _sparse(desired: Mapping[str, Any] | BaseModel) -> Mapping[str, Any]:
    """Models of the `kubernetes` client are sent without what was never set: a null or zero value is a claim on the field."""
    if isinstance(desired, BaseModel):
        return desired.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return desired


def _digest(wanted: Mapping[str, Any]) -> str:
    return blake2b(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS), digest_size=10).hexdigest()
