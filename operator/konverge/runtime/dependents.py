"""Children that are declared instead of written: each a `Dependent`, with an order among them.

class Config(Dependent[Site], kind=ConfigMap):
    def desired(self, site: Site, ctx: Context, /) -> Desired: ...

class Server(Dependent[Site], kind=Deployment, after=[Config]):
    def desired(self, site: Site, ctx: Context, /) -> Desired | None: ...

Classes flow in from the class line of a `DependentReconciler`, the order in which they are rolled out flows out.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, ClassVar, Generic, Self

from konverge.errors import ModelError
from konverge.model.custom import CustomResource, Kind, resource_of
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.runtime.context import Context
from konverge.runtime.readiness import complaint
from konverge.runtime.reconciler import R, type_argument
from konverge.runtime.sparse import Desired


class Dependent(ABC, Generic[R]):
    """One child of every object of a resource.

    `kind` is what it is; `after` lists the dependents that must be ready before it is applied: classes, or names where
    a class stands further down. Both are said on the class line; a subclass adds to the `after` of its base.
    """

    kind: ClassVar[ResourceType | None] = None
    after: ClassVar[tuple["type[Dependent[Any]] | str", ...]] = ()
    resource_class: ClassVar[type[CustomResource[Any, Any]] | None] = None

    def __init_subclass__(cls, *, kind: Kind | None = None, after: "Sequence[type[Dependent[Any]] | str]" = ()) -> None:
        super().__init_subclass__()
        if kind is not None:
            cls.kind = resource_of(kind)
        cls.after = (*cls.after, *after)
        cls.resource_class = type_argument(cls, Dependent)

    def name(self, obj: R, /) -> str:
        """The child's name, by default that of the object. A child under a name that it had before is deleted."""
        return obj.name

    def namespace(self, obj: R, /) -> str:
        """The child's namespace, by default that of the object; a cluster-scoped object has none and must say one."""
        return obj.namespace

    @abstractmethod
    def desired(self, obj: R, ctx: Context, /) -> Desired | None:
        """What the child should hold, as for `ctx.apply`; None when there must be no such child.

        Called when all that it comes after is ready or not desired, so that `ctx.get` finds what it builds upon.
        """

    def ready(self, obj: R, live: Object, /) -> bool | str:  # noqa: ARG002 - for subclasses
        """True when what comes after may be applied; else False, or why not, for a person.

        By default by the rules of the kind, see `readiness`. May raise Terminal for what only a person can help.
        """
        return complaint(live) or True

    @classmethod
    def resource(cls) -> ResourceType:
        """The kind. Raises: ModelError for a class that does not say it."""
        if cls.kind is None:
            raise ModelError(
                f"{cls.__name__}: say what it is, as in class {cls.__name__}(Dependent[...], kind=ConfigMap)"
            )
        return cls.kind

    def key(self, obj: R) -> Key:
        """Where the child of `obj` is."""
        return Key(self.namespace(obj) if self.resource().namespaced else "", self.name(obj))


DependentClass = type[Dependent[Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """The dependents of a reconciler in layers, each after some of earlier layers only; and all that each comes after."""

    layers: tuple[tuple[Dependent[Any], ...], ...]
    before: Mapping[DependentClass, frozenset[DependentClass]]

    @classmethod
    def of(cls, reconciler: str, dependents: Sequence[DependentClass]) -> Self:
        """Put `dependents` in order.

        Raises: ModelError for some that come after each other in a circle, after one that is not among them, or that
        cannot be made.
        """
        for each in dependents:
            each.resource()
            if inspect.isabstract(each):
                raise ModelError(f"{reconciler}: the dependent {each.__name__} lacks desired(self, obj, ctx, /)")
        direct = {each: _resolved(reconciler, each, dependents) for each in dependents}
        sorter = TopologicalSorter(direct)
        try:
            sorter.prepare()
        except CycleError as error:
            circle = " after ".join(each.__name__ for each in reversed(error.args[1]))
            raise ModelError(f"{reconciler}: the dependents wait for each other: {circle}; drop one `after`") from None
        layers = []
        before: dict[DependentClass, frozenset[DependentClass]] = {}
        while sorter.is_active():
            layer = sorter.get_ready()
            for each in layer:
                before[each] = direct[each].union(*(before[other] for other in direct[each]))
            layers.append(tuple(each() for each in sorted(layer, key=dependents.index)))
            sorter.done(*layer)
        return cls(tuple(layers), before)

    def all(self) -> Iterator[Dependent[Any]]:
        """All dependents, in order."""
        return chain.from_iterable(self.layers)

    def behind(self, dependent: Dependent[Any]) -> Iterator[DependentClass]:
        """All that comes after `dependent`."""
        return (each for each, earlier in self.before.items() if type(dependent) in earlier)


def _resolved(
    reconciler: str, dependent: DependentClass, dependents: Sequence[DependentClass]
) -> frozenset[DependentClass]:
    known = {each.__name__: each for each in dependents}
    result = set()
    for other in dependent.after:
        found = known.get(other) if isinstance(other, str) else other
        if found not in dependents:
            name = other if isinstance(other, str) else other.__name__
            raise ModelError(
                f"{reconciler}: {dependent.__name__} comes after {name}, which is not among its dependents "
                f"({', '.join(known)}); add it to `dependents` of the class"
            )
        if found is not None:
            result.add(found)
    return frozenset(result)
