"""When a live object counts as ready, kind by kind."""

from typing import Any

import pytest

from konverge.runtime.readiness import complaint, has_failed


def obj(api_version: str, kind: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    metadata = {"name": "x", "generation": 2}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status}


def true(condition_type: str, **more: str) -> dict[str, str]:
    return {"type": condition_type, "status": "True", **more}


UP: dict[str, Any] = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
SETTLED: dict[str, Any] = {"observedGeneration": 2, "readyReplicas": 2, "currentRevision": "a", "updateRevision": "a"}
ROLLING: dict[str, Any] = {**SETTLED, "updateRevision": "b", "updatedReplicas": 1}
SPREAD: dict[str, Any] = {
    "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2,
}  # fmt: skip
TWO: dict[str, Any] = {"replicas": 2}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"}


@pytest.mark.parametrize(
    ("live", "why"),
    [
        (obj("v1", "ConfigMap"), ""),
        (obj("v1", "Secret"), ""),
        (obj("networking.k8s.io/v1", "Ingress"), ""),
        (obj("apps/v1", "Deployment", TWO), "was not looked at yet"),
        (obj("apps/v1", "Deployment", TWO, **UP), ""),
        (obj("apps/v1", "Deployment", {"replicas": 0}, observedGeneration=2), ""),
        (obj("apps/v1", "Deployment", TWO, **{**UP, "observedGeneration": 1}), "generation 2 was not looked at yet"),
        (obj("apps/v1", "Deployment", TWO, **{**UP, "updatedReplicas": 1}), "1 of 2 replicas are updated"),
        (obj("apps/v1", "Deployment", TWO, **{**UP, "replicas": 3}), "1 old replicas are still there"),
        (obj("apps/v1", "Deployment", TWO, **{**UP, "availableReplicas": 1}), "1 of 2 replicas are available"),
        (obj("apps/v1", "Deployment", TWO, **UP, conditions=[LATE]), "does not progress: too slow"),
        (obj("apps/v1", "StatefulSet", TWO), "was not looked at yet"),
        (obj("apps/v1", "StatefulSet", TWO, **SETTLED), ""),
        (obj("apps/v1", "StatefulSet", {"replicas": 3}, **SETTLED), "2 of 3 replicas are ready"),
        (obj("apps/v1", "StatefulSet", TWO, **ROLLING), "1 of 2 replicas are updated"),
        (obj("apps/v1", "StatefulSet", {**TWO, "updateStrategy": {"rollingUpdate": {"partition": 1}}}, **ROLLING), ""),
        (obj("apps/v1", "StatefulSet", {**TWO, "updateStrategy": {"type": "OnDelete"}}, **ROLLING), ""),
        (obj("apps/v1", "DaemonSet"), "was not looked at yet"),
        (obj("apps/v1", "DaemonSet", **SPREAD), ""),
        (obj("apps/v1", "DaemonSet", **{**SPREAD, "updatedNumberScheduled": 1}), "1 of 2 pods are updated"),
        (obj("apps/v1", "DaemonSet", **{**SPREAD, "numberAvailable": 0}), "0 of 2 replicas are available"),
        (obj("apps/v1", "ReplicaSet", TWO, readyReplicas=1), "1 of 2 replicas are ready"),
        (obj("batch/v1", "Job", {"completions": 3}, succeeded=1), "1 of 3 pods succeeded"),
        (obj("batch/v1", "Job", {"suspend": True}), "is suspended"),
        (obj("batch/v1", "Job", conditions=[true("Complete")]), ""),
        (obj("batch/v1", "Job", conditions=[true("Failed", message="BackoffLimit")]), "failed: BackoffLimit"),
        (obj("v1", "Pod"), "is Pending, not ready"),
        (obj("v1", "Pod", phase="Running"), "is Running, not ready"),
        (obj("v1", "Pod", phase="Running", conditions=[true("Ready")]), ""),
        (obj("v1", "Pod", phase="Succeeded"), ""),
        (obj("v1", "PersistentVolumeClaim"), "is Pending, not bound"),
        (obj("v1", "PersistentVolumeClaim", phase="Bound"), ""),
        (obj("v1", "Service", {"type": "ClusterIP"}), ""),
        (obj("v1", "Service", {"type": "LoadBalancer"}), "has no address of a load balancer yet"),
        (obj("v1", "Service", {"type": "LoadBalancer"}, loadBalancer={"ingress": [{"ip": "10.0.0.1"}]}), ""),
        (obj("v1", "Namespace", phase="Active"), ""),
        (obj("v1", "Namespace"), "is not active"),
        (obj("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "is not established"),
        (obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions=[true("Established")]), ""),
        (obj("demo.dev/v1", "Web"), "has no status yet"),
        (obj("demo.dev/v1", "Web", phase="Fine"), ""),
        (obj("demo.dev/v1", "Web", observedGeneration=2, conditions=[true("Ready")]), ""),
        (obj("demo.dev/v1", "Web", observedGeneration=1, conditions=[true("Ready")]), "generation 2 was not looked at yet"),
        (
            obj("demo.dev/v1", "Web", conditions=[{"type": "Ready", "status": "False", "reason": "NoImage"}]),
            "is not ready (NoImage)",
        ),
    ],
)  # fmt: skip
def test_what_is_missing(live: dict[str, Any], why: str) -> None:
    assert complaint(live) == why


def test_what_is_being_deleted_is_not_ready() -> None:
    live = obj("v1", "ConfigMap")
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert complaint(live) == "is being deleted"


@pytest.mark.parametrize(
    ("live", "failed"),
    [
        (obj("batch/v1", "Job", conditions=[true("Failed")]), True),
        (obj("batch/v1", "Job"), False),
        (obj("apps/v1", "Deployment", conditions=[LATE]), True),
        (obj("apps/v1", "Deployment", conditions=[true("Progressing", reason="ReplicaSetUpdated")]), False),
        (obj("demo.dev/v1", "Web", conditions=[true("Stalled")]), True),
        (obj("demo.dev/v1", "Web"), False),
    ],
)
def test_what_will_not_become_ready_by_itself(live: dict[str, Any], failed: bool) -> None:
    assert has_failed(live) is failed
