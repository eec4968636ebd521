"""A Tenant is a team's corner of the cluster: a namespace, its quota, and no traffic from elsewhere."""

from pydantic import Field

import konverge as kv
from konverge import Context, CustomResource, Quantity, Reconciler, ResourceType, Result, Spec, Status

ResourceQuota = ResourceType("", "v1", "ResourceQuota", "resourcequotas")


class TenantSpec(Spec):
    cpu: Quantity = Field(default="2", description="The CPU that all pods together may request.")
    memory: Quantity = Field(default="4Gi", description="The memory that all pods together may request.")
    pods: int = Field(default=20, ge=1, le=500, description="How many pods there may be.")


class TenantStatus(Status):
    pods: int = Field(default=0, description="How many pods there are.")


class Tenant(CustomResource[TenantSpec, TenantStatus], group="demo.dev", version="v1", namespaced=False):
    """A team's corner of the cluster."""


class TenantReconciler(Reconciler[Tenant], owns=[kv.Namespace, kv.NetworkPolicy, ResourceQuota]):
    async def reconcile(self, tenant: Tenant, ctx: Context, /) -> Result:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await ctx.apply(kv.Namespace, tenant.name, {"metadata": {"labels": labels}})
        everything: dict[str, str] = {}
        policy = {"podSelector": everything, "ingress": [{"from": [{"podSelector": everything}]}]}
        await ctx.apply(kv.NetworkPolicy, "from-inside", {"spec": policy}, namespace=tenant.name)
        hard = {"requests.cpu": tenant.spec.cpu, "requests.memory": tenant.spec.memory, "pods": str(tenant.spec.pods)}
        quota = await ctx.apply(ResourceQuota, "tenant", {"spec": {"hard": hard}}, namespace=tenant.name)
        if "used" not in quota.get("status", {}):
            return Result.waiting("QuotaNotCounted", "the quota holds once it has counted what there is")
        tenant.status.pods = int(quota["status"]["used"]["pods"])
        return Result.done()
