"""A running operator on the fake API server in simulated time: controllers, caches, and what kube would do beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from konverge.cache.informer import Caches
from konverge.controllers.database.reconciler import DatabaseReconciler
from konverge.errors import NotFound
from konverge.model.conditions import find
from konverge.model.resource import Object, ResourceType, StatefulSet
from konverge.runtime.controller import Controller
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim


@dataclass
class Events:
    """A recorder that keeps the reasons of what was recorded."""

    reasons: list[str] = field(default_factory=list)

    def event(
        self,
        regarding: Object,
        event_type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        self.reasons.append(reason)


class World:
    """An empty cluster at first. `user` is a person with kubectl, `konverge` the operator's client."""

    def __init__(self, sim: Sim) -> None:
        self.sim, self.events = sim, Events()
        self.api = FakeApi(clock=sim.clock, random=sim.random)
        self.user = self.api.client("user")
        self.konverge = self.api.client("konverge")
        self.caches = Caches(self.konverge, clock=sim.clock, random=sim.random)

    async def run(self, reconcilers: Sequence[Reconciler[Any]] = ()) -> None:
        """Start the reconcilers (a DatabaseReconciler where none is given) with warm caches."""
        controllers = [
            Controller(
                reconciler,
                api=self.konverge,
                caches=self.caches,
                recorder=self.events,
                clock=self.sim.clock,
                random=self.sim.random,
                metrics=Metrics().controller("test", 1),
            )
            for reconciler in reconcilers or [DatabaseReconciler()]
        ]
        for controller in controllers:
            controller.connect()
        self.sim.spawn(self.caches.run())
        await self.caches.wait_for_sync(10)
        for controller in controllers:
            self.sim.spawn(controller.run())

    def get(self, resource: ResourceType, name: str, namespace: str = "") -> Any:
        """The object as the server holds it, None when it is not there."""
        found = [obj for obj in self.api.objects(resource, namespace or None) if obj["metadata"]["name"] == name]
        return found[0] if found else None

    def condition(self, obj: Object | None, condition_type: str) -> tuple[str, str] | None:
        """Status and reason of a condition."""
        conditions: Sequence[Mapping[str, Any]] = ((obj or {}).get("status") or {}).get("conditions") or []
        found = find(conditions, condition_type)
        return None if found is None else (found["status"], found["reason"])

    async def edit(self, resource: ResourceType, name: str, namespace: str | None = None, **spec: Any) -> None:
        """Change the spec as a person would."""
        await self.user.patch(resource, name, {"spec": spec}, namespace)

    async def pods(self, name: str, namespace: str, *, exist: int, ready: int, rolled: bool = True) -> None:
        """Report as the StatefulSet controller would that so many pods exist and are ready."""
        try:
            live = await self.user.get(StatefulSet, name, namespace)
        except NotFound as error:
            raise AssertionError(f"there is no StatefulSet {name}") from error
        status = {
            "observedGeneration": live["metadata"]["generation"],
            "replicas": exist,
            "readyReplicas": ready,
            "currentRevision": "r2" if rolled else "r1",
            "updateRevision": "r2",
        }
        await self.user.patch(StatefulSet, name, {"status": status}, namespace, subresource="status")
