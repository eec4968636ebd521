"""Whether a live object is what its spec asks for, by the rules of its kind. Objects flow in, complaints flow out.

The rules are those of `kubectl rollout status` and of kstatus, with two differences. A Job counts when it is complete,
not when it was started, because what comes after it needs its outcome. A custom resource without a status counts as not
ready: its controller has not seen it yet. A claim of a storage class that waits for the first consumer is bound only
once a pod uses it: nothing that mounts it may wait for it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge.model import meta
from konverge.model.conditions import READY, STALLED, find, is_true
from konverge.model.resource import Object

_Rule = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""From spec and status: what is missing, empty for nothing."""


def complaint(live: Object) -> str:
    """Why `live` is not ready, for a person; empty when it is."""
    if meta.is_deleting(live):
        return "is being deleted"
    group, _, _ = str(live.get("apiVersion", "")).rpartition("/")
    spec, status = live.get("spec") or {}, live.get("status") or {}
    observed, generation = status.get("observedGeneration"), meta.generation_of(live)
    if observed is not None and observed < generation:
        return f"generation {generation} was not looked at yet"
    rule = _RULES.get((group, str(live.get("kind"))))
    if rule is not None:
        return rule(spec, status)
    return _custom(status) if "." in group and not group.endswith(".k8s.io") else ""


def has_failed(live: Object) -> bool:
    """Whether `live` is not ready and will not become so by itself."""
    conditions = (live.get("status") or {}).get("conditions") or ()
    progressing = find(conditions, "Progressing") or {}
    return (
        is_true(conditions, STALLED)
        or (live.get("kind") == "Job" and is_true(conditions, "Failed"))
        or (live.get("kind") == "Deployment" and progressing.get("reason") == "ProgressDeadlineExceeded")
    )


def _deployment(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if "observedGeneration" not in status:
        return "was not looked at yet"
    progressing = find(status.get("conditions") or (), "Progressing")
    if progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded":
        return f"does not progress: {progressing.get('message', '')}"
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    if updated < wanted:
        return f"{updated} of {wanted} replicas are updated"
    if (old := status.get("replicas", 0) - updated) > 0:
        return f"{old} old replicas are still there"
    return _pods(status.get("availableReplicas", 0), wanted, "available")


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if "observedGeneration" not in status:
        return "was not looked at yet"
    wanted, strategy = spec.get("replicas", 1), spec.get("updateStrategy") or {}
    missing = _pods(status.get("readyReplicas", 0), wanted, "ready")
    if missing or strategy.get("type") == "OnDelete":
        return missing
    kept = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    updated, expected = status.get("updatedReplicas", 0), max(0, wanted - kept)
    if status.get("currentRevision") != status.get("updateRevision") and updated < expected:
        return f"{updated} of {expected} replicas are updated"
    return ""


def _daemon_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if "observedGeneration" not in status:
        return "was not looked at yet"
    wanted, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
    if updated < wanted and (spec.get("updateStrategy") or {}).get("type") != "OnDelete":
        return f"{updated} of {wanted} pods are updated"
    return _pods(status.get("numberAvailable", 0), wanted, "available")


def _replica_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    return _pods(status.get("readyReplicas", 0), spec.get("replicas", 1), "ready")


def _pods(there: int, wanted: int, what: str) -> str:
    return "" if there >= wanted else f"{there} of {wanted} replicas are {what}"


def _job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    conditions = status.get("conditions") or ()
    if is_true(conditions, "Complete"):
        return ""
    if is_true(conditions, "Failed"):
        return f"failed: {(find(conditions, 'Failed') or {}).get('message', '')}"
    if spec.get("suspend"):
        return "is suspended"
    return f"{status.get('succeeded', 0)} of {spec.get('completions') or 1} pods succeeded"


def _pod(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:  # noqa: ARG001 - the form of a rule
    if status.get("phase") == "Succeeded" or is_true(status.get("conditions") or (), READY):
        return ""
    return f"is {status.get('phase') or 'Pending'}, not ready"


def _claim(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:  # noqa: ARG001 - the form of a rule
    phase = status.get("phase") or "Pending"
    return "" if phase == "Bound" else f"is {phase}, not bound"


def _service(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return "has no address of a load balancer yet"
    return ""


def _namespace(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:  # noqa: ARG001 - the form of a rule
    return "" if status.get("phase") == "Active" else "is not active"


def _definition(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:  # noqa: ARG001 - the form of a rule
    return "" if is_true(status.get("conditions") or (), "Established") else "is not established"


def _custom(status: Mapping[str, Any]) -> str:
    if not status:
        return "has no status yet"
    ready = find(status.get("conditions") or (), READY)
    if ready is None or ready.get("status") == "True":
        return ""
    told = ": ".join(filter(None, (ready.get("reason"), ready.get("message"))))
    return f"is not ready ({told})" if told else "is not ready"


_RULES: Final[Mapping[tuple[str, str], _Rule]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("", "Namespace"): _namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
