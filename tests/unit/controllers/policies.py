"""SchedulingPolicies for the tests of this directory."""

from typing import Any

from konverge.controllers.scheduling_policy import SchedulingPolicy


def policy(name: str = "demo", *, scheduler_name: str = "demo", **spec: Any) -> SchedulingPolicy:
    """A policy as the server would hold it; `spec` is in wire names."""
    return SchedulingPolicy.parse(manifest(name, scheduler_name=scheduler_name, **spec))


def manifest(
    name: str = "demo",
    *,
    scheduler_name: str = "demo",
    profile: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """The same as a raw object; `profile` adds to the schedulerName."""
    return {
        "apiVersion": "scheduling.konverge.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"profile": {"schedulerName": scheduler_name, **(profile or {})}, **spec},
    }
