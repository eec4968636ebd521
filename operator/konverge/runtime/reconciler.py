"""What a user writes: a `Reconciler` over one custom resource, with what it owns, watches and reads said on the class line.

class WebReconciler(Reconciler[Web], owns=[Deployment]):
    async def reconcile(self, web: Web, ctx: Context, /) -> Result: ...
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from konverge.cache.informer import Caches
from konverge.errors import ModelError
from konverge.model.custom import CustomResource, Kind, resource_of
from konverge.model.intercept import Intercept, Operations
from konverge.model.meta import Key
from konverge.model.rbac import Access
from konverge.model.resource import Object, ResourceType
from konverge.runtime.context import Context
from konverge.runtime.declare import Declared, IndexDeclaration, Readable, View, Watch, declare
from konverge.runtime.predicates import Predicate, changed
from konverge.runtime.result import Result

R = TypeVar("R", bound=CustomResource[Any, Any])
Item = TypeVar("Item", bound=Hashable)
ShardOf = Callable[[Key], str]

DEFAULT_WORKERS = 32
"""Twice as many as 16 make a tenth more objects Ready a second, four times as many no more (bench/converge.py)."""
DEFAULT_TIMEOUT = 300.0


class Reconciler(ABC, Generic[R]):
    """Compares what one object asks for with what is there, and takes one idempotent step towards it.

    `owns`: kinds of children; `ctx.apply` accepts these only, and a change of a child wakes its owner.
    `watches`: kinds that wake objects through a mapping. `reads`: kinds read from the cache without waking anything.
    `indexes`: how objects of a kind that is read are found by value. `access`: what else it does on the API server, for
    `konverge rbac`, and `home` what of that it does in the operator's own namespace alone. `predicate`: which changes of the object itself wake it. `workers` objects are reconciled at once;
    one reconcile may take `timeout` seconds. `shards` cuts the queue, with a share of the workers for each shard: objects
    for whose key `shard_of` gives the same text (default: the whole key) share one, so that with the namespace no tenant
    can hold up the others.

    Defining `finalize` turns the finalizer on: the object stays until `finalize` returns `Result.done()`.
    A generic subclass (`class Mirror(Reconciler[R])`) becomes concrete with a typed parameter (`class A(Mirror[Web])`).
    A subclass adds to the kinds, watches, indexes and accesses of its base; the other options it replaces.
    """

    resource_class: ClassVar[type[CustomResource[Any, Any]] | None] = None
    owns: ClassVar[tuple[ResourceType, ...]] = ()
    watches: ClassVar[tuple[Watch, ...]] = ()
    reads: ClassVar[tuple[View, ...]] = ()
    indexes: ClassVar[tuple[IndexDeclaration, ...]] = ()
    predicate: ClassVar[Predicate] = staticmethod(changed)
    access: ClassVar[tuple[Access, ...]] = ()
    home: ClassVar[tuple[Access, ...]] = ()
    workers: ClassVar[int] = DEFAULT_WORKERS
    timeout: ClassVar[float] = DEFAULT_TIMEOUT
    shards: ClassVar[int] = 1
    shard_of: ClassVar[ShardOf] = staticmethod(str)
    intercepts: ClassVar[tuple[Intercept, ...]] = ()
    """Hooks on new objects of others, which `intercept` answers."""

    def __init_subclass__(
        cls,
        *,
        owns: Sequence[Kind] = (),
        watches: Sequence[Watch] = (),
        reads: Sequence[Readable] = (),
        indexes: Sequence[IndexDeclaration] = (),
        access: Sequence[Access] = (),
        home: Sequence[Access] = (),
        predicate: Predicate | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        shards: int | None = None,
        shard_of: ShardOf | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.resource_class = type_argument(cls, Reconciler)
        cls.owns = _joined(cls.owns, (resource_of(kind) for kind in owns))
        cls.watches = _joined(cls.watches, watches)
        views = (each if isinstance(each, View) else View(resource_of(each)) for each in reads)
        cls.reads = _joined(cls.reads, views)
        cls.indexes = _joined(cls.indexes, indexes)
        cls.access = _joined(cls.access, access)
        cls.home = _joined(cls.home, home)
        if predicate is not None:
            cls.predicate = staticmethod(predicate)
        if workers is not None:
            if workers < 1:
                raise ModelError(f"{cls.__name__}: workers must be at least 1, not {workers}")
            cls.workers = workers
        if timeout is not None:
            if timeout <= 0:
                raise ModelError(f"{cls.__name__}: timeout must be positive seconds, not {timeout}")
            cls.timeout = timeout
        if shards is not None:
            cls.shards = shards
        if not 1 <= cls.shards <= cls.workers:
            raise ModelError(
                f"{cls.__name__}: shards must be from 1 to the number of workers ({cls.workers}), not {cls.shards}"
            )
        if shard_of is not None:
            cls.shard_of = staticmethod(shard_of)
        if cls.resource_class is not None:
            cls.declared()  # what does not fit together is said here, not when the operator starts

    @abstractmethod
    async def reconcile(self, obj: R, ctx: Context, /) -> Result:
        """Take `obj` towards its spec. Must be idempotent: it runs again after a crash at any point.

        Raise Terminal when only a change of the object can help, RetryAfter to choose the delay; any other exception
        is retried with growing delays.
        """

    async def finalize(self, obj: R, ctx: Context, /) -> Result:  # noqa: ARG002 - for subclasses
        """Undo what outlives the object. `Result.done()` lets it go; anything else keeps it and comes back."""
        return Result.done()

    def sources(self) -> Sequence[AsyncIterator[Key]]:
        """Streams of keys from outside the cluster, each read for as long as the controller runs.

        Called again when one failed: the one in its place is then read on.
        """
        return ()

    @classmethod
    def intercept(cls, hook: Intercept, obj: Object, namespace: str, caches: Caches, /) -> Operations:  # noqa: ARG003
        """What to change of a new object of `hook.resource`. Called in the event loop, on standby replicas too."""
        return ()

    @classmethod
    def uses_finalizer(cls) -> bool:
        """Whether a subclass defines `finalize`."""
        return cls.finalize is not Reconciler.finalize

    @classmethod
    def resource(cls) -> type[CustomResource[Any, Any]]:
        """The custom resource that is reconciled. Raises: ModelError for a class that is still generic."""
        if cls.resource_class is None:
            raise ModelError(
                f"{cls.__name__}: say what it reconciles, as in class {cls.__name__}(Reconciler[YourKind])"
            )
        return cls.resource_class

    @classmethod
    def declared(cls) -> Declared:
        """All that the class line says. Raises: ModelError where it does not fit together."""
        resource = cls.resource().resource
        return declare(cls.__name__, resource, cls.owns, cls.reads, cls.watches, cls.indexes, cls.access)


def type_argument(cls: type[Any], root: type[Any]) -> type[CustomResource[Any, Any]] | None:
    """What `cls` fills in for the one type parameter of its generic ancestor `root`; None while that is left open."""
    found = _filled_in(cls, root)
    return found if isinstance(found, type) and issubclass(found, CustomResource) else None


def _filled_in(cls: type[Any], root: type[Any]) -> Any:
    """Follow the parameter down the bases: in `class A(Mirror[Secret, Web])` only Mirror knows which one is root's."""
    found: Any = None
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin, arguments = get_origin(base) or base, get_args(base)
        if not (isinstance(origin, type) and issubclass(origin, root)):
            continue
        if origin is root:
            found = arguments[0] if arguments else None
        else:
            found = _filled_in(origin, root)
            if isinstance(found, TypeVar) and arguments:
                found = dict(zip(origin.__dict__["__parameters__"], arguments, strict=True)).get(found)
        if isinstance(found, type):
            break
    return found


def _joined(inherited: tuple[Item, ...], own: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys((*inherited, *own)))
