"""What a reconciler is given beside its object: reads, writes of children, events, its phase and its conditions.

Reads come from the cache and see this process's own writes; writes go through `apply`, which sends only differences.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, overload

from konverge.cache.informer import Cache, Caches
from konverge.cache.store import OWNER_INDEX
from konverge.errors import NotFound, UndeclaredKind
from konverge.model.custom import CustomResource, Kind, resource_of
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.model.selectors import Selector
from konverge.ports import Clock, Propagation, Reader, Recorder
from konverge.runtime.apply import Applier
from konverge.runtime.declare import Declared
from konverge.runtime.diff import Difference
from konverge.runtime.draft import ConditionsDraft, PhaseDraft
from konverge.runtime.sparse import Desired

Objects: TypeAlias = list[Object]
Keys: TypeAlias = list[Key]
Differences: TypeAlias = list[Difference]
C = TypeVar("C", bound=CustomResource[Any, Any])


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
        alone, unless an earlier apply had set them: then they are taken away. Nothing is sent when nothing differs, nor
        to a child that is being deleted: its end wakes the owner.

        Raises: UndeclaredKind; NotController when the object is there and not ours; Terminal for a place where the
        owner cannot own it; TypeError for what cannot be sent; ApiError; ConnectionFailed.
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

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], *, namespace: str | None = None) -> Object:
        """Merge `patch` into an object that is no child, such as the claim that a StatefulSet made; return it as then.

        A child is changed by `apply`. The patch is sent as it is: compare with `get` first, and put the
        resourceVersion that you read into its metadata where a change of others must not be overwritten.

        Raises: UndeclaredKind, unless `access` of the class has Access(kind, ("patch",)) and the kind is read; NotFound;
        Conflict; Invalid; any other ApiError; ConnectionFailed.
        """
        resource = resource_of(kind)
        if resource not in self._declared.patches:
            raise UndeclaredKind(
                f"{self._declared.reconciler} patches {resource.kind} without declaring it: "
                f'add Access({resource.kind}, ("patch",)) to `access` of the class'
            )
        cache = self._cache(resource)
        return await self._applier.patch(resource, name, patch, self._namespace(resource, namespace), cache)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, propagation: Propagation = "Background"
    ) -> None:
        """Delete the child `name` if it is there and ours; with `propagation` Orphan, what it owns stays.

        Raises: UndeclaredKind; NotController; ApiError.
        """
        resource = self._owned(kind)
        scope = self._namespace(resource, namespace)
        await self._applier.delete(self.owner.raw, resource, name, scope, propagation)

    async def prune(self, kind: Kind, keep: Iterable[str | Key], *, namespace: str | None = None) -> Keys:
        """Delete the children of that kind that are not among `keep`; return which. See `adopt` for whose they are.

        A name in `keep` is one in `namespace`, by default the owner's; a Key one anywhere. An object of the same name
        that was made meanwhile stays. Raises: UndeclaredKind; ApiError; ConnectionFailed.
        """
        resource = self._owned(kind)
        scope = self._namespace(resource, namespace) or ""
        kept = frozenset(Key(scope, each) if isinstance(each, str) else each for each in keep)
        return await self._applier.prune(self.owner.raw, resource, kept)

    async def diff(self, kind: Kind, name: str, desired: Desired, *, namespace: str | None = None) -> Differences:
        """What `apply` would change, as the server answers to a dry run; a child not there yet is one difference.

        The values of Secrets are masked. Status and the server's bookkeeping are left out. Raises: as `apply`.
        """
        resource = self._owned(kind)
        return await self._applier.diff(self.owner.raw, resource, name, desired, self._namespace(resource, namespace))

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

    def by_index(self, kind: Kind, name: str, value: str) -> Objects:
        """Read from the cache the objects for which the declared index `name` gave `value`. Raises: UndeclaredKind."""
        resource = resource_of(kind)
        if (resource, name) not in self._declared.indexes:
            raise UndeclaredKind(
                f"{self._declared.reconciler} asks for the index {name!r} of {resource.kind} without declaring it: "
                f"add index({resource.kind}, {name!r}, ...) to `indexes` of the class"
            )
        return self._cache(resource).by_index(self._declared.index_name(name), value)

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
        if resource not in self._declared.views:
            raise UndeclaredKind.of(self._declared.reconciler, resource.kind, "reads")
        view = self._declared.views[resource]
        if view is None:
            raise UndeclaredKind(
                f"{self._declared.reconciler} watches several parts of {resource.kind}: say in `reads` of the class "
                f"which of them it reads, as in reads=[read({resource.kind}, selector=...)]"
            )
        return view.of(self._caches)
