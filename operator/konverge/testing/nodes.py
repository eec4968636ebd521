"""What a started cluster is furnished with: in, how many nodes; out, Node and StorageClass objects, and whether they are usable."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from konverge.errors import AlreadyExists

PROVISIONER = "konverge.dev/local"
"""The storage provisioner that kwok plays: see localcluster/stages."""

CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
ZONES = ("zone-a", "zone-b", "zone-c")
_NOT_READY = "node.kubernetes.io/not-ready"


class Requester(Protocol):
    """Whatever sends a request to the API server."""

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any: ...


def node(number: int) -> dict[str, Any]:
    """The manifest of `node-<number>`; the zones take turns."""
    name = f"node-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": ZONES[(number - 1) % len(ZONES)],
            },
        },
        "status": {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": [
                {"type": "InternalIP", "address": f"10.{128 + number // 65536}.{number // 256 % 256}.{number % 256}"},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def storage_class() -> dict[str, Any]:
    """The manifest of the default StorageClass `standard`, as kind names it."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",  # a scheduler that knows nothing of volumes must not leave claims waiting
        "allowVolumeExpansion": True,
    }


def furnish(client: Requester, nodes: int) -> None:
    """Create the StorageClass and `node-1` to `node-<nodes>`; what is there already stays as it is."""
    _create(client, "/apis/storage.k8s.io/v1/storageclasses", storage_class())
    for number in range(1, nodes + 1):
        _create(client, "/api/v1/nodes", node(number))


def _create(client: Requester, path: str, manifest: Mapping[str, Any]) -> None:
    try:
        client.request("POST", path, manifest)
    except AlreadyExists:
        return


def ready_nodes(client: Requester) -> tuple[int, int]:
    """How many nodes take pods, and how many there are."""
    items = client.request("GET", "/api/v1/nodes")["items"]
    return sum(map(_takes_pods, items)), len(items)


def _takes_pods(item: Mapping[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    tainted = any(taint["key"] == _NOT_READY for taint in item["spec"].get("taints", []))
    return not tainted and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def pods_allowed(client: Requester, namespace: str) -> bool:
    """Whether pods can be created in `namespace`: its `default` ServiceAccount is there."""
    accounts = client.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts")["items"]
    return any(account["metadata"]["name"] == "default" for account in accounts)


def furnished(client: Requester, nodes: int) -> Callable[[], bool]:
    """A condition: at least `nodes` nodes take pods, and the namespace `default` does, too."""
    return lambda: ready_nodes(client)[0] >= nodes and pods_allowed(client, "default")
