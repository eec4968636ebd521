"""What a Database is made of: its spec flows in, the desired state of each child out. Pure functions of the Database.

No label or annotation of the Database itself goes to a child: a GitOps tool would take the child for one of its own.
"""

from typing import Any, Final

from konverge.controllers.database import config
from konverge.controllers.database.models import Compute, Database
from konverge.controllers.database.names import (
    CONFIG_VOLUME,
    CREDENTIALS_VOLUME,
    DATA_VOLUME,
    MAX_REPLICAS,
    PORT,
    Names,
)

IMAGE: Final = "docker.io/library/postgres"
UID: Final = 999
"""The user of the image, by number: a pod that must not run as root has to say so."""

_KIND: Final = {"app.kubernetes.io/name": "postgresql", "app.kubernetes.io/component": "database"}
CLAIMS: Final = ",".join(f"{label}={value}" for label, value in _KIND.items())
"""Selects the volume claims of all Databases."""

CONFIG_CHECKSUM: Final = "data.konverge.dev/config-checksum"

Child = dict[str, Any]


def selector(database: Database) -> dict[str, str]:
    """The labels by which the pods of this Database, and no others, are found."""
    return {**_KIND, "app.kubernetes.io/instance": database.name}


def labels(database: Database) -> dict[str, str]:
    """The labels of every child."""
    return {**selector(database), "app.kubernetes.io/part-of": database.name}


def config_map(database: Database) -> Child:
    """The configuration files and the scripts that run in the pods."""
    return {"metadata": {"labels": labels(database)}, "data": config.files(database)}


def headless_service(database: Database) -> Child:
    """Names for the single pods; also of those not ready, for a standby must find a primary that just starts."""
    return {
        "metadata": {"labels": labels(database)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(database),
            "ports": [_service_port()],
        },
    }


def client_service(database: Database) -> Child:
    """The address for clients: the primary, the one pod that takes writes."""
    primary = {"statefulset.kubernetes.io/pod-name": Names(database.name).primary_pod}
    return {
        "metadata": {"labels": labels(database)},
        "spec": {"type": "ClusterIP", "selector": {**selector(database), **primary}, "ports": [_service_port()]},
    }


def disruption_budget(database: Database) -> Child:
    """One pod at a time may be drained; a pod that is not ready anyway may always go."""
    return {
        "metadata": {"labels": labels(database)},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(database)},
        },
    }


def stateful_set(database: Database, replicas: int, size: str) -> Child:
    """The pods and their volumes, each of `size` when it is made.

    An update of the pods goes from the highest ordinal to the lowest, each once the one before is ready: followers
    first, the primary last. Volumes outlive the StatefulSet, see `volumes` for why: that is the server's default, said
    here so that it stays so.
    """
    names = Names(database.name)
    annotations = {CONFIG_CHECKSUM: config.checksum(config.files(database))}
    return {
        "metadata": {"labels": labels(database)},
        "spec": {
            "replicas": replicas,
            "serviceName": names.headless,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": selector(database)},
            "template": {
                "metadata": {"labels": labels(database), "annotations": annotations},
                "spec": _pod(database, names),
            },
            "volumeClaimTemplates": [_claim(database, size)],
        },
    }


def _service_port() -> Child:
    return {"name": "postgresql", "port": PORT, "targetPort": "postgresql", "protocol": "TCP"}


def _pod(database: Database, names: Names) -> Child:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(database)},
            }
        ],
        "initContainers": [
            {
                **_container(database, names),
                "name": "prepare",
                "command": _script(config.PREPARE),
            }
        ],
        "containers": [
            {
                **_container(database, names),
                "name": "postgresql",
                "command": _script(config.START),
                "ports": [{"name": "postgresql", "containerPort": PORT, "protocol": "TCP"}],
                "startupProbe": _probe("live", period=5, failures=60),
                "readinessProbe": _probe("ready", period=5, failures=3),
                "livenessProbe": _probe("live", period=10, failures=6),
            }
        ],
        "volumes": [
            {"name": CONFIG_VOLUME, "configMap": {"name": names.config}},
            {"name": CREDENTIALS_VOLUME, "secret": {"secretName": names.secret, "defaultMode": 0o440}},
            # In memory, for the password file of the scripts is there.
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            # The runtime's own /dev/shm has 64 MiB, which parallel queries exceed.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _container(database: Database, names: Names) -> Child:
    return {
        "image": f"{IMAGE}:{database.spec.version}",
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "PGDATA", "value": config.DATA_DIRECTORY},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "PRIMARY_POD", "value": names.primary_pod},
            {"name": "PRIMARY_HOST", "value": names.host(0)},
            {"name": "PORT", "value": str(PORT)},
            # All that may ever follow: the number of replicas here would restart the pods when it changes.
            {"name": "PEERS", "value": " ".join(f"{names.host(each)}:{PORT}" for each in range(1, MAX_REPLICAS))},
            {"name": "CONFIG_DIR", "value": config.DIRECTORY},
            {"name": "CREDENTIALS_DIR", "value": config.CREDENTIALS_DIRECTORY},
            {"name": "RUN_DIR", "value": config.RUN_DIRECTORY},
        ],
        "resources": _resources(database),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": DATA_VOLUME, "mountPath": config.VOLUME_DIRECTORY},
            {"name": CONFIG_VOLUME, "mountPath": config.DIRECTORY, "readOnly": True},
            {"name": CREDENTIALS_VOLUME, "mountPath": config.CREDENTIALS_DIRECTORY, "readOnly": True},
            {"name": "run", "mountPath": config.RUN_DIRECTORY},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the pod
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - likewise
        ],
    }


def _script(name: str, *arguments: str) -> list[str]:
    return ["bash", f"{config.DIRECTORY}/{name}", *arguments]


def _probe(what: str, *, period: int, failures: int) -> Child:
    return {
        "exec": {"command": _script(config.HEALTH, what)},
        "periodSeconds": period,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }


def _resources(database: Database) -> Child:
    def amounts(compute: Compute | None) -> dict[str, str]:
        given = {"cpu": compute.cpu, "memory": compute.memory} if compute else {}
        return {name: str(value) for name, value in given.items() if value is not None}

    asked = database.spec.resources
    return {
        kind: found
        for kind, found in (("requests", amounts(asked.requests)), ("limits", amounts(asked.limits)))
        if found
    }


def _claim(database: Database, size: str) -> Child:
    storage = database.spec.storage
    claim: Child = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if storage.storage_class_name is not None:
        claim["storageClassName"] = storage.storage_class_name
    return {"metadata": {"name": DATA_VOLUME, "labels": selector(database)}, "spec": claim}
