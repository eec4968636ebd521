"""A small custom resource with children, phases and a finalizer, and the runtime around it on the fake API server."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from konverge.cache.informer import Caches
from konverge.errors import CacheNotSynced
from konverge.model.conditions import State, find
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.resource import ConfigMap, Object, Secret
from konverge.model.states import Phase
from konverge.runtime.context import Context
from konverge.runtime.controller import Controller
from konverge.runtime.events import EventRecorder
from konverge.runtime.manager import Manager
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim

NAMESPACE = "default"


class GadgetSpec(Spec):
    """What a gadget should be."""

    size: int = Field(default=1, description="How large.")


class GadgetStatus(Status):
    """What it is."""

    size: int | None = Field(default=None, description="How large it is.")
    notes: dict[str, str] = Field(default_factory=dict, description="Remarks.")


class Gadget(CustomResource[GadgetSpec, GadgetStatus], group="test.konverge.dev", version="v1"):
    """A thing to test with."""


class Lamp(
    CustomResource[GadgetSpec, GadgetStatus],
    group="test.konverge.dev",
    version="v1",
    phases=[
        Phase("Off", to=("Warming",)),
        Phase("Warming", to=("On",), timeout=60),
        Phase("On", to=("Off", "Broken"), state=State.DONE),
        Phase("Broken", to=("Off",), state=State.FAILING),
    ],
):
    """A thing with phases."""


Step = Callable[[Any, Context], Awaitable[Result]]


async def mirror(gadget: Any, ctx: Context) -> Result:
    """The usual reconcile: one ConfigMap that mirrors the spec."""
    await ctx.apply(ConfigMap, gadget.name, {"data": {"size": str(gadget.spec.size)}})
    gadget.status.size = gadget.spec.size
    return Result.done()


class GadgetReconciler(Reconciler[Gadget], owns=[ConfigMap], workers=4, timeout=30):
    """Reconciles as its `step` says, and counts."""

    def __init__(self, step: Step = mirror) -> None:
        self.step, self.calls = step, 0

    async def reconcile(self, obj: Gadget, ctx: Context, /) -> Result:
        self.calls += 1
        return await self.step(obj, ctx)


class LampReconciler(Reconciler[Lamp], owns=[ConfigMap]):
    """Reconciles as its `step` says."""

    def __init__(self, step: Step) -> None:
        self.step = step

    async def reconcile(self, obj: Lamp, ctx: Context, /) -> Result:
        return await self.step(obj, ctx)


async def nothing_left(gadget: Any, ctx: Context) -> Result:
    return Result.done()


class HeldReconciler(GadgetReconciler, owns=[ConfigMap, Secret]):
    """The same with a finalizer, whose step is `last`."""

    def __init__(self, step: Step = mirror, last: Step = nothing_left) -> None:
        super().__init__(step)
        self.last, self.finalized = last, 0

    async def finalize(self, obj: Gadget, ctx: Context, /) -> Result:
        self.finalized += 1
        return await self.last(obj, ctx)


@dataclass
class World:
    """A fake API server with one operator on it, in simulated time."""

    sim: Sim
    reconciler: Reconciler[Any]
    server: FakeApi | None = None
    api: FakeApi = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    workers: int | None = None
    blocked: list[str] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.api = self.server or FakeApi(clock=self.sim.clock, random=self.sim.random)
        self.resource = self.reconciler.resource().resource
        self.build()

    def build(self) -> None:
        """Make a fresh operator, as a restart does."""
        parts: dict[str, Any] = {"clock": self.sim.clock, "random": self.sim.random}
        self.stop = asyncio.Event()
        self.caches = Caches(self.api, **parts)
        self.recorder = EventRecorder(self.api, self.sim.clock, component="test", instance="one")
        metrics = self.metrics.controller(self.resource.kind.lower(), workers=1)
        self.controller = Controller(
            self.reconciler,
            api=self.api,
            caches=self.caches,
            recorder=self.recorder,
            metrics=metrics,
            workers=self.workers,
            **parts,
        )
        self.manager = Manager(
            caches=self.caches,
            controllers=[self.controller],
            recorder=self.recorder,
            block_writes=self.blocked.append,
        )

    def start(self) -> "World":
        self.task = self.sim.spawn(self.manager.run(self.stop), name="manager")
        return self

    def start_supervised(self) -> "World":
        """As a kubelet does: an operator that gives up, because its caches do not list in time, is started again."""

        async def supervise() -> None:
            while True:
                try:
                    return await self.manager.run(self.stop)
                except CacheNotSynced:
                    self.build()

        self.task = self.sim.spawn(supervise(), name="manager")
        return self

    async def shut_down(self) -> None:
        self.stop.set()
        await self.task

    async def restart(self) -> None:
        await self.shut_down()
        self.build()
        self.start()

    async def crash(self) -> None:
        """End without any order, as SIGKILL does."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def create(self, name: str = "one", size: int = 1, **metadata: Any) -> Object:
        body = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
            "spec": {"size": size},
        }
        return await self.api.client("person").create(self.resource, body, NAMESPACE)

    async def edit(self, name: str = "one", **spec: Any) -> Object:
        return await self.api.client("person").patch(self.resource, name, {"spec": spec}, NAMESPACE)

    def get(self, name: str = "one") -> Object | None:
        return self._find(self.resource, name)

    def child(self, name: str = "one") -> Object | None:
        return self._find(ConfigMap, name)

    def condition(self, condition_type: str = "Ready", name: str = "one") -> dict[str, Any]:
        """The condition, empty when it or the object is not there."""
        status = (self.get(name) or {}).get("status") or {}
        return dict(find(status.get("conditions") or [], condition_type) or {})

    def ready(self, name: str = "one") -> bool:
        obj = self.get(name)
        return (
            obj is not None
            and self.condition(name=name).get("status") == "True"
            and obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
        )

    def writes_of(self, name: str) -> list[Any]:
        """The writes of the operator to the objects of that name."""
        return [write for write in self.api.writes if write.name == name and write.user != "person"]

    def _find(self, resource: Any, name: str) -> Object | None:
        return next((obj for obj in self.api.objects(resource, NAMESPACE) if obj["metadata"]["name"] == name), None)
