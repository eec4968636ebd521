"""Databases and StatefulSet statuses for the tests of this directory."""

from typing import Any

from konverge.controllers.database import Database

UID = "11111111-2222-3333-4444-555555555555"


def database(
    name: str = "orders", *, namespace: str = "shop", metadata: dict[str, Any] | None = None, **spec: Any
) -> Database:
    """A Database as the server would hold it; `spec` is in wire names."""
    return Database.parse(manifest(name, namespace=namespace, metadata=metadata, **spec))


def manifest(
    name: str = "orders", *, namespace: str = "shop", metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """The same as a raw object."""
    return {
        "apiVersion": "data.konverge.dev/v1alpha1",
        "kind": "Database",
        "metadata": {"name": name, "namespace": namespace, "uid": UID, "generation": 1, **(metadata or {})},
        "spec": {"version": "17.2", "storage": {"size": "10Gi"}, **spec},
    }


def stateful_set_status(
    replicas: int, ready: int, *, generation: int = 1, current: str = "r1", update: str = "r1"
) -> dict[str, Any]:
    """A StatefulSet's status after its controller saw `generation`."""
    return {
        "observedGeneration": generation,
        "replicas": replicas,
        "readyReplicas": ready,
        "currentRevision": current,
        "updateRevision": update,
    }
