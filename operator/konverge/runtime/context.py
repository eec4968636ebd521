"""What a reconciler is given beside its object: reads, writes of children, events, its phase and its conditions.

Reads come from the cache and see this process's own writes; writes go through `apply`, which sends only differences.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, overload

from pydantic import BaseModel

from konverge.cache.informer import Cache, Caches
from konverge.cache.store import OWNER_INDEX
from konverge.errors import NotFound, UndeclaredKind
from konverge.model.custom import CustomResource, Kind, resource_of
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.model.selectors import Selector
from konverge.ports import Clock, Reader, Recorder
from konverge.runtime.apply import Applier
from konverge.runtime.draft import ConditionsDraft, PhaseDraft

Objects: TypeAlias = list[Object]
C = TypeVar("C", bound=CustomResource[Any, Any])

Desired = Mapping[str, Any] | BaseModel
"""What a child should hold: a sparse mapping, or a model of the `kubernetes` client, of which unset fields are not sent."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The kinds that a reconciler declared, for checking what it touches."""

    reconciler: str
    owns: frozenset[ResourceType]
    readable: frozenset[ResourceType]


class Context:
    """The world as one reconcile of one object sees it."""

    def __init__(
        self,
        owner: CustomResource[Any, Any],
        declared: Declared,
        *,
        applier: Applier,
        caches: Caches,
        live: Reader,
        recorder: Recorder,
        clock: Clock,
        log: "logging.LoggerAdapter[logging.Logger]",
    ) -> None:
        self.owner, self.live, self.clock, self.log = owner, live, clock, log
        self.conditions = ConditionsDraft(owner.generation)
        self.phase_draft = PhaseDraft(owner)
        self._declared, self._applier, self._caches, self._recorder = declared, applier, caches, recorder

    @property
    def phase(self) -> PhaseDraft:
        """The state machine of the object. Raises: ModelError where the resource declares no phases."""
        return self.phase_draft.checked()

    async def apply(self, kind: Kind, name: str, desired: Desired, *, namespace: str | None = None) -> Object:
        """Make the child `name` hold `desired`, and return it as it is then.

        `desired` is sparse: apiVersion, kind, name, owner reference and labels are added, and fields left out are left
        alone, unless an earlier apply had set them: then they are taken away. Nothing is sent when nothing differs.

        Raises: UndeclaredKind; NotController when the object is there and not ours; ApiError; ConnectionFailed.
        """
        resource = self._owned(kind)
        return await self._applier.apply(self.owner.raw, resource, name, desired, self._namespace(resource, namespace))

    async def create_once(self, kind: Kind, name: str, desired: Desired, *, namespace: str | None = None) -> Object:
        """Return the child `name`, made from `desired` if it is not there; an existing one is never changed.

        Raises: as `apply`.
        """
        resource = self._owned(kind)
        scope = self._namespace(resource, namespace)
        return await self._applier.create_once(self.owner.raw, resource, name, desired, scope)

    async def delete(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        """Delete the child `name` if it is there and ours. Raises: UndeclaredKind; NotController; ApiError."""
        resource = self._owned(kind)
        await self._applier.delete(self.owner.raw, resource, name, self._namespace(resource, namespace))

    @overload
    def get(self, kind: ResourceType, name: str, namespace: str | None = None) -> Object | None: ...
    @overload
    def get(self, kind: type[C], name: str, namespace: str | None = None) -> C | None: ...
    def get(
        self, kind: ResourceType | type[CustomResource[Any, Any]], name: str, namespace: str | None = None
    ) -> Object | CustomResource[Any, Any] | None:
        """Read one object from the cache, by default from the owner's namespace; None when it is not there.

        Raises: UndeclaredKind; ManifestError when a typed one does not parse.
        """
        resource = resource_of(kind)
        found = self._cache(resource).get(Key(self._namespace(resource, namespace) or "", name))
        if found is None or isinstance(kind, ResourceType):
            return found
        return kind.parse(found)

    def list(self, kind: Kind, *, namespace: str | None = None, selector: Selector | None = None) -> Objects:
        """Read from the cache what matches; all namespaces when `namespace` is None. Raises: UndeclaredKind."""
        return self._cache(resource_of(kind)).list(namespace, selector)

    def children(self, kind: Kind) -> Objects:
        """The objects of that kind that this object controls, from the cache. Raises: UndeclaredKind."""
        return self._cache(self._owned(kind)).by_index(OWNER_INDEX, self.owner.uid)

    async def read_live(self, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
        """Read one object from the server, past the cache; None when it is not there. Raises: ApiError."""
        resource = resource_of(kind)
        try:
            return await self.live.get(resource, name, self._namespace(resource, namespace))
        except NotFound:
            return None

    def event(self, event_type: Literal["Normal", "Warning"], reason: str, message: str, *, action: str = "") -> None:
        """Record a Kubernetes event on the object; like ones are aggregated."""
        self._recorder.event(self.owner.raw, event_type, reason, message, action=action)

    def _namespace(self, resource: ResourceType, namespace: str | None) -> str | None:
        if not resource.namespaced:
            return None
        return namespace or self.owner.namespace or None

    def _owned(self, kind: Kind) -> ResourceType:
        resource = resource_of(kind)
        if resource not in self._declared.owns:
            raise UndeclaredKind.of(self._declared.reconciler, resource.kind, "owns")
        return resource

    def _cache(self, resource: ResourceType) -> Cache:
        if resource not in self._declared.readable:
            raise UndeclaredKind.of(self._declared.reconciler, resource.kind, "reads")
        return self._caches.cache(resource)
