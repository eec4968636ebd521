"""What a Database is made of: its spec flows in, the desired state of each child out. Pure functions of the Database.

No label or annotation of the Database itself goes to a child: a GitOps tool would take the child for one of its own.
"""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from konverge.controllers.database import config
from konverge.controllers.database.models import Compute, Database
from konverge.controllers.database.names import CONFIG_VOLUME, DATA_VOLUME, PORT, Names
from konverge.model.resource import Object

IMAGE: Final = "docker.io/library/postgres"
USER: Final = "postgres"
UID: Final = 999
"""The user of the image, by number: a pod that must not run as root has to say so."""

CONFIG_CHECKSUM: Final = "data.konverge.dev/config-checksum"
CREDENTIALS_UID: Final = "data.konverge.dev/credentials-uid"

Child = dict[str, Any]


def selector(database: Database) -> dict[str, str]:
    """The labels by which the pods of this Database, and no others, are found."""
    return {
        "app.kubernetes.io/name": "postgresql",
        "app.kubernetes.io/instance": database.name,
        "app.kubernetes.io/component": "database",
    }


def labels(database: Database) -> dict[str, str]:
    """The labels of every child."""
    return {**selector(database), "app.kubernetes.io/part-of": database.name}


def secret(database: Database, password: str) -> Child:
    """The credentials of the superuser; made once, never replaced."""
    return {
        "metadata": {"labels": labels(database)},
        "type": "kubernetes.io/basic-auth",
        "data": {"username": _encoded(USER), "password": _encoded(password)},
    }


def config_map(database: Database) -> Child:
    """The configuration files and the script that prepares a replica's data directory."""
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


def stateful_set(database: Database, replicas: int, *, credentials_uid: str) -> Child:
    """The pods and their volumes. `credentials_uid` is that of the Secret: the pods roll when it was made anew.

    Volumes outlive both a smaller replica count and the Database: deleting data is a person's decision. That is the
    server's default, said here so that it stays so.
    """
    names = Names(database.name)
    annotations = {
        CONFIG_CHECKSUM: checksum(config.files(database)),
        CREDENTIALS_UID: credentials_uid,
    }
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
            "volumeClaimTemplates": [_claim(database)],
        },
    }


def credentials_uid(stateful_set: Object) -> str:
    """The Secret's uid that a live StatefulSet was made with."""
    metadata = stateful_set["spec"]["template"].get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(CREDENTIALS_UID, ""))


def checksum(files: Mapping[str, str]) -> str:
    """A digest of the configuration, so that the pods roll when it changes."""
    digest = sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{content}\0".encode())
    return digest.hexdigest()[:16]


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


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
                "command": ["bash", f"{config.DIRECTORY}/{config.PREPARE}"],
            }
        ],
        "containers": [
            {
                **_container(database, names),
                "name": "postgresql",
                "args": [
                    "-c",
                    f"config_file={config.DIRECTORY}/{config.SERVER}",
                    "-c",
                    f"hba_file={config.DIRECTORY}/{config.ACCESS}",
                ],
                "ports": [{"name": "postgresql", "containerPort": PORT, "protocol": "TCP"}],
                "startupProbe": _probe(period=5, failures=60),
                "readinessProbe": _probe(period=5, failures=3),
                "livenessProbe": _probe(period=10, failures=6),
            }
        ],
        "volumes": [
            {"name": CONFIG_VOLUME, "configMap": {"name": names.config}},
            {"name": "run", "emptyDir": {"sizeLimit": "16Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            # The runtime's own /dev/shm has 64 MiB, which parallel queries exceed.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _container(database: Database, names: Names) -> Child:
    def from_secret(key: str) -> Child:
        return {"secretKeyRef": {"name": names.secret, "key": key}}

    return {
        "image": f"{IMAGE}:{database.spec.version}",
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "PGDATA", "value": config.DATA_DIRECTORY},
            {"name": "POSTGRES_USER", "valueFrom": from_secret("username")},
            {"name": "POSTGRES_PASSWORD", "valueFrom": from_secret("password")},
            # Read by libpq: a standby connects to the primary with it, and no file holds it.
            {"name": "PGPASSWORD", "valueFrom": from_secret("password")},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
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
            {"name": "run", "mountPath": "/var/run/postgresql"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the pod
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - likewise
        ],
    }


def _probe(*, period: int, failures: int) -> Child:
    return {
        "exec": {"command": ["pg_isready", "--quiet", "--host=127.0.0.1", f"--username={USER}"]},
        "periodSeconds": period,
        "timeoutSeconds": 5,
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


def _claim(database: Database) -> Child:
    storage = database.spec.storage
    claim: Child = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(storage.size)}},
    }
    if storage.storage_class_name is not None:
        claim["storageClassName"] = storage.storage_class_name
    return {"metadata": {"name": DATA_VOLUME, "labels": selector(database)}, "spec": claim}
