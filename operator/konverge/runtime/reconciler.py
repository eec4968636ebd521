"""What a user writes: a `Reconciler` over one custom resource, with what it owns, watches and reads said on the class line.

class WebReconciler(Reconciler[Web], owns=[Deployment]):
    async def reconcile(self, web: Web, ctx: Context, /) -> Result: ...
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from konverge.errors import ModelError
from konverge.model.custom import CustomResource, Kind, resource_of
from konverge.model.meta import Key
from konverge.model.rbac import Access
from konverge.model.resource import Object, ResourceType
from konverge.runtime.context import Context
from konverge.runtime.result import Result

R = TypeVar("R", bound=CustomResource[Any, Any])

Mapper = Callable[[Object], Iterable[Key]]
"""Which of the reconciler's objects a change of a watched object concerns."""

DEFAULT_WORKERS = 16
DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind whose changes wake the reconciler's objects that `to` names."""

    resource: ResourceType
    to: Mapper


def watch(kind: Kind, *, to: Mapper) -> Watch:
    """Declare that a change of a `kind` object wakes the objects whose keys `to(object)` yields."""
    return Watch(resource_of(kind), to)


class Reconciler(ABC, Generic[R]):
    """Compares what one object asks for with what is there, and takes one idempotent step towards it.

    `owns`: kinds of children; `ctx.apply` accepts these only, and a change of a child wakes its owner.
    `watches`: kinds that wake objects through a mapping. `reads`: kinds read from the cache without waking anything.
    `access`: what else it does on the API server, for `konverge rbac`. `workers` objects are reconciled at once; one
    reconcile may take `timeout` seconds.

    Defining `finalize` turns the finalizer on: the object stays until `finalize` returns `Result.done()`.
    A generic subclass (`class Mirror(Reconciler[R])`) becomes concrete with a typed parameter (`class A(Mirror[Web])`).
    """

    resource_class: ClassVar[type[CustomResource[Any, Any]] | None] = None
    owns: ClassVar[tuple[ResourceType, ...]] = ()
    watches: ClassVar[tuple[Watch, ...]] = ()
    reads: ClassVar[tuple[ResourceType, ...]] = ()
    access: ClassVar[tuple[Access, ...]] = ()
    workers: ClassVar[int] = DEFAULT_WORKERS
    timeout: ClassVar[float] = DEFAULT_TIMEOUT

    def __init_subclass__(
        cls,
        *,
        owns: Sequence[Kind] | None = None,
        watches: Sequence[Watch] | None = None,
        reads: Sequence[Kind] | None = None,
        access: Sequence[Access] | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.resource_class = _resource_class(cls)
        if owns is not None:
            cls.owns = tuple(resource_of(kind) for kind in owns)
        if watches is not None:
            cls.watches = tuple(watches)
        if reads is not None:
            cls.reads = tuple(resource_of(kind) for kind in reads)
        if access is not None:
            cls.access = tuple(access)
        if workers is not None:
            if workers < 1:
                raise ModelError(f"{cls.__name__}: workers must be at least 1, not {workers}")
            cls.workers = workers
        if timeout is not None:
            if timeout <= 0:
                raise ModelError(f"{cls.__name__}: timeout must be positive seconds, not {timeout}")
            cls.timeout = timeout

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
        """Streams of keys from outside the cluster, each read for as long as the controller runs."""
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


def _resource_class(cls: type[Any]) -> type[CustomResource[Any, Any]] | None:
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Reconciler):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, CustomResource):
                    return argument
    inherited: type[CustomResource[Any, Any]] | None = getattr(super(cls, cls), "resource_class", None)
    return inherited
