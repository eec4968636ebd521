"""An operator in a simulation: reconcilers flow in, a person's calls on a fake API server and what came of them flow out.

    @simulate(seeds=range(20))
    async def test_a_site_is_served(sim: Sim) -> None:
        operator = SimulatedOperator(sim, SiteReconciler()).start()
        await operator.create(Site, "home", {"html": "<h1>Hello</h1>"})
        await operator.until_ready(Site, "home")
        assert operator.read(ConfigMap, "home")["data"] == {"index.html": "<h1>Hello</h1>"}

It is the whole runtime, caches and queue included, in simulated time: an hour takes milliseconds. Faults are the fake
server's: `SimulatedOperator(sim, ..., api=FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random)))`.
The fake knows no schemas: say fields that a CRD would default.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Self

from konverge.model import meta
from konverge.model.conditions import READY, find
from konverge.model.custom import Kind, resource_of
from konverge.model.resource import Event, Object, ResourceType
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler
from konverge.testing.fake import FakeApi
from konverge.testing.operators import operator_on
from konverge.testing.sim import Sim

NAMESPACE: Final = "default"
PERSON: Final = "person"
WITHIN: Final = 3600.0


class SimulatedOperator:
    """One operator on a fake API server.

    `api` is the operator's own client of the server, `person` another's. A namespace that is not given is `default`;
    for a cluster-scoped kind it does not count.
    """

    def __init__(self, sim: Sim, *reconcilers: Reconciler[Any], api: FakeApi | None = None) -> None:
        self.sim, self.reconcilers = sim, reconcilers
        self.api = api or FakeApi(clock=sim.clock, random=sim.random)
        self.person = self.api.client(PERSON)
        self.metrics = Metrics()
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self) -> Self:
        """Start a fresh operator: its caches are empty, as after a restart of the process."""
        manager = operator_on(
            self.api, self.reconcilers, clock=self.sim.clock, random=self.sim.random, metrics=self.metrics
        )
        self._stop = asyncio.Event()
        self._task = self.sim.spawn(manager.run(self._stop), name="operator")
        return self

    async def stop(self) -> None:
        """Stop it in order, as SIGTERM does."""
        task, self._task = self._task, None
        self._stop.set()
        if task is not None:
            await task

    async def crash(self) -> None:
        """End it without any order, as SIGKILL does."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def restart(self) -> None:
        """Stop it in order, and start it anew."""
        await self.stop()
        self.start()

    async def create(
        self, kind: Kind, name: str, spec: Mapping[str, Any], *, namespace: str = NAMESPACE, **metadata: Any
    ) -> Object:
        """Create an object as a person does. `metadata` may hold labels, annotations and the like. Raises: ApiError."""
        resource = resource_of(kind)
        where = _where(resource, namespace)
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "name": name, **({"namespace": where} if where else {})},
            "spec": dict(spec),
        }
        return await self.person.create(resource, body, where)

    async def edit(self, kind: Kind, name: str, spec: Mapping[str, Any], *, namespace: str = NAMESPACE) -> Object:
        """Change fields of the spec as a person does; None takes one away. Raises: ApiError."""
        resource = resource_of(kind)
        return await self.person.patch(resource, name, {"spec": dict(spec)}, _where(resource, namespace))

    async def delete(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> None:
        """Delete an object as a person does. Raises: ApiError."""
        resource = resource_of(kind)
        await self.person.delete(resource, name, _where(resource, namespace))

    def find(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> Object | None:
        """The object as the server holds it; None when it is not there."""
        resource = resource_of(kind)
        there = self.api.objects(resource, _where(resource, namespace))
        return next((obj for obj in there if meta.key_of(obj).name == name), None)

    def read(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> Object:
        """The object as the server holds it. Raises: AssertionError when it is not there."""
        found = self.find(kind, name, namespace=namespace)
        assert found is not None, f"there is no {resource_of(kind).kind} {namespace}/{name}"
        return found

    def condition(self, kind: Kind, name: str, condition_type: str = READY, *, namespace: str = NAMESPACE) -> Object:
        """The condition of that type; empty when it, or the object, is not there."""
        status = (self.find(kind, name, namespace=namespace) or {}).get("status") or {}
        return find(status.get("conditions") or (), condition_type) or {}

    def ready(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> bool:
        """Whether the object is Ready as it is asked for now."""
        obj = self.find(kind, name, namespace=namespace)
        if obj is None or self.condition(kind, name, namespace=namespace).get("status") != "True":
            return False
        return bool(obj["status"].get("observedGeneration") == meta.generation_of(obj))

    async def until_ready(self, kind: Kind, name: str, *, namespace: str = NAMESPACE, within: float = WITHIN) -> Object:
        """Wait until the object is Ready, and return it. Raises: AssertionError after `within` simulated seconds."""
        await self.sim.until(lambda: self.ready(kind, name, namespace=namespace), within=within)
        return self.read(kind, name, namespace=namespace)

    def events(self, kind: Kind, name: str) -> list[tuple[str, str, str]]:
        """The events about the object, each as type, reason and note, in the order of their first time."""
        told = [
            obj
            for obj in self.api.objects(Event)
            if (obj["regarding"]["kind"], obj["regarding"]["name"]) == (resource_of(kind).kind, name)
        ]
        told.sort(key=_first_seen)
        return [(obj["type"], obj["reason"], obj["note"]) for obj in told]


def _first_seen(event: Object) -> tuple[str, int]:
    return event["eventTime"], int(meta.resource_version(event))


def _where(resource: ResourceType, namespace: str) -> str | None:
    return namespace if resource.namespaced else None
