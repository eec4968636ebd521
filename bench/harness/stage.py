"""Where schedulers meet: a local cluster of an API server and its store with many nodes, and pods that wait on it.

Nodes are objects only, ready from the start; no kubelet is played, so nothing but the scheduler touches a pod, and a pod
is placed when it has a node. The other components of the control plane are ended once the cluster is furnished.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import yaml
from harness.crowd import each
from harness.process import cpu_seconds, quiet

from konverge.errors import ApiError, ClusterError, KonvergeError
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.model.resource import Node, Object, Pod
from konverge.ports import Scope
from konverge.runtime.clock import SystemClock
from konverge.testing import LocalCluster
from konverge.testing.nodes import node, pods_allowed
from konverge.testing.processes import ProcessRef, end, start_time, wait_for

NAMESPACE: Final = "bench"
_CRD: Final = Path(__file__).parents[2] / "crds" / "scheduling.konverge.dev_schedulingpolicies.yaml"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POLICIES: Final = "/apis/scheduling.konverge.dev/v1alpha1/schedulingpolicies"
_NEEDED: Final = ("etcd", "kube-apiserver")
_SECONDS: Final = 60.0
_GRACE: Final = 20.0
_STALL: Final = 60.0
"""Seconds without any progress after which a scheduler is taken for stuck."""


class Stage:
    """A running cluster with nodes, and a namespace for pods."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self._cluster, self._client = cluster, client
        self.kubeconfig = str(cluster.kubeconfig)
        self.directory = cluster.directory
        self._apiserver = cluster.pids["kube-apiserver"]
        self._nodes = 0

    @property
    def apiserver_cpu(self) -> float:
        """Seconds of CPU that the API server has used."""
        return cpu_seconds(self._apiserver)

    async def settled(self) -> None:
        """Wait until the API server has (nearly) nothing to do: it has timers of its own."""
        await quiet(self._apiserver, below=0.15)

    async def grow(self, count: int) -> None:
        """Have `count` nodes, without taints."""
        await each(range(self._nodes + 1, count + 1), self._add_node)
        self._nodes = max(self._nodes, count)

    async def populate(self, scheduler: str, count: int) -> None:
        """Make `count` pods that wait for `scheduler`."""
        await each(range(count), lambda number: self.create(scheduler, f"waiting-{number}"))

    async def create(self, scheduler: str, name: str) -> None:
        """Make one pod that waits for `scheduler`."""
        requests = {"cpu": "100m", "memory": "200Mi"}
        spec = {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,  # no kubelet ends it
            "containers": [{"name": "main", "image": "bench", "resources": {"requests": requests}}],
        }
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}}
        await self._client.create(Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def clear(self) -> None:
        """Remove all pods."""
        while pods := (await self._client.list(Pod, Scope(NAMESPACE))).items:
            await each(pods, lambda pod: self._client.delete(Pod, pod["metadata"]["name"], NAMESPACE))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Placements"]:
        """See every pod that gets a node from now on."""
        page = await self._client.list(Pod, Scope(NAMESPACE), limit=1)
        placements = Placements()
        task = asyncio.create_task(self._follow(placements, page.resource_version))
        try:
            yield placements
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # what it raised, `placements` told

    async def _follow(self, placements: "Placements", version: str) -> None:
        scope = Scope(NAMESPACE)
        try:
            while True:  # the server ends the watch of whoever reads too slowly
                async for event in self._client.watch(Pod, scope, resource_version=version, timeout_seconds=3600):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        placements.see(event.object, time.monotonic())
        except KonvergeError as error:
            placements.end(f"the benchmark's own watch broke: {error}")

    async def _add_node(self, number: int) -> None:
        body = node(number)
        body["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        await self._client.create(Node, body)
        # Admission taints every new node as not ready.
        await self._client.patch(Node, body["metadata"]["name"], {"spec": {"taints": None}})


class Placements:
    """When each pod got its node, monotonic seconds."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._progress = asyncio.Event()
        self._ended = ""

    def see(self, pod: Object, now: float) -> None:
        """Take note of one event."""
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName") and name not in self.at:
            self.at[name] = now
            self._progress.set()

    def end(self, why: str) -> None:
        """Nothing more will be seen."""
        self._ended = why
        self._progress.set()

    async def all_of(self, names: Iterable[str]) -> None:
        """Wait until each has a node. Raises: TimeoutError when nothing moves or is seen any more."""
        missing = set(names)
        while missing := missing - self.at.keys():
            if self._ended:
                raise TimeoutError(f"{self._ended}: {len(missing)} pods have no node")
            self._progress.clear()
            try:
                async with asyncio.timeout(_STALL):
                    await self._progress.wait()
            except TimeoutError:
                raise TimeoutError(f"no progress for {_STALL:g} s: {len(missing)} pods have no node") from None


@asynccontextmanager
async def stage(name: str, policy: Object) -> AsyncIterator[Stage]:
    """A fresh cluster of that name with that SchedulingPolicy, gone afterwards."""
    with LocalCluster(name, nodes=0) as cluster:
        _furnish(cluster, policy)
        client = await connect(str(cluster.kubeconfig), clock=SystemClock(), random=Random())
        async with client:
            yield Stage(cluster, client)


def _furnish(cluster: LocalCluster, policy: Object) -> None:
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.request("POST", _CRDS, yaml.safe_load(_CRD.read_text()))
    for condition, what in (
        (lambda: _served(cluster, policy), "serve SchedulingPolicies"),
        (lambda: pods_allowed(cluster, NAMESPACE), "let pods in"),
    ):
        if not wait_for(condition, _SECONDS):
            raise ClusterError(f"the API server did not {what} within {_SECONDS:g} s")
    others = [pid for component, pid in cluster.pids.items() if component not in _NEEDED]
    end([ProcessRef(pid, start_time(pid) or "") for pid in others], grace=_GRACE)


def _served(cluster: LocalCluster, policy: Object) -> bool:
    try:
        cluster.request("POST", _POLICIES, policy)
    except ApiError:  # 404 at first, then 429 while its storage comes up
        return False
    return True
