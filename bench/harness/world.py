"""The Echo objects on the cluster: numbers flow in, objects are made, edited, watched and removed; times flow out.

One watch sees every peer the same way, and costs the API server one more copy of each event.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from harness.crowd import each

from konverge import ConfigMap
from konverge.errors import Gone
from konverge.kube.client import Client
from konverge.model import meta
from konverge.model.conditions import is_true
from konverge.model.resource import Object, ResourceType
from konverge.ports import Scope

ECHO: Final = ResourceType("bench.konverge.dev", "v1", "Echo", "echoes")
NAMESPACE: Final = "bench"
_STALL: Final = 60.0
"""Seconds without any progress after which a peer is taken for stuck."""


def name_of(number: int) -> str:
    """The name of one Echo."""
    return f"echo-{number:06d}"


class World:
    """The objects of one measurement."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def populate(self, count: int) -> None:
        """Make `count` Echoes that nobody has reconciled."""
        await each(range(count), self._create)

    async def clear(self) -> None:
        """Remove all Echoes and ConfigMaps of the namespace."""
        scope = Scope(NAMESPACE)
        for resource in (ECHO, ConfigMap):
            while names := [meta.key_of(obj).name for obj in (await self._client.list(resource, scope)).items]:
                await each(names, partial(self._client.delete, resource, namespace=NAMESPACE))

    async def edit(self, number: int, message: str) -> int:
        """Change the message of one Echo; return the generation that this makes."""
        patch = {"spec": {"message": message}}
        return meta.generation_of(await self._client.patch(ECHO, name_of(number), patch, NAMESPACE))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Observer"]:
        """See every Echo that becomes Ready from now on."""
        page = await self._client.list(ECHO, Scope(NAMESPACE), limit=1)
        observer = Observer()
        task = asyncio.create_task(self._follow(observer, page.resource_version))
        try:
            yield observer
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _follow(self, observer: "Observer", version: str) -> None:
        scope = Scope(NAMESPACE)
        async for event in self._client.watch(ECHO, scope, resource_version=version, timeout_seconds=3600):
            observer.see(event.object, time.monotonic())
        raise Gone(410, "Expired", "the benchmark's own watch ended")

    async def _create(self, number: int) -> None:
        body = {
            "apiVersion": ECHO.api_version,
            "kind": ECHO.kind,
            "metadata": {"name": name_of(number), "namespace": NAMESPACE},
            "spec": {"message": f"hello {number}"},
        }
        await self._client.create(ECHO, body)


class Observer:
    """When each Echo became Ready, by the generation that it was Ready for. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.ready: dict[tuple[str, int], float] = {}
        self.names: Counter[str] = Counter()
        self._progress = asyncio.Event()

    def see(self, obj: Object, now: float) -> None:
        """Take note of one event."""
        status = obj.get("status") or {}
        generation = meta.generation_of(obj)
        if status.get("observedGeneration") != generation or not is_true(status.get("conditions") or (), "Ready"):
            return
        name = meta.key_of(obj).name
        if (name, generation) not in self.ready:
            self.ready[name, generation] = now
            self.names[name] += 1
            self._progress.set()

    async def all_ready(self, count: int) -> float:
        """Wait until `count` Echoes were Ready once; return when that was. Raises: TimeoutError when nothing moves."""
        while len(self.names) < count:
            await self._more(f"{len(self.names)} of {count} are Ready")
        return max(self.ready.values())

    async def those_ready(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Wait until each (name, generation) of `wanted` was Ready. Raises: TimeoutError when nothing moves."""
        for edit in wanted:
            while edit not in self.ready:
                await self._more(f"{edit} is not Ready")

    async def _more(self, state: str) -> None:
        self._progress.clear()
        try:
            async with asyncio.timeout(_STALL):
                await self._progress.wait()
        except TimeoutError:
            raise TimeoutError(f"no progress for {_STALL:g} s: {state}") from None
