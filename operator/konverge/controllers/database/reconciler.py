"""Takes a Database to its spec: children and volumes first, then the phase that its StatefulSet's status shows."""

from collections.abc import Iterator
from typing import Final

from konverge.controllers.database import children, credentials, volumes
from konverge.controllers.database.models import Binding, Database
from konverge.controllers.database.names import PORT, Names
from konverge.controllers.database.phases import DELETING, RUNNING, Observed, observe, standing
from konverge.errors import Invalid, NotFound, RetryAfter, Terminal
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.quantity import same_quantity
from konverge.model.rbac import Access
from konverge.model.resource import (
    ConfigMap,
    Object,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    Secret,
    Service,
    StatefulSet,
    StorageClass,
)
from konverge.runtime.context import Context
from konverge.runtime.declare import watch
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result

CLASS_RETRY: Final = 60.0
"""Seconds until a StorageClass is asked again whether its volumes may grow."""


def database_of(claim: Object) -> Iterator[Key]:
    """The Database whose pods a claim was made for."""
    name = meta.labels_of(claim).get("app.kubernetes.io/instance")
    if name:
        yield Key(meta.key_of(claim).namespace, name)


class DatabaseReconciler(
    Reconciler[Database],
    owns=[Secret, ConfigMap, Service, StatefulSet, PodDisruptionBudget],
    watches=[watch(PersistentVolumeClaim, to=database_of, selector=children.CLAIMS)],
    reads=[StorageClass],
    access=[Access(PersistentVolumeClaim, ("patch",))],
):
    """One Database: credentials, configuration, two Services, a StatefulSet, a disruption budget; and their volumes."""

    async def reconcile(self, obj: Database, ctx: Context, /) -> Result:
        """Apply the children and show where the pods stand."""
        _check(obj)
        await self._apply_credentials(obj, ctx)
        await self._apply_surroundings(obj, ctx)
        obstacle = await self._grow(obj, ctx)
        wanted = 0 if obj.spec.suspend else obj.spec.replicas
        observed = await self._apply_pods(obj, wanted, ctx, may_grow=obstacle is None)
        seen = volumes.look(obj, ctx.list(PersistentVolumeClaim, namespace=obj.namespace))
        edited = obj.status.observed_generation != obj.generation
        phase, reason, message = standing(
            wanted, observed, ctx.phase.current, edited=edited, growing="; ".join(seen.pending)
        )
        ctx.phase.to(phase, reason=reason, message=message)
        _report(obj, observed, seen.size, running=phase == RUNNING)
        if obstacle is not None:
            raise RetryAfter(CLASS_RETRY, "VolumeExpansionUnsupported", obstacle)
        return Result.done()

    async def finalize(self, obj: Database, ctx: Context, /) -> Result:
        """Stop the pods in order, standbys before the primary, and let the Database go when none is left.

        The garbage collector would kill them all at once. Then the volumes are handed over, see `volumes.handover`.
        """
        message = "waiting for the pods to stop, the primary last"
        ctx.phase.to(DELETING, reason="Stopping", message=message)
        live = ctx.get(StatefulSet, obj.name)
        if live is not None and (meta.controller_of(live) or {}).get("uid") == obj.uid:
            stopped = None if meta.is_deleting(live) else observe(await self._stop(obj, live, ctx))
            if stopped is None or stopped.replicas > 0:
                return Result.waiting("Stopping", message)
        for claim in volumes.mine(obj, ctx.list(PersistentVolumeClaim, namespace=obj.namespace)):
            patch = volumes.handover(obj, claim)
            if patch is not None:
                await self._patch(claim, patch, ctx)
        return Result.done()

    async def _apply_credentials(self, obj: Database, ctx: Context) -> None:
        """The password, a new one where that was asked for, and the Secret that tells applications of it."""
        names, labels = Names(obj.name), children.labels(obj)
        first = credentials.stored(labels, credentials.generate(), credentials.requested(obj))
        secret = await ctx.create_once(Secret, names.secret, first)
        password = credentials.password_of(secret)
        if credentials.is_due(obj, secret) or password is None:
            # The cache may be behind what another replica of this operator did: one request makes one password.
            secret = await ctx.read_live(Secret, names.secret) or secret
            password = credentials.password_of(secret)
        if credentials.is_due(obj, secret) or password is None:
            password = credentials.generate()
            desired = credentials.stored(labels, password, credentials.requested(obj))
            secret = await ctx.apply(Secret, names.secret, desired)
            ctx.event("Normal", "PasswordRotated", f"Secret {names.secret} has a new password; the pods take it on")
        await ctx.apply(Secret, names.binding, credentials.binding(obj, labels, password))
        obj.status.password_rotation = credentials.rotated_for(secret) or None

    async def _apply_surroundings(self, obj: Database, ctx: Context) -> None:
        """What the pods need, and what leads to them."""
        names = Names(obj.name)
        await ctx.apply(ConfigMap, names.config, children.config_map(obj))
        await ctx.apply(Service, names.headless, children.headless_service(obj))
        await ctx.apply(Service, obj.name, children.client_service(obj))
        if obj.spec.replicas > 1 and not obj.spec.suspend:
            await ctx.apply(PodDisruptionBudget, obj.name, children.disruption_budget(obj))
        else:
            # With one pod it would only block drains for ever.
            await ctx.delete(PodDisruptionBudget, obj.name)

    async def _grow(self, obj: Database, ctx: Context) -> str | None:
        """Ask for larger volumes where the spec does. Returns why that cannot be, as a sentence for a person."""
        seen = volumes.look(obj, ctx.list(PersistentVolumeClaim, namespace=obj.namespace))
        for claim in seen.small:
            obstacle = volumes.obstacle(claim, ctx.get(StorageClass, volumes.class_of(claim)))
            if obstacle is not None:
                return obstacle
        for claim in seen.small:
            await self._patch(claim, volumes.growth(claim, obj.spec.storage.size), ctx)
        if seen.small:
            ctx.event("Normal", "GrowingVolumes", f"{len(seen.small)} volumes shall have {obj.spec.storage.size}")
        return None

    async def _apply_pods(self, obj: Database, wanted: int, ctx: Context, *, may_grow: bool) -> Observed | None:
        """The StatefulSet; made anew around its running pods where its template for volumes is another."""
        size = volumes.template_size(obj, ctx.get(StatefulSet, obj.name))
        if may_grow and not same_quantity(size, obj.spec.storage.size):
            await ctx.delete(StatefulSet, obj.name, propagation="Orphan")
            return None
        return observe(await ctx.apply(StatefulSet, obj.name, children.stateful_set(obj, wanted, size)))

    async def _patch(self, claim: Object, patch: volumes.Patch, ctx: Context) -> None:
        """Change a claim, unless it is gone."""
        try:
            await ctx.patch(PersistentVolumeClaim, meta.key_of(claim).name, patch)
        except NotFound:
            ctx.log.info("volume claim %s is gone meanwhile", meta.key_of(claim))

    async def _stop(self, obj: Database, live: Object, ctx: Context) -> Object:
        """Scale the StatefulSet down to nothing. Its template for volumes stays: it may not have grown yet."""
        try:
            desired = children.stateful_set(obj, 0, volumes.template_size(obj, live))
            return await ctx.apply(StatefulSet, obj.name, desired)
        except Invalid as error:
            # A spec that the server does not take must not keep the Database from being deleted.
            ctx.log.warning("deleting the StatefulSet at once instead of stopping its pods in order: %s", error)
            await ctx.delete(StatefulSet, obj.name)
            return live


def _check(obj: Database) -> None:
    """Raises: Terminal for what no retry changes."""
    problem = Names(obj.name).problem()
    if problem is not None:
        raise Terminal("InvalidName", problem)
    runs, asked = (text.partition(".")[0] for text in (obj.status.version or obj.spec.version, obj.spec.version))
    if runs != asked:
        raise Terminal(
            "MajorVersionChange",
            f"the data are those of PostgreSQL {runs}, which version {asked} cannot read; set spec.version back to {runs}, "
            "or restore a dump into a new Database",
        )


def _report(obj: Database, observed: Observed | None, size: str | None, *, running: bool) -> None:
    """The reconciler's own part of the status. Counts that cannot be believed leave the last ones standing."""
    names, status = Names(obj.name), obj.status
    status.selector = ",".join(f"{key}={value}" for key, value in children.selector(obj).items())
    status.endpoint = f"{credentials.endpoint_host(obj)}:{PORT}"
    status.secret_name = names.secret
    status.binding = Binding(name=names.binding)
    status.storage = size
    if observed is not None:
        status.replicas, status.ready_replicas = observed.replicas, observed.ready
    if running:
        status.version = obj.spec.version
