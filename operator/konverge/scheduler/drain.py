"""Draining: the pods that a suspended policy has on nodes are evicted, as disruption budgets allow.

In flow the policies whose rule says so, and the pods of the cache; out flow evictions, a few at a time, until none is left
that something would make anew. A pod without a controller would be lost and stays; so does one of a DaemonSet, which
would come back to the same node.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from konverge.cache.informer import Cache
from konverge.errors import KonvergeError, NotFound
from konverge.model.resource import Pod
from konverge.ports import Clock, Writer
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies

_log = logging.getLogger(__name__)

ROUND: Final = 10.0
"""Seconds between two rounds."""
AT_ONCE: Final = 16
"""So many evictions are asked for in a round."""


class Drain:
    """See the module."""

    def __init__(
        self, writer: Writer, pods: Cache, policies: Policies, clock: Clock, mine: Callable[[PodInfo], bool]
    ) -> None:
        """`mine` says which pods are for this replica."""
        self._writer, self._pods, self._policies, self._clock, self._mine = writer, pods, policies, clock, mine
        self._turn = 0

    async def run(self) -> None:
        """Evict until cancelled."""
        while True:
            await self._clock.sleep(ROUND)
            if owners := self._policies.draining:
                async with asyncio.TaskGroup() as group:
                    for pod in self._next(owners):
                        group.create_task(self._evict(pod))

    def _next(self, owners: frozenset[str]) -> list[PodInfo]:
        """Some of the pods to go, others each time: one that a budget keeps must not keep the others."""
        found = [
            pod
            for pod in map(PodInfo, self._pods.list())
            if pod.node_name
            and not (pod.deleting or pod.finished)
            and _comes_back(pod.raw["metadata"])
            and self._policies.owner_of(pod) in owners
            and self._mine(pod)
        ]
        start = self._turn % len(found) if found else 0
        self._turn += AT_ONCE
        return list(islice((*found[start:], *found[:start]), AT_ONCE))

    async def _evict(self, pod: PodInfo) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._writer.create(Pod, eviction, pod.namespace, name=pod.name, subresource="eviction")
        except NotFound:
            return
        except KonvergeError as error:
            _log.info("pod %s is not evicted yet: %s", pod.key, error)


def _comes_back(metadata: Mapping[str, Any]) -> bool:
    """Whether a controller makes the pod anew, so that it waits then."""
    owners = metadata.get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") != "DaemonSet" for owner in owners)
