"""A bounded soak: edits and deletes for a while; memory and tasks stay flat, and the caches end equal to a fresh LIST.

It takes as many seconds as KONVERGE_SOAK_SECONDS says; `make soak` gives it ten minutes.
"""

import asyncio
import gc
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from konverge.cache.informer import Caches
from konverge.kube import Client, connect
from konverge.model import meta
from konverge.model.resource import ConfigMap, ResourceType
from konverge.ports import Scope
from konverge.runtime.clock import SystemClock
from konverge.testing import LocalCluster
from konverge.testing.operators import operator_on
from tests.e2e.kubectl import Kubectl, install
from tests.e2e.ledger import Ledger, LedgerReconciler
from tests.e2e.test_chaos import Load, wrong

SECONDS = float(os.environ.get("KONVERGE_SOAK_SECONDS", "45"))
SAMPLE = 1.0
GROWTH = 1.15
"""How much larger than in its first quarter the memory may be in its last."""
SLACK = 4 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def room() -> Iterator[Kubectl]:
    with LocalCluster(f"soak-{os.getpid()}", nodes=1) as cluster:
        install(cluster, Ledger)
        yield Kubectl(cluster, cluster.create_namespace("soak"))


@dataclass
class Samples:
    """Resident bytes and asyncio tasks of this process over time."""

    memory: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)

    def take(self) -> None:
        self.memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE)
        self.tasks.append(len(asyncio.all_tasks()))

    def quarters(self, values: list[int]) -> tuple[int, int]:
        """The median of the first quarter, and of the last."""
        size = max(1, len(values) // 4)
        return sorted(values[:size])[size // 2], sorted(values[-size:])[size // 2]


@asynccontextmanager
async def operating(client: Client) -> AsyncIterator[Caches]:
    """The operator in this process, so that its caches can be looked into."""
    manager = operator_on(client, [LedgerReconciler()])
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    try:
        yield manager.caches
    finally:
        stop.set()
        await running


async def fresh(client: Client, resource: ResourceType) -> dict[meta.Key, str]:
    """What a LIST says now: the resourceVersion by key."""
    found: dict[meta.Key, str] = {}
    token = ""
    while True:
        page = await client.list(resource, Scope(), continue_token=token)
        found.update({meta.key_of(obj): meta.resource_version(obj) for obj in page.items})
        token = page.continue_token
        if not token:
            return found


def cached(caches: Caches, resource: ResourceType) -> dict[meta.Key, str]:
    return {meta.key_of(obj): meta.resource_version(obj) for obj in caches.cache(resource).list()}


async def differing(client: Client, caches: Caches, resource: ResourceType) -> set[tuple[meta.Key, str]]:
    """The versions that only the cache has, or only the server."""
    return set(cached(caches, resource).items()) ^ set((await fresh(client, resource)).items())


async def agrees(ask: Callable[[], Awaitable[object]], nothing: object) -> None:
    """Ask until the answer is `nothing`. Raises: AssertionError with the last answer after two minutes."""
    answer: object = None
    for _ in range(int(120 / SAMPLE)):
        answer = await ask()
        if answer == nothing:
            return
        await asyncio.sleep(SAMPLE)
    raise AssertionError(f"still different: {answer}")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory from /proc")
@pytest.mark.timeout(SECONDS + 240)
async def test_nothing_grows_and_the_caches_stay_true(room: Kubectl) -> None:
    assert isinstance(room.cluster, LocalCluster)
    samples = Samples()
    loop = asyncio.get_running_loop()
    client = await connect(str(room.cluster.kubeconfig), clock=SystemClock(), random=random.Random(1))
    async with client, operating(client) as caches:
        with Load(room.cluster, room.namespace, seed=7) as load:
            end = loop.time() + SECONDS
            while loop.time() < end:
                await asyncio.sleep(SAMPLE)
                gc.collect()
                samples.take()
        assert load.done > SECONDS
        await agrees(lambda: asyncio.to_thread(wrong, room), nothing=[])
        for resource in (Ledger.resource, ConfigMap):
            await agrees(lambda resource=resource: differing(client, caches, resource), nothing=set())  # type: ignore[misc]
    early, late = samples.quarters(samples.memory)
    assert late <= early * GROWTH + SLACK, f"memory grew from {early >> 20} to {late >> 20} MiB"
    early, late = samples.quarters(samples.tasks)
    assert late <= early + 2, f"tasks grew from {early} to {late}"
