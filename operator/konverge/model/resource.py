"""What the API server calls a resource: group, version, kind, plural and scope; and the built-in ones by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

Object = Mapping[str, Any]
"""A Kubernetes object as the server sent it: parsed JSON, shared, never changed in place."""


@dataclass(frozen=True)
class ResourceType:
    """One resource of the API: `apps/v1 Deployment`, plural `deployments`, namespaced.

    `group` is empty for the core group. Two are equal when all five fields are.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @cached_property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group: what stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def name(self) -> str:
        """`deployments.apps`, or `pods`: how RBAC rules, CRDs and error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def base_path(self) -> str:
        """`/apis/apps/v1`, or `/api/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource.

        A cluster-scoped resource ignores `namespace`; a namespaced one without it means all namespaces.
        """
        parts = [self.base_path]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.name


def _core(kind: str, plural: str, *, namespaced: bool = True) -> ResourceType:
    return ResourceType("", "v1", kind, plural, namespaced)


ConfigMap: Final = _core("ConfigMap", "configmaps")
Event: Final = ResourceType("events.k8s.io", "v1", "Event", "events")
Namespace: Final = _core("Namespace", "namespaces", namespaced=False)
Node: Final = _core("Node", "nodes", namespaced=False)
PersistentVolume: Final = _core("PersistentVolume", "persistentvolumes", namespaced=False)
PersistentVolumeClaim: Final = _core("PersistentVolumeClaim", "persistentvolumeclaims")
Pod: Final = _core("Pod", "pods")
ReplicationController: Final = _core("ReplicationController", "replicationcontrollers")
Secret: Final = _core("Secret", "secrets")
Service: Final = _core("Service", "services")
ServiceAccount: Final = _core("ServiceAccount", "serviceaccounts")
DaemonSet: Final = ResourceType("apps", "v1", "DaemonSet", "daemonsets")
Deployment: Final = ResourceType("apps", "v1", "Deployment", "deployments")
ReplicaSet: Final = ResourceType("apps", "v1", "ReplicaSet", "replicasets")
StatefulSet: Final = ResourceType("apps", "v1", "StatefulSet", "statefulsets")
Job: Final = ResourceType("batch", "v1", "Job", "jobs")
CronJob: Final = ResourceType("batch", "v1", "CronJob", "cronjobs")
Ingress: Final = ResourceType("networking.k8s.io", "v1", "Ingress", "ingresses")
NetworkPolicy: Final = ResourceType("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
PodDisruptionBudget: Final = ResourceType("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
PriorityClass: Final = ResourceType("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
Role: Final = ResourceType("rbac.authorization.k8s.io", "v1", "Role", "roles")
RoleBinding: Final = ResourceType("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
Lease: Final = ResourceType("coordination.k8s.io", "v1", "Lease", "leases")
CSIDriver: Final = ResourceType("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False)
CSINode: Final = ResourceType("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
CSIStorageCapacity: Final = ResourceType("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
StorageClass: Final = ResourceType("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
VolumeAttachment: Final = ResourceType(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False
)
CustomResourceDefinition: Final = ResourceType(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
