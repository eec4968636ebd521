"""Decisions of the scheduler without a cluster: scenarios flow in, decisions a second of one core flow out.

A decision is what the scheduler does for one pod before its bind: reading the pod, prefilter, filter, score, and counting
the pod on its node. Pods of a scenario are those of kube-scheduler's own benchmark of that name, as far as it has one.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge.cache import Caches
from konverge.errors import SchedulingError
from konverge.model.resource import Object, PersistentVolume, PersistentVolumeClaim, StorageClass
from konverge.runtime.clock import SystemClock
from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.changes import Changes
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.handle import Handle
from konverge.scheduler.lister import CacheLister
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.reserve import reserve
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.waiting import WaitingRoom
from konverge.scheduler.watch import UNWATCHED
from konverge.testing.fake import FakeApi

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONES: Final = 10
THERE: Final = 1000
"""So many pods of the scenario are placed before the measurement begins, but one for five nodes at most."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ALIKE: Final = {"labelSelector": {"matchLabels": {"app": "bench"}}}

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """How its pods look: what the n-th of them has in its spec besides a container."""

    name: str
    spec: Callable[[int], Spec]
    crowded: bool = False
    """Whether the cluster is full of unimportant pods, which those of the scenario push out."""
    local: bool = False
    """Whether each node has a local volume, and each pod a claim that waits for one."""


def _container(cpu: str) -> Spec:
    return {"name": "main", "image": "bench", "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}}}


def _important(cpu: str) -> Spec:
    return {"containers": [_container(cpu)], "priority": 1000}


_IMPORTANT: Final = _important("8")


def _term(key: str) -> Spec:
    return {"topologyKey": key, **_ALIKE}


def _spread(when: str) -> Spec:
    return {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 5, "whenUnsatisfiable": when, **_ALIKE}]}


SCENARIOS: Final = (
    Scenario("basic", lambda _: {}),
    Scenario("a hundred kinds", lambda number: {"containers": [_container(f"{100 + number % 100}m")]}),
    Scenario("no two alike", lambda number: {"containers": [_container(f"{100 + number}m")]}),
    Scenario("spread", lambda _: _spread("DoNotSchedule")),
    Scenario("spread, preferred", lambda _: _spread("ScheduleAnyway")),
    Scenario("pod affinity", lambda _: {"affinity": {"podAffinity": {_REQUIRED: [_term(ZONE)]}}}),
    Scenario("anti-affinity", lambda _: {"affinity": {"podAntiAffinity": {_REQUIRED: [_term(HOSTNAME)]}}}),
    Scenario(
        "anti-affinity, preferred",
        lambda _: {"affinity": {"podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _term(HOSTNAME)}]}}},
    ),
    Scenario("preemption", lambda _: _IMPORTANT, crowded=True),
    Scenario("preemption, no two alike", lambda number: _important(f"{8000 - number}m"), crowded=True),
    Scenario("preemption, spread", lambda _: {**_IMPORTANT, **_spread("DoNotSchedule")}, crowded=True),
    Scenario(
        "preemption, pod affinity",
        lambda _: {**_IMPORTANT, "affinity": {"podAffinity": {_REQUIRED: [_term(ZONE)]}}},
        crowded=True,
    ),
    Scenario(
        "preemption, anti-affinity",
        lambda _: {**_IMPORTANT, "affinity": {"podAntiAffinity": {_REQUIRED: [_term(HOSTNAME)]}}},
        crowded=True,
    ),
    Scenario(
        "local volumes",
        lambda number: {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]},
        local=True,
    ),
)

_FULL: Final = 4
"""So many unimportant pods are on each node of a full cluster."""


def rate(name: str, nodes: int, pods: int) -> float:
    """Decisions a second of CPU time for `pods` pods of the scenario of that name on a cluster of `nodes` nodes."""
    scenario = next(each for each in SCENARIOS if each.name == name)
    cluster = _Cluster(nodes)
    there = 0 if scenario.crowded else min(THERE, nodes // 5)
    for number in range(_FULL * nodes if scenario.crowded else 0):
        raw = _pod(f"low-{number}", {"containers": [_container("8")], "nodeName": f"node-{number % nodes}"}, app="low")
        cluster.snapshot.place(PodInfo(raw))
    if scenario.crowded:
        pods = min(pods, _FULL * nodes // ZONES)  # so many go into one zone
    if scenario.local:
        cluster.furnish(nodes, there + pods)
    for number in range(there):
        cluster.decide(_pod(f"there-{number}", scenario.spec(number)))
    waiting = [_pod(f"waiting-{number}", scenario.spec(there + number)) for number in range(pods)]
    begin = time.process_time()
    for raw in waiting:
        cluster.decide(raw)
    return pods / (time.process_time() - begin)


class _Cluster:
    """A snapshot with the part of a scheduler that decides."""

    def __init__(self, nodes: int) -> None:
        self.snapshot = Snapshot()
        for number in range(nodes):
            self.snapshot.set_node(_node(number))
        self._cycle = Cycle(self.snapshot, random.Random(1))
        self._handle = _handle()
        self._profile = compile_profile(ProfileConfig("bench"), Registry.default(), self._handle)

    def furnish(self, volumes: int, claims: int) -> None:
        """Give each node a local volume, and the pods their claims."""
        lister = self._handle.lister
        lister.wrote(StorageClass, _LOCAL)
        for number in range(volumes):
            lister.wrote(PersistentVolume, _volume(number))
        for number in range(claims):
            lister.wrote(PersistentVolumeClaim, _claim(number))

    def decide(self, raw: Object) -> None:
        """Place the pod, where it has to be in place of its victims."""
        pod = PodInfo(raw)
        found = self._cycle.schedule(self._profile, pod)
        if isinstance(found, Diagnosis) and found.victims:
            for victim in found.victims:
                self.snapshot.forget(victim.uid)
            found = self._cycle.schedule(self._profile, pod)
        if isinstance(found, Diagnosis):
            raise SchedulingError(f"pod {pod.key} fits nowhere: {found.message}")
        self.snapshot.assume(pod, found.node_name)
        reserve(self._profile, UNWATCHED, found.state, pod, found.node_name)


def _handle() -> Handle:
    """No cache holds anything, and nothing is written."""
    api, clock, registry = FakeApi(), SystemClock(), Registry.default()
    caches = Caches(api, clock=clock, random=random.Random(1))
    lister = CacheLister({resource: caches.cache(resource) for resource in registry.reads})
    return Handle(api, lister, WaitingRoom(clock), Changes(clock).until)


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {HOSTNAME: name, ZONE: f"zone-{number % ZONES}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}},
    }


def _pod(name: str, spec: Spec, app: str = "bench") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "bench", "uid": name, "labels": {"app": app}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": "bench",
            "containers": [_container("100m")],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            **spec,
        },
    }


_LOCAL: Final = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "uid": "local", "resourceVersion": "1"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _volume(number: int) -> dict[str, Any]:
    here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"node-{number}"]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{number}", "uid": f"disk-{number}", "resourceVersion": "1"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "local": {"path": "/mnt/disk"},
        },
        "status": {"phase": "Available"},
    }


def _claim(number: int) -> dict[str, Any]:
    metadata = {"name": f"data-{number}", "namespace": "bench", "uid": f"data-{number}", "resourceVersion": "1"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Pending"},
    }
