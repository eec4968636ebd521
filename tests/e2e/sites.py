"""An operator whose resource has several versions, for a process of its own."""

from konverge import Context, Reconciler, Result
from tests.unit.model.versions import Site, SiteV1Alpha1, SiteV1Beta1

__all__ = ["Site", "SiteReconciler", "SiteV1Alpha1", "SiteV1Beta1"]


class SiteReconciler(Reconciler[Site]):
    """Reports what is asked for as reached."""

    async def reconcile(self, site: Site, ctx: Context, /) -> Result:
        site.status.ready_replicas = site.spec.replicas
        return Result.done()
