"""The tests of tenant.py, in simulated time."""

import konverge as kv
from examples.tenant import ResourceQuota, Tenant, TenantReconciler
from konverge.testing import SimulatedOperator
from konverge.testing.sim import Sim, simulate


async def count(operator: SimulatedOperator, pods: int) -> None:
    """What the quota controller does, which the fake API server has not."""
    status = {"status": {"hard": {"pods": "5"}, "used": {"pods": str(pods)}}}
    await operator.person.patch(ResourceQuota, "tenant", status, "shop", subresource="status")


@simulate()
async def test_a_tenant_gets_its_namespace_and_is_ready_once_its_quota_counts(sim: Sim) -> None:
    operator = SimulatedOperator(sim, TenantReconciler()).start()
    await operator.create(Tenant, "shop", {"pods": 5})
    await sim.until(lambda: operator.condition(Tenant, "shop").get("reason") == "QuotaNotCounted")
    assert operator.read(kv.Namespace, "shop")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert operator.read(kv.NetworkPolicy, "from-inside", namespace="shop")["spec"]["podSelector"] == {}
    assert operator.read(ResourceQuota, "tenant", namespace="shop")["spec"]["hard"]["pods"] == "5"

    await count(operator, pods=3)
    tenant = await operator.until_ready(Tenant, "shop")
    assert tenant["status"]["pods"] == 3


@simulate()
async def test_a_namespace_that_is_there_already_is_left_alone(sim: Sim) -> None:
    operator = SimulatedOperator(sim, TenantReconciler()).start()
    await operator.create(kv.Namespace, "shop", {})
    await operator.create(Tenant, "shop", {"pods": 5})
    await sim.until(lambda: operator.condition(Tenant, "shop").get("status") == "False")
    assert "is there already and nobody's child" in operator.condition(Tenant, "shop")["message"]
    assert operator.find(ResourceQuota, "tenant", namespace="shop") is None
