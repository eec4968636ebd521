"""Konverge: an operator framework for Python. What an operator's author imports stands here, under flat names.

The names load on first use, so that importing one part of Konverge does not load all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from konverge.errors import ConfigError, KonvergeError, ModelError, RetryAfter, Terminal
    from konverge.model.admission import Problem, Request, hook
    from konverge.model.conditions import State
    from konverge.model.custom import Column, CustomResource, Part, Rule, Scale, Spec, Status
    from konverge.model.embedded import EmbeddedMeta, PodTemplate, SecretKeyRef
    from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity
    from konverge.model.meta import Key
    from konverge.model.rbac import Access
    from konverge.model.resource import (
        ConfigMap,
        CronJob,
        DaemonSet,
        Deployment,
        Ingress,
        Job,
        Lease,
        Namespace,
        NetworkPolicy,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        PodDisruptionBudget,
        ReplicaSet,
        ResourceType,
        Role,
        RoleBinding,
        Secret,
        Service,
        ServiceAccount,
        StatefulSet,
        StorageClass,
    )
    from konverge.model.selectors import Selector
    from konverge.model.states import Phase
    from konverge.runtime.context import Context
    from konverge.runtime.declare import Watch, by_index, index, read, watch
    from konverge.runtime.dependents import Dependent
    from konverge.runtime.diff import Difference
    from konverge.runtime.predicates import (
        Predicate,
        all_of,
        annotations_changed,
        any_of,
        changed,
        generation_changed,
        labels_changed,
        not_,
    )
    from konverge.runtime.reconciler import Reconciler
    from konverge.runtime.result import Result
    from konverge.runtime.rollout import Children, DependentReconciler
    from konverge.runtime.sparse import Desired

__version__: Final = "0.1.0"

_WHERE: Final = {
    "konverge.errors": ("ConfigError", "KonvergeError", "ModelError", "RetryAfter", "Terminal"),
    "konverge.model.admission": ("Problem", "Request", "hook"),
    "konverge.model.conditions": ("State",),
    "konverge.model.custom": ("Column", "CustomResource", "Part", "Rule", "Scale", "Spec", "Status"),
    "konverge.model.embedded": ("EmbeddedMeta", "PodTemplate", "SecretKeyRef"),
    "konverge.model.fields": ("Cel", "Duration", "Immutable", "ListMap", "Quantity"),
    "konverge.model.meta": ("Key",),
    "konverge.model.rbac": ("Access",),
    "konverge.model.resource": (
        "ConfigMap", "CronJob", "DaemonSet", "Deployment", "Ingress", "Job", "Lease", "Namespace", "NetworkPolicy",
        "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "ReplicaSet",
        "ResourceType", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "StatefulSet", "StorageClass",
    ),
    "konverge.model.selectors": ("Selector",),
    "konverge.model.states": ("Phase",),
    "konverge.runtime.context": ("Context",),
    "konverge.runtime.declare": ("Watch", "by_index", "index", "read", "watch"),
    "konverge.runtime.dependents": ("Dependent",),
    "konverge.runtime.diff": ("Difference",),
    "konverge.runtime.predicates": (
        "Predicate", "all_of", "annotations_changed", "any_of", "changed", "generation_changed", "labels_changed", "not_",
    ),
    "konverge.runtime.reconciler": ("Reconciler",),
    "konverge.runtime.result": ("Result",),
    "konverge.runtime.rollout": ("Children", "DependentReconciler"),
    "konverge.runtime.sparse": ("Desired",),
}  # fmt: skip
# A type checker reads __all__ as it stands; a test holds it to _WHERE.
_MODULES: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Access",
    "Cel",
    "Children",
    "Column",
    "ConfigError",
    "ConfigMap",
    "Context",
    "CronJob",
    "CustomResource",
    "DaemonSet",
    "Dependent",
    "DependentReconciler",
    "Deployment",
    "Desired",
    "Difference",
    "Duration",
    "EmbeddedMeta",
    "Immutable",
    "Ingress",
    "Job",
    "Key",
    "KonvergeError",
    "Lease",
    "ListMap",
    "ModelError",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "Part",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Phase",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "Predicate",
    "Problem",
    "Quantity",
    "Reconciler",
    "ReplicaSet",
    "Request",
    "ResourceType",
    "Result",
    "RetryAfter",
    "Role",
    "RoleBinding",
    "Rule",
    "Scale",
    "Secret",
    "SecretKeyRef",
    "Selector",
    "Service",
    "ServiceAccount",
    "Spec",
    "State",
    "StatefulSet",
    "Status",
    "StorageClass",
    "Terminal",
    "Watch",
    "__version__",
    "all_of",
    "annotations_changed",
    "any_of",
    "by_index",
    "changed",
    "generation_changed",
    "hook",
    "index",
    "labels_changed",
    "not_",
    "read",
    "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'konverge' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
