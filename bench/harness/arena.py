"""Where the peers meet: a local cluster of an API server and its store, and what that counts.

The other components of the control plane are ended once the cluster is furnished. No pod is involved, and their own
reading of each object would only add the same noise to every peer.
"""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml
from harness.process import cpu_seconds, quiet
from harness.world import NAMESPACE, World

from konverge.errors import ApiError, ClusterError
from konverge.kube.connect import connect
from konverge.runtime.clock import SystemClock
from konverge.testing import LocalCluster
from konverge.testing.processes import wait_for

_CRD: Final = Path(__file__).parents[1] / "echo_crd.yaml"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVED_SECONDS: Final = 30.0
_NEEDED: Final = ("etcd", "kube-apiserver")
_COUNTED: Final = ("echoes", "configmaps", "events")
_REQUESTS: Final = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)


class Arena:
    """A running cluster with the Echo resource and an empty namespace."""

    def __init__(self, cluster: LocalCluster, world: World) -> None:
        self._cluster, self.world = cluster, world
        self.kubeconfig = str(cluster.kubeconfig)
        self._apiserver = cluster.pids["kube-apiserver"]

    @property
    def apiserver_cpu(self) -> float:
        """Seconds of CPU that the API server has used."""
        return cpu_seconds(self._apiserver)

    async def settled(self) -> None:
        """Wait until the API server has (nearly) nothing to do: it has timers of its own."""
        await quiet(self._apiserver, below=0.15)

    async def requests(self) -> int:
        """How many requests for Echoes, ConfigMaps and Events the API server has answered; streams count at their end."""
        text = await asyncio.to_thread(self._cluster.request, "GET", "/metrics")
        return sum(int(float(each["count"])) for each in _REQUESTS.finditer(text) if _counts(each["labels"]))


def _counts(labels: str) -> bool:
    return any(f'resource="{resource}"' in labels for resource in _COUNTED) and 'verb="WATCH"' not in labels


@asynccontextmanager
async def arena(name: str) -> AsyncIterator[Arena]:
    """A fresh cluster of that name, gone afterwards."""
    with LocalCluster(name, nodes=0) as cluster:
        _furnish(cluster)
        client = await connect(str(cluster.kubeconfig), clock=SystemClock(), random=Random())
        async with client:
            yield Arena(cluster, World(client))


def _furnish(cluster: LocalCluster) -> None:
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    crd = yaml.safe_load(_CRD.read_text())
    cluster.request("POST", _CRDS, crd)
    if not wait_for(lambda: _is_served(cluster, crd), _SERVED_SECONDS):
        raise ClusterError(f"the API server did not serve Echoes within {_SERVED_SECONDS:g} s")
    for component, pid in cluster.pids.items():
        if component not in _NEEDED:
            os.kill(pid, signal.SIGTERM)


def _is_served(cluster: LocalCluster, crd: Any) -> bool:
    spec = crd["spec"]
    try:
        cluster.request("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    except ApiError:  # 404 at first, then 429 while its storage comes up
        return False
    return True
