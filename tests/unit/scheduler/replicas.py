"""Replicas that share the work, each with its own view of one fake API server, in simulated time."""

from collections.abc import Callable
from random import Random
from typing import Any

from konverge.app.sharing import SharedScheduler
from konverge.cache import Caches
from konverge.cache.informer import Informer
from konverge.election import Members
from konverge.errors import LeaseLost
from konverge.kube.gate import WriteGate
from konverge.model.resource import ConfigMap, Namespace, Node, Pod, ResourceType
from konverge.ports import Scope
from konverge.scheduler import ProfileConfig, Registry, Scheduler
from konverge.scheduler.sharing import Shared
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.fake_faults import WRITES
from konverge.testing.sim import Sim
from tests.unit.scheduler.clusters import NAME, Recorded

HOME = "system"
"""Where the leases and the register are."""
GROUP = "konverge-scheduler"


class Fenced:
    """A client whose writes pass a gate, as those of the real one do."""

    def __init__(self, api: FakeApi, gate: WriteGate) -> None:
        self._api, self._gate = api, gate

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name not in WRITES:
            return call

        async def write(resource: ResourceType, *args: Any, **options: Any) -> Any:
            self._gate.check(resource, name)
            return await call(resource, *args, **options)

        return write


class Replica:
    """One of them: caches, membership and scheduler, with a client of its own."""

    def __init__(
        self, sim: Sim, api: FakeApi, name: str, *, profile: ProfileConfig | None = None, faults: Faults | None = None
    ) -> None:
        self.sim, self.name = sim, name
        self.lost: Callable[[], object] = lambda: None
        """What happens when it has lost its lease, and ends."""
        self.api, gate = api.client(name, faults), WriteGate()
        client: Any = Fenced(self.api, gate)
        self.recorder = Recorded()
        self.caches = Caches(client, clock=sim.clock, random=sim.random)
        self.members = Members(
            client,
            group=GROUP,
            namespace=HOME,
            identity=name,
            clock=sim.clock,
            random=sim.random,
        )
        gate.fence(lambda: self.members.is_member)
        self.scheduler = Scheduler(
            client,
            self.caches.cache(Pod),
            self.caches.cache(Node),
            clock=sim.clock,
            random=Random(sim.random.random()),
            recorder=self.recorder,
            namespaces=self.caches.cache(Namespace),
            caches={each: self.caches.cache(each) for each in Registry.default().reads},
            shared=Shared(self.members, HOME, GROUP),
        )
        self.members.on_change(self.scheduler.team_changed)
        self.scheduler.set_profile("policy", profile or ProfileConfig(NAME))
        scope = Scope(HOME, field_selector=f"metadata.name={GROUP}")
        register = Informer(client, ConfigMap, scope, clock=sim.clock, random=sim.random)
        register.subscribe(self.scheduler.on_register)
        self.shared = SharedScheduler(self.scheduler, self.members, self._synced, [register])

    def start(self) -> "Replica":
        """Begin."""
        self.caching = self.sim.spawn(self.caches.run())
        self.running = self.sim.spawn(self._live())
        return self

    async def _live(self) -> None:
        try:
            await self.shared.run()
        except LeaseLost:
            self.caching.cancel()
            self.lost()

    async def stop(self) -> None:
        """End in order."""
        self.running.cancel()
        await self.sim.until(self.running.done)
        self.caching.cancel()

    def kill(self) -> None:
        """End at once: nothing more that it does reaches the server."""
        self.api.faults.partition()
        self.running.cancel()
        self.caching.cancel()

    @property
    def bound(self) -> list[str]:
        """The names of the pods that it has bound."""
        return [write.name for write in self.api.writes if write.user == self.name and write.subresource == "binding"]

    async def _synced(self) -> None:
        await self.caches.wait_for_sync(600)
