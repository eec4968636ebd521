"""Webhook configurations: hooks flow in, the manifests that make the API server call them flow out.

They are ours and static: a person applies them with the CRDs, the operator needs no right to change them, and each hook
has its own timeout and failure policy. No `caBundle` stands in them; cert-manager's injector, or a person, sets it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from konverge.model.intercept import SPARED, Intercept
from konverge.model.review import Hook

Manifest = dict[str, Any]

_KINDS: Final = (("MutatingWebhookConfiguration", True), ("ValidatingWebhookConfiguration", False))
_CHANGES_THE_SPEC: Final = (
    "request.operation != 'UPDATE' || has(object.spec) != has(oldObject.spec)"
    " || (has(object.spec) && object.spec != oldObject.spec)"
)
_NOT_DELETING: Final = "!has(object.metadata.deletionTimestamp)"


def configurations(hooks: Iterable[Hook | Intercept], *, name: str, namespace: str, service: str) -> list[Manifest]:
    """The configurations, at most one of each kind, for hooks that the Service `service` in `namespace` reaches.

    Objects in that namespace, the operator's own, are left out, so that the operator can always come up there.
    """
    ordered = sorted(hooks, key=lambda hook: hook.name)
    return [
        _configuration(kind, matching, name, namespace, service)
        for kind, mutating in _KINDS
        if (matching := [hook for hook in ordered if hook.mutating == mutating])
    ]


def _configuration(kind: str, hooks: Sequence[Hook | Intercept], name: str, namespace: str, service: str) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/component": "webhook"},
            "annotations": {"cert-manager.io/inject-ca-from": f"{namespace}/{service}"},
        },
        "webhooks": [_webhook(hook, namespace, service) for hook in hooks],
    }


def _webhook(hook: Hook | Intercept, namespace: str, service: str) -> Manifest:
    foreign = hook if isinstance(hook, Intercept) else None
    resource = hook.resource if isinstance(hook, Intercept) else hook.resource.resource
    spared = sorted({namespace, *(SPARED if foreign else ())})
    away = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": spared}
    manifest: Manifest = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": namespace, "name": service, "path": f"/{hook.path}", "port": 443}},
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": list(hook.operations),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "namespaceSelector": {"matchExpressions": [away, *(foreign.namespaces if foreign else ())]},
        "matchPolicy": "Equivalent",
        "matchConditions": _conditions(hook),
        "sideEffects": "None",
        "failurePolicy": hook.on_failure,
        "timeoutSeconds": hook.options.timeout,
    }
    if foreign and foreign.objects:
        manifest["objectSelector"] = {"matchExpressions": list(foreign.objects)}
    if not manifest["matchConditions"]:
        del manifest["matchConditions"]
    if hook.mutating:
        manifest["reinvocationPolicy"] = (
            "IfNeeded"  # it only fills what is absent or as by default, so it may be asked again
        )
    return manifest


def _conditions(hook: Hook | Intercept) -> list[dict[str, str]]:
    """Which writes reach the hook at all: those that it would wave through need not wait for it, nor fail with it."""
    if isinstance(hook, Intercept):
        return [{"name": name, "expression": rule} for name, rule in (hook.conditions or {}).items()]
    conditions = []
    if hook.kind != "validate-delete":
        conditions.append({"name": "not-being-deleted", "expression": _NOT_DELETING})
    if hook.kind == "validate":
        conditions.append({"name": "changes-the-spec", "expression": _CHANGES_THE_SPEC})
    if hook.options.when is not None:
        conditions.append({"name": "declared", "expression": hook.options.when})
    return conditions
