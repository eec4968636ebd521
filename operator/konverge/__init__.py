"""Konverge: an operator framework for Python. What an operator's author imports stands here, under flat names.

The names load on first use, so that importing one part of Konverge does not load all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from konverge.errors import ConfigError, KonvergeError, ModelError, RetryAfter, Terminal
    from konverge.model.conditions import State
    from konverge.model.custom import Column, CustomResource, Part, Rule, Scale, Spec, Status
    from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity
    from konverge.model.meta import Key
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
    from konverge.runtime.reconciler import Reconciler, Watch, watch
    from konverge.runtime.result import Result

__version__: Final = "0.1.0"

_WHERE: Final = {
    "konverge.errors": ("ConfigError", "KonvergeError", "ModelError", "RetryAfter", "Terminal"),
    "konverge.model.conditions": ("State",),
    "konverge.model.custom": ("Column", "CustomResource", "Part", "Rule", "Scale", "Spec", "Status"),
    "konverge.model.fields": ("Cel", "Duration", "Immutable", "ListMap", "Quantity"),
    "konverge.model.meta": ("Key",),
    "konverge.model.resource": (
        "ConfigMap", "CronJob", "DaemonSet", "Deployment", "Ingress", "Job", "Lease", "Namespace", "NetworkPolicy",
        "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "ReplicaSet",
        "ResourceType", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "StatefulSet", "StorageClass",
    ),
    "konverge.model.selectors": ("Selector",),
    "konverge.model.states": ("Phase",),
    "konverge.runtime.context": ("Context",),
    "konverge.runtime.reconciler": ("Reconciler", "Watch", "watch"),
    "konverge.runtime.result": ("Result",),
}  # fmt: skip
# A type checker reads __all__ as it stands; a test holds it to _WHERE.
_MODULES: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Cel",
    "Column",
    "ConfigError",
    "ConfigMap",
    "Context",
    "CronJob",
    "CustomResource",
    "DaemonSet",
    "Deployment",
    "Duration",
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
    "Quantity",
    "Reconciler",
    "ReplicaSet",
    "ResourceType",
    "Result",
    "RetryAfter",
    "Role",
    "RoleBinding",
    "Rule",
    "Scale",
    "Secret",
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
