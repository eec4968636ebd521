"""Takes a Database to its spec: children first, then the phase that its StatefulSet's status shows."""

import secrets
from typing import Final

from konverge.controllers.database import children
from konverge.controllers.database.models import Database
from konverge.controllers.database.names import PORT, Names
from konverge.controllers.database.phases import DEGRADED, DELETING, RUNNING, Observed, observe, standing
from konverge.errors import Invalid, Terminal
from konverge.model import meta
from konverge.model.resource import ConfigMap, Object, PodDisruptionBudget, Secret, Service, StatefulSet
from konverge.runtime.context import Context
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result

PASSWORD_BYTES: Final = 24


class DatabaseReconciler(Reconciler[Database], owns=[Secret, ConfigMap, Service, StatefulSet, PodDisruptionBudget]):
    """One Database: credentials, configuration, two Services, a StatefulSet, a disruption budget."""

    async def reconcile(self, obj: Database, ctx: Context, /) -> Result:
        """Apply the children and show where the pods stand."""
        problem = Names(obj.name).problem()
        if problem is not None:
            raise Terminal("InvalidName", problem)
        wanted = 0 if obj.spec.suspend else obj.spec.replicas
        observed = observe(await self._apply(obj, wanted, ctx))
        edited = obj.status.observed_generation != obj.generation
        phase, reason, message = standing(wanted, observed, ctx.phase.current, edited=edited)
        if phase != ctx.phase.current:
            ctx.event("Warning" if phase == DEGRADED else "Normal", phase, message)
        ctx.phase.to(phase, reason=reason, message=message)
        _report(obj, observed, running=phase == RUNNING)
        return Result.done()

    async def finalize(self, obj: Database, ctx: Context, /) -> Result:
        """Stop the pods in order, standbys before the primary, and let the Database go when none is left.

        The garbage collector would kill them all at once. Volumes are kept, see `children.stateful_set`.
        """
        message = "waiting for the pods to stop, the primary last"
        ctx.phase.to(DELETING, reason="Stopping", message=message)
        live = ctx.get(StatefulSet, obj.name)
        if live is None or (meta.controller_of(live) or {}).get("uid") != obj.uid:
            return Result.done()
        if not meta.is_deleting(live):
            observed = observe(await self._stop(obj, live, ctx))
            if observed is not None and observed.replicas == 0:
                return Result.done()
        return Result.waiting("Stopping", message)

    async def _apply(self, obj: Database, wanted: int, ctx: Context) -> Object:
        """All children; the StatefulSet last, for its pods need the others. Returns the StatefulSet."""
        names = Names(obj.name)
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        credentials = await ctx.create_once(Secret, names.secret, children.secret(obj, password))
        await ctx.apply(ConfigMap, names.config, children.config_map(obj))
        await ctx.apply(Service, names.headless, children.headless_service(obj))
        await ctx.apply(Service, obj.name, children.client_service(obj))
        if wanted > 1:
            await ctx.apply(PodDisruptionBudget, obj.name, children.disruption_budget(obj))
        else:
            # With one pod it would only block drains for ever.
            await ctx.delete(PodDisruptionBudget, obj.name)
        desired = children.stateful_set(obj, wanted, credentials_uid=meta.uid_of(credentials))
        return await ctx.apply(StatefulSet, obj.name, desired)

    async def _stop(self, obj: Database, live: Object, ctx: Context) -> Object:
        """Scale the StatefulSet down to nothing, leaving its pods' template as it is."""
        desired = children.stateful_set(obj, 0, credentials_uid=children.credentials_uid(live))
        try:
            return await ctx.apply(StatefulSet, obj.name, desired)
        except Invalid as error:
            # A spec that the server does not take must not keep the Database from being deleted.
            ctx.log.warning("deleting the StatefulSet at once instead of stopping its pods in order: %s", error)
            await ctx.delete(StatefulSet, obj.name)
            return live


def _report(obj: Database, observed: Observed | None, *, running: bool) -> None:
    """The reconciler's own part of the status. Counts that cannot be believed leave the last ones standing."""
    names, status = Names(obj.name), obj.status
    status.selector = ",".join(f"{key}={value}" for key, value in children.selector(obj).items())
    status.endpoint = f"{obj.name}.{obj.namespace}.svc:{PORT}"
    status.secret_name = names.secret
    if observed is not None:
        status.replicas, status.ready_replicas = observed.replicas, observed.ready
    if running:
        status.version = obj.spec.version
