"""What a reconciler's class line says of the cluster: kinds that wake it, kinds it reads, and how they are indexed.

Declarations flow in from `Reconciler`; `sources` wakes objects by them, `Context` reads by them, `konverge rbac` grants
what they need.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from konverge.cache.index import IndexFunction
from konverge.cache.informer import Cache, Caches
from konverge.errors import ModelError
from konverge.model import meta
from konverge.model.custom import Kind, resource_of
from konverge.model.meta import Key
from konverge.model.rbac import Access
from konverge.model.resource import Object, ResourceType
from konverge.model.selectors import Selector
from konverge.runtime.predicates import Predicate, changed

logger = logging.getLogger(__name__)

Mapper = Callable[[Object], Iterable[Key]]
"""Which of the reconciler's objects a change of a watched object concerns."""


@dataclass(frozen=True, slots=True)
class View:
    """The part of a kind that is held in memory: what the server-side selectors leave, whole or the metadata alone."""

    resource: ResourceType
    selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def __post_init__(self) -> None:
        try:
            Selector.parse(self.selector)
        except ValueError as error:
            raise ModelError(f"{self.resource.kind}: the selector {self.selector!r} is none: {error}") from None

    def of(self, caches: Caches) -> Cache:
        """The cache that holds it."""
        return caches.cache(
            self.resource,
            label_selector=self.selector,
            field_selector=self.field_selector,
            metadata_only=self.metadata_only,
        )


@dataclass(frozen=True, slots=True)
class ByIndex:
    """Wakes the reconciled objects that an index of theirs finds under the watched object's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind whose changes wake the reconciler's objects that `to` names, as far as `predicate` lets them through."""

    view: View
    to: Mapper | ByIndex
    predicate: Predicate = changed

    @property
    def resource(self) -> ResourceType:
        """The kind that is watched."""
        return self.view.resource


@dataclass(frozen=True, slots=True)
class IndexDeclaration:
    """An index of a kind: `values` gives for each object the values under which it is found."""

    resource: ResourceType
    name: str
    values: IndexFunction


Readable: TypeAlias = Kind | View
"""What `reads` lists: a kind as a whole, or a part of it made by `read`."""


def watch(
    kind: Kind,
    *,
    to: Mapper | ByIndex,
    selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
    predicate: Predicate = changed,
) -> Watch:
    """Declare that a change of a `kind` object wakes the objects whose keys `to(object)` yields.

    `to=by_index(name)` asks an index of the reconciled resource instead. `selector` and `field_selector` are the
    server's; what they leave out is neither sent nor held. With `metadata_only` only names, labels, annotations and
    owners are.

    Raises: ModelError for a selector that is none.
    """
    return Watch(View(resource_of(kind), selector, field_selector, metadata_only), to, predicate)


def read(kind: Kind, *, selector: str = "", field_selector: str = "", metadata_only: bool = False) -> View:
    """Declare, in `reads`, a part of a kind. The arguments and errors are those of `watch`."""
    return View(resource_of(kind), selector, field_selector, metadata_only)


def index(kind: Kind, name: str, values: IndexFunction) -> IndexDeclaration:
    """Declare that `kind` objects are found under each of the texts that `values(object)` yields, by `ctx.by_index`.

    `values` is given the object as the server sent it, and must be pure: the same values for the same object. An
    object that it raises on is found under nothing.
    """
    return IndexDeclaration(resource_of(kind), name, values)


def by_index(name: str) -> ByIndex:
    """For `watch(..., to=by_index(name))`: wake the reconciled objects that refer to the changed one.

    The index, one of the reconciled resource, yields the names that an object refers to: a bare name is one in the
    object's own namespace (or of a cluster-scoped kind), `namespace/name` one anywhere.
    """
    return ByIndex(name)


def mapper_through(find: Callable[[str], Iterable[Object]]) -> Mapper:
    """The mapping of a `ByIndex` whose index `find` looks up."""

    def referring(changed_object: Object) -> Iterable[Key]:
        key = meta.key_of(changed_object)
        for obj in find(key.name):
            mine = meta.key_of(obj)
            if not key.namespace or mine.namespace == key.namespace:
                yield mine
        if key.namespace:
            yield from (meta.key_of(obj) for obj in find(str(key)))

    return referring


def harmless(declared: IndexDeclaration) -> IndexFunction:
    """The index's function, for which an object that it raises on has no values.

    A store sets aside what its indexes raise on; but an object that does not fit its model has to come through, to be
    told so in its status.
    """

    def values(obj: Object) -> Iterable[str]:
        try:
            return tuple(declared.values(obj))
        except Exception as error:  # noqa: BLE001 - the function is the user's
            logger.warning(
                "%s %s is found by no value of index %r: %s: %s",
                declared.resource.kind, meta.key_of(obj), declared.name, type(error).__name__, error,
            )  # fmt: skip
            return ()

    return values


@dataclass(frozen=True, slots=True)
class Declared:
    """All that one reconciler declared, for checking what it touches.

    `views` tells what of a kind is read; None where several parts of it are watched and none was chosen in `reads`.
    `patches` are the kinds that `access` lets it patch though they are no children.
    """

    reconciler: str
    owns: frozenset[ResourceType]
    views: Mapping[ResourceType, View | None]
    indexes: frozenset[tuple[ResourceType, str]] = frozenset()
    patches: frozenset[ResourceType] = frozenset()

    def index_name(self, name: str) -> str:
        """The name under which the shared cache keeps the index: two reconcilers may both index one kind."""
        return f"{self.reconciler}.{name}"


def declare(
    reconciler: str,
    resource: ResourceType,
    owns: Iterable[ResourceType],
    reads: Iterable[View],
    watches: Iterable[Watch],
    indexes: Iterable[IndexDeclaration],
    access: Iterable[Access] = (),
) -> Declared:
    """Join the declarations of one reconciler of `resource`. What is owned is read whole, whatever is watched of it.

    Raises: ModelError for an index of a kind that is not read, or that does not exist.
    """
    owned, indexed, waking = frozenset(owns), tuple(indexes), tuple(watches)
    views: dict[ResourceType, View | None] = {}
    for each in waking:
        first = views.setdefault(each.resource, each.view)
        if first != each.view:
            views[each.resource] = None
    views.update((view.resource, view) for view in reads)
    views.update((each, View(each)) for each in (resource, *owned))
    for each_index in indexed:
        if views.get(each_index.resource) is None:
            raise ModelError(
                f"{reconciler}: the index {each_index.name!r} is of {each_index.resource.kind}, which is not read; "
                f"add {each_index.resource.kind} to `reads` of the class"
            )
    names = {each.name for each in indexed if each.resource == resource}
    for asked in (each.to for each in waking):
        if isinstance(asked, ByIndex) and asked.name not in names:
            raise ModelError(
                f"{reconciler}: a watch asks for the index {asked.name!r} of {resource.kind}, which has "
                f"{', '.join(sorted(names)) or 'none'}; add index({resource.kind}, {asked.name!r}, ...) to `indexes`"
            )
    patches = frozenset(each.resource for each in access if "patch" in each.verbs and not each.subresource)
    return Declared(reconciler, owned, views, frozenset((each.resource, each.name) for each in indexed), patches)
