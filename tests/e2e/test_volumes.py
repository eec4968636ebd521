"""Pods with volumes under a SchedulingPolicy: Konverge chooses the node, writes it where the volume is made, and waits."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, until
from tests.e2e.test_scheduling_policy import ZONE, Policy

pytestmark = pytest.mark.usefixtures("operator")

SELECTED = "volume.kubernetes.io/selected-node"
HOSTNAME = "kubernetes.io/hostname"


class Storage:
    """A StorageClass, volumes and claims of a test; what has no namespace is named by the test's."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl, self.name = kubectl, kubectl.namespace
        self.volumes: list[str] = []

    def storage_class(self, provisioner: str, mode: str = "WaitForFirstConsumer") -> None:
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": self.name}}
        self.kubectl.apply({**head, "provisioner": provisioner, "volumeBindingMode": mode})

    def claim(self, name: str) -> None:
        spec = {
            "storageClassName": self.name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        )

    def volume(self, suffix: str, key: str, value: str, **spec: Any) -> None:
        """A volume that the nodes with that label reach."""
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        name = f"{self.name}-{suffix}"
        self.volumes.append(name)
        whole = {
            "storageClassName": self.name,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            **spec,
        }
        self.kubectl.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": whole})

    def selected(self, claim: str) -> str:
        """The node for which the claim's volume is to be made."""
        annotations = self.kubectl.get(f"pvc/{claim}")["metadata"].get("annotations") or {}
        return str(annotations.get(SELECTED, ""))

    def clear(self) -> None:
        targets = [f"storageclass/{self.name}", *(f"pv/{name}" for name in self.volumes)]
        self.kubectl("delete", "--ignore-not-found", "--wait=false", *targets)


@pytest.fixture
def storage(kubectl: Kubectl) -> Iterator[Storage]:
    made = Storage(kubectl)
    yield made
    made.clear()


@pytest.fixture
def policy(kubectl: Kubectl) -> Iterator[Policy]:
    made = Policy(kubectl)
    made.apply({})
    made.wait_ready()
    yield made
    made.delete()


def with_claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def node_of(kubectl: Kubectl, pod: str) -> str:
    return str(kubectl.get(f"pod/{pod}")["spec"].get("nodeName") or "")


def test_a_volume_is_made_for_the_pods_node_and_only_then_is_the_pod_bound(
    kubectl: Kubectl, policy: Policy, storage: Storage
) -> None:
    storage.storage_class("csi.test.example")
    storage.claim("data")
    policy.pod("app", **with_claim("data"))
    until(lambda: storage.selected("data"), "a node for the volume")
    chosen = storage.selected("data")
    assert not node_of(kubectl, "app")
    # What a provisioner does.
    zone = kubectl.get(f"node/{chosen}")["metadata"]["labels"][ZONE]
    owner = {"namespace": kubectl.namespace, "name": "data", "uid": kubectl.get("pvc/data")["metadata"]["uid"]}
    storage.volume("made", ZONE, zone, claimRef={"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner})
    until(lambda: node_of(kubectl, "app"), "the pod on a node")
    assert node_of(kubectl, "app") == chosen
    assert kubectl.get("pvc/data")["status"]["phase"] == "Bound"


def test_a_volume_that_is_there_takes_the_pod_to_its_node(kubectl: Kubectl, policy: Policy, storage: Storage) -> None:
    storage.storage_class("kubernetes.io/no-provisioner")
    storage.claim("data")
    policy.pod("app", **with_claim("data"))
    until(
        lambda: (
            "didn't find available persistent volumes to bind"
            in kubectl.condition("pod/app", "PodScheduled").get("message", "")
        ),
        "the reason why the pod waits",
    )
    wanted = kubectl.list("nodes")[-1]["metadata"]["name"]
    storage.volume("there", HOSTNAME, wanted)
    until(lambda: node_of(kubectl, "app"), "the pod on a node")
    assert node_of(kubectl, "app") == wanted
    assert kubectl.get(f"pv/{storage.volumes[0]}")["spec"]["claimRef"]["name"] == "data"


def test_a_claim_that_should_be_bound_long_since_is_waited_for(
    kubectl: Kubectl, policy: Policy, storage: Storage
) -> None:
    storage.storage_class("csi.test.example", "Immediate")
    storage.claim("data")
    policy.pod("app", **with_claim("data"))
    until(
        lambda: (
            "pod has unbound immediate PersistentVolumeClaims"
            in kubectl.condition("pod/app", "PodScheduled").get("message", "")
        ),
        "the reason why the pod waits",
    )
    zone = kubectl.list("nodes")[0]["metadata"]["labels"][ZONE]
    storage.volume("late", ZONE, zone)
    until(lambda: node_of(kubectl, "app"), "the pod on a node")
    assert policy.zone_of("app") == zone
