"""Reconciling what is declared as dependents: in order upwards to apply, in order downwards to delete.

class SiteReconciler(DependentReconciler[Site], dependents=[Config, Server]): ...

A reconcile applies what is desired, a dependent as soon as all that it comes after is ready, independent ones at once.
Then it deletes what is not desired any more, each as soon as what comes after it works without it or is gone too. It
never waits itself: what is not there yet is told in Ready, and the change of a child brings the next reconcile.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from konverge.errors import ModelError, WriteBlocked
from konverge.model import meta
from konverge.model.conditions import State, Verdict
from konverge.model.custom import CustomResource
from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.runtime.adopt import controls
from konverge.runtime.context import Context
from konverge.runtime.dependents import Dependent, DependentClass, Order
from konverge.runtime.readiness import has_failed
from konverge.runtime.reconciler import R, Reconciler
from konverge.runtime.result import Result
from konverge.runtime.sparse import Desired, sparse

DEPENDENT_ANNOTATION: Final = "konverge.dev/dependent"
"""On a child: the dependent that it was made for. Such a child is deleted when no dependent desires it any more."""


@dataclass(slots=True)
class Children:
    """What became of the dependents in one reconcile, by class: `live` the children, `waiting` why some are not ready."""

    live: dict[DependentClass, Object] = field(default_factory=dict)
    waiting: dict[DependentClass, str] = field(default_factory=dict)


class DependentReconciler(Reconciler[R]):
    """Reconciles the `dependents` of its class line, whose kinds it owns.

    Override `report` to set status fields. Children of other kinds may be applied there too: add these to `owns`. For a
    teardown in order, define `finalize` and return `await self.tear_down(obj, ctx)` from it; without, the garbage
    collector deletes all children at once.

    Raises, when the class is made: ModelError for dependents that have no order, or that are of another resource.
    """

    dependents: ClassVar[tuple[DependentClass, ...]] = ()
    order: ClassVar[Order] = Order((), {})

    def __init_subclass__(cls, *, dependents: Sequence[DependentClass] = (), **options: Any) -> None:
        cls.dependents = tuple(dict.fromkeys((*cls.dependents, *dependents)))
        cls.order = Order.of(cls.__name__, cls.dependents)
        owns = [*(each.resource() for each in cls.dependents), *options.pop("owns", ())]
        super().__init_subclass__(owns=owns, **options)
        for each in cls.dependents:
            mine, its = cls.resource_class, each.resource_class
            if mine is not None and its is not None and not issubclass(mine, its):
                raise ModelError(f"{cls.__name__} reconciles {mine.__name__}, but {each.__name__} is of {its.__name__}")

    async def reconcile(self, obj: R, ctx: Context, /) -> Result:
        """Apply, report, delete. Raises: as `ctx.apply`; ModelError when two dependents are the same child."""
        rollout = Rollout(self.order, obj, ctx)
        await rollout.apply()
        result = await self.report(obj, ctx, rollout.children)
        await rollout.delete_undesired(self.owns)
        return result or rollout.result()

    async def report(self, obj: R, ctx: Context, children: Children, /) -> Result | None:  # noqa: ARG002 - for subclasses
        """Called when the dependents were applied: set fields of `obj.status` from the children.

        A Result takes the place of the one that follows from the children.
        """
        return None

    async def tear_down(self, obj: R, ctx: Context) -> Result:
        """Delete all dependents, the last first, each when all that comes after it is gone. Done when none is left."""
        rollout = Rollout(self.order, obj, ctx)
        await rollout.delete_all(self.owns)
        return rollout.result()


class Rollout:
    """The dependents of one object in one reconcile. Raises: ModelError when two of them are the same child."""

    def __init__(self, order: Order, obj: CustomResource[Any, Any], ctx: Context) -> None:
        self._order, self._obj, self._ctx = order, obj, ctx
        self.children = Children()
        self._undesired: set[DependentClass] = set()
        self._ready: set[DependentClass] = set()
        self._gone: set[DependentClass] = set()
        self._leaving: list[str] = []
        self._places: dict[tuple[ResourceType, Key], DependentClass] = {}
        for each in order.all():
            place = (each.resource(), each.key(obj))
            other = self._places.setdefault(place, type(each))
            if other is not type(each):
                raise ModelError(
                    f"{other.__name__} and {type(each).__name__} are the same child, {_told(*place)}; name one differently"
                )

    async def apply(self) -> None:
        """Apply what may be. Raises: the first failure, when all that does not wait for it was tried too."""
        failures: list[BaseException] = []
        for layer in self._order.layers:
            steps = [self._apply(each) for each in layer if self._may_start(each)]
            failures += [error for error in await asyncio.gather(*steps, return_exceptions=True) if error is not None]
        if failures:
            # The loss of the lease before all: it ends the work, the others only delay it.
            raise min(failures, key=lambda error: not isinstance(error, WriteBlocked))

    async def delete_undesired(self, kinds: Iterable[ResourceType]) -> None:
        """Delete what is not desired; and, once all is ready, what dependents made and nobody desires any more."""
        for layer in reversed(self._order.layers):
            for each in layer:
                if type(each) in self._undesired:
                    await self._delete(each)
        if not self.children.waiting:
            for kind in kinds:
                await self._delete_strays(kind)

    async def delete_all(self, kinds: Iterable[ResourceType]) -> None:
        """Delete everything, the last first."""
        self._undesired = {type(each) for each in self._order.all()}
        await self.delete_undesired(kinds)

    def result(self) -> Result:
        """Done, or what is missing."""
        waiting = [each for each in self._order.all() if type(each) in self.children.waiting]
        told = [f"{self._name(each)} {self.children.waiting[type(each)]}" for each in waiting] + self._leaving
        if not told:
            return Result.done()
        live = (self.children.live.get(type(each)) for each in waiting)
        state = State.FAILING if any(has_failed(child) for child in live if child is not None) else State.WORKING
        reason = f"{type(waiting[0]).__name__}NotReady" if waiting else "DeletingChildren"
        return Result(Verdict(state, reason, "; ".join(told)))

    def _may_start(self, dependent: Dependent[Any]) -> bool:
        missing = self._order.before[type(dependent)] - self._ready - self._undesired
        if missing:
            names = ", ".join(sorted(each.__name__ for each in missing))
            self.children.waiting[type(dependent)] = f"comes after {names}"
        return not missing

    async def _apply(self, dependent: Dependent[Any]) -> None:
        kind, desired = type(dependent), dependent.desired(self._obj, self._ctx)
        if desired is None:
            self._undesired.add(kind)
            return
        resource, key = dependent.resource(), dependent.key(self._obj)
        is_new = self._get(resource, key) is None
        body = _annotated(desired, kind.__name__)
        live = await self._ctx.apply(resource, key.name, body, namespace=key.namespace or None)
        if is_new:
            self._ctx.event("Normal", "Created", f"created {self._name(dependent)}")
        self.children.live[kind] = live
        verdict = dependent.ready(self._obj, live)
        if verdict is True:
            self._ready.add(kind)
        else:
            self.children.waiting[kind] = verdict or "is not ready"

    async def _delete(self, dependent: Dependent[Any]) -> None:
        """Delete the child, if what comes after it has settled, and note whether it is gone."""
        resource, key = dependent.resource(), dependent.key(self._obj)
        live = self._get(resource, key)
        if live is None or not controls(self._obj.raw, live):
            self._gone.add(type(dependent))
            return
        if not meta.is_deleting(live):
            unsettled = {*self._order.behind(dependent)} - self._ready - self._gone
            if unsettled:
                names = ", ".join(sorted(each.__name__ for each in unsettled))
                self._leaving.append(f"{self._name(dependent)} is deleted after {names}")
                return
            await self._ctx.delete(resource, key.name, namespace=key.namespace or None)
            self._ctx.event("Normal", "Deleted", f"deleted {self._name(dependent)}, which is not desired any more")
        self._leaving.append(f"{self._name(dependent)} is being deleted")

    async def _delete_strays(self, kind: ResourceType) -> None:
        for child in self._ctx.children(kind):
            key = meta.key_of(child)
            made = DEPENDENT_ANNOTATION in meta.annotations_of(child)
            if made and (kind, key) not in self._places and not meta.is_deleting(child):
                await self._ctx.delete(kind, key.name, namespace=key.namespace or None)
                self._ctx.event("Normal", "Deleted", f"deleted {kind.kind} {key.name}, which is not desired any more")

    def _get(self, resource: ResourceType, key: Key) -> Object | None:
        return self._ctx.get(resource, key.name, key.namespace or None)

    def _name(self, dependent: Dependent[Any]) -> str:
        return _told(dependent.resource(), dependent.key(self._obj))


def _annotated(desired: Desired, dependent: str) -> dict[str, Any]:
    body = sparse(desired)
    metadata = body.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), DEPENDENT_ANNOTATION: dependent}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _told(resource: ResourceType, key: Key) -> str:
    return f"{resource.kind} {key.name}"
