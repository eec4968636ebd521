"""Pods with volumes go where kube-scheduler sends them: static volumes, claims that wait for their pod, zones and limits.

A provisioner is played by the test. Everything is at rest when a pod comes, so that both sides decide by the same.
"""

import os
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from konverge.testing import LocalCluster
from konverge.testing.kubescheduler import PARITY
from konverge.testing.processes import wait_for
from tests.parity.judging import judge
from tests.parity.side import Side, refusal
from tests.parity.tally import Tally, seeds
from tests.parity.workloads import HOSTNAME, ZONE, Json, Workload
from tests.unit.scheduler.storage import RESOURCES

pytestmark = pytest.mark.e2e

PODS = 30
SEEDS = seeds(2)
DRIVER, TRACKING = "csi.parity.example", "tracking.parity.example"
ZONES = ["zone-a", "zone-b", "zone-c"]
SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
PAUSE: Json = {"containers": [{"name": "c", "image": "registry.example/app:1"}], "terminationGracePeriodSeconds": 0}


class Shelf(Workload):
    """Volumes, classes and claims of one seed; names of what has no namespace begin with the seed's."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.prefix = f"v{seed}"
        self.claims: list[str] = []
        """Those of earlier pods, to be used again."""

    def node(self, name: str) -> Json:
        """A node with room for all, most in a zone."""
        labels = {HOSTNAME: name}
        if self.random.random() < 0.9:
            labels[ZONE] = self.random.choice(ZONES)
        room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        status = {"capacity": room, "allocatable": room}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}

    def limits(self, node_name: str) -> Json:
        """How many volumes the node can have attached."""
        drivers = [{"name": DRIVER, "nodeID": node_name, "allocatable": {"count": self.random.choice([1, 2, 5])}}]
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": node_name},
            "spec": {"drivers": drivers},
        }

    def classes(self) -> list[Json]:
        """Classes that wait for a pod, all but `now`; `static` has no provisioner, that of `tracked` tells its capacity."""
        in_two = [{"matchLabelExpressions": [{"key": ZONE, "values": ZONES[:2]}]}]
        late = "WaitForFirstConsumer"
        return [
            self._class("late", DRIVER, late),
            self._class("narrow", DRIVER, late, allowedTopologies=in_two),
            self._class("tracked", TRACKING, late),
            self._class("static", "kubernetes.io/no-provisioner", late),
            self._class("now", "kubernetes.io/no-provisioner", "Immediate"),
        ]

    def room(self) -> list[Json]:
        """Where the driver that tracks its capacity has some."""
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity"}
        return [
            {
                **head,
                "metadata": {"name": f"{self.prefix}-{zone}"},
                "storageClassName": f"{self.prefix}-tracked",
                "nodeTopology": {"matchLabels": {ZONE: zone}},
                "capacity": size,
            }
            for zone, size in zip(ZONES, ["1Gi", "2Gi", "500Mi"], strict=True)
        ]

    def _class(self, name: str, provisioner: str, mode: str, **more: Any) -> Json:
        metadata = {"name": f"{self.prefix}-{name}"}
        parts = {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain", **more}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **parts}

    def shelf(self) -> list[Json]:
        """The volumes that are there before any pod."""
        nodes = [f"s{self.prefix[1:]}-n{number}" for number in range(12)]
        static = [self.volume(f"static-{number}", "static", self._place(nodes)) for number in range(10)]
        now = [self.volume(f"now-{number}", "now", {}, {ZONE: self.random.choice(ZONES)}) for number in range(5)]
        return [*static, *now]

    def _place(self, nodes: list[str]) -> dict[str, list[str]]:
        return self.random.choice(
            [{}, {ZONE: [self.random.choice(ZONES)]}, {ZONE: ZONES[1:]}, {HOSTNAME: self.random.sample(nodes, 2)}]
        )

    def volume(
        self,
        name: str,
        kind: str,
        place: dict[str, list[str]],
        labels: dict[str, str] | None = None,
        size: str = "",
        mode: str = "",
    ) -> Json:
        """A volume that the nodes with these labels reach."""
        name, mode = f"{self.prefix}-{name}", mode or self.random.choice(["ReadWriteOnce", "ReadWriteOncePod"])
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in place.items()]
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}
        spec: Json = {
            "storageClassName": f"{self.prefix}-{kind}",
            "accessModes": [mode],
            "capacity": {"storage": size or self.random.choice(["1Gi", "2Gi", "5Gi"])},
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **(affinity if place else {}),
        }
        metadata = {"name": name, "labels": labels or {}}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}

    def claim(self, name: str) -> Json:
        """A claim of a class; now and then larger than any volume."""
        kind = self.random.choice(["late", "narrow", "tracked", "static", "static", "static", "now"])
        mode = "ReadWriteOncePod" if self.random.random() < 0.3 else "ReadWriteOnce"
        size = self.random.choice(["1Gi", "2Gi", "4Gi", "100Gi" if kind == "now" else "1Gi"])
        spec = {
            "storageClassName": f"{self.prefix}-{kind}",
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
        }
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    def user(self, name: str, claims: list[str]) -> Json:
        """A pod with these claims, and now and then one that is not there."""
        used = [*claims, *(["missing"] if self.random.random() < 0.05 else [])]
        volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": each}} for i, each in enumerate(used)]
        spec = {**PAUSE, "schedulerName": PARITY, "volumes": volumes}
        labels = {"app": self.random.choice(["web", "db"])}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


class Store(Side):
    """The real cluster with its volumes."""

    workload: Shelf
    rereads: ClassVar[tuple[str, ...]] = tuple(RESOURCES)

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self.workload = Shelf(seed)
        self.claims = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"

    def furnish(self) -> None:
        """Nodes and what they can attach, classes and volumes."""
        for each in self.workload.classes():
            self.wire.request("POST", "/apis/storage.k8s.io/v1/storageclasses", each)
        for each in self.workload.room():
            path = f"/apis/storage.k8s.io/v1/namespaces/{self.namespace}/csistoragecapacities"
            self.wire.request("POST", path, each)
        super().furnish()
        for node in self.wire.items("/api/v1/nodes"):
            limits = self.workload.limits(node["metadata"]["name"])
            self.wire.request("POST", "/apis/storage.k8s.io/v1/csinodes", limits)
        for each in self.workload.shelf():
            self.wire.request("POST", "/api/v1/persistentvolumes", each)

    def claim(self, name: str) -> None:
        """Make a claim, and wait until the volume controller has done with it what it does."""
        self.wire.request("POST", self.claims, self.workload.claim(name))
        assert wait_for(self.at_rest, 20, poll=0.02)

    def at_rest(self) -> bool:
        """Whether the volume controller has nothing left to do: free volumes are free, and what could be bound is."""
        everywhere = self.wire.items("/api/v1/persistentvolumes")
        volumes = [each for each in everywhere if each["metadata"]["name"].startswith(f"{self.workload.prefix}-")]
        if any(each.get("status", {}).get("phase") not in {"Available", "Bound"} for each in volumes):
            return False
        return all(self._settled_claim(each, volumes) for each in self.wire.items(self.claims))

    def _settled_claim(self, claim: Json, volumes: list[Json]) -> bool:
        kind = claim["spec"]["storageClassName"]
        if claim["status"].get("phase") == "Bound":
            return BOUND in claim["metadata"].get("annotations", {})
        if not kind.endswith("-now") or claim["spec"]["resources"]["requests"]["storage"] == "100Gi":
            return True
        wanted = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
        free = [
            each
            for each in volumes
            if each["spec"]["storageClassName"] == kind
            and "claimRef" not in each["spec"]
            and each["spec"]["accessModes"] == claim["spec"]["accessModes"]
        ]
        return not any(int(each["spec"]["capacity"]["storage"].removesuffix("Gi")) >= wanted for each in free)

    def decision(self, name: str) -> Json:
        """As of any pod; the volumes that its claims ask for on the way are made where they ask for them."""

        def decided() -> bool:
            self.provision()
            pod = self.wire.request("GET", f"{self.path}/{name}")
            return bool(pod["spec"].get("nodeName") or refusal(pod))

        assert wait_for(decided, 30, poll=0.02), f"kube-scheduler says nothing of {name}"
        return super().decision(name)

    def provision(self) -> None:
        """What a driver does: make a volume for each claim that has a node, in the node's zone."""
        for claim in self.wire.items(self.claims):
            node_name = claim["metadata"].get("annotations", {}).get(SELECTED)
            if not node_name or claim["spec"].get("volumeName"):
                continue
            name, node = claim["metadata"]["name"], self.wire.request("GET", f"/api/v1/nodes/{node_name}")
            zone = node["metadata"]["labels"].get(ZONE)
            place = {ZONE: [zone]} if zone else {HOSTNAME: [node_name]}
            kind = claim["spec"]["storageClassName"].rpartition("-")[2]
            (mode,), size = claim["spec"]["accessModes"], claim["spec"]["resources"]["requests"]["storage"]
            made = self.workload.volume(f"made-{name}", kind, place, size=size, mode=mode)
            owner = {"namespace": self.namespace, "name": name, "uid": claim["metadata"]["uid"]}
            made["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner}
            self.wire.request("POST", "/api/v1/persistentvolumes", made)
            assert wait_for(self.at_rest, 20, poll=0.02)


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalCluster]:
    """A cluster of our own, whose nodes and volumes are the test's alone."""
    with LocalCluster(f"pytest-volumes-{os.getpid()}", nodes=0, parity=True) as started:
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": TRACKING}}
        started.request("POST", "/apis/storage.k8s.io/v1/csidrivers", {**head, "spec": {"storageCapacity": True}})
        yield started


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_with_volumes_go_where_kube_scheduler_sends_them(empty: LocalCluster, seed: int, tally: Tally) -> None:
    with Store.furnished(empty, seed) as side:
        for number in range(PODS):
            judge(side, one_more(side, number), tally)
    assert tally.outcomes["refused"] > PODS // 10, tally
    assert tally.outcomes["placed"] > PODS // 4, tally


def one_more(side: Store, number: int) -> Json:
    """A pod with new claims, or with some of earlier pods."""
    shelf = side.workload
    fresh = [f"c{number}-{index}" for index in range(shelf.random.choice([0, 1, 1, 2]))]
    for name in fresh:
        side.claim(name)
    again = shelf.random.sample(shelf.claims, min(len(shelf.claims), shelf.random.choice([0, 0, 1])))
    shelf.claims += fresh
    assert wait_for(side.at_rest, 20, poll=0.02)
    return shelf.user(f"p{number}", [*fresh, *again])
