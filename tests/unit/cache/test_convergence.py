"""An informer on a server with faults: whatever happened, once the faults stop, it holds what the server holds."""

import pytest

from konverge.cache import reflector
from konverge.cache.informer import Informer
from konverge.cache.store import Change, strip_managed_fields
from konverge.errors import NotFound
from konverge.model.meta import Key, is_newer, key_of, resource_version, uid_of
from konverge.model.resource import ConfigMap, Object
from konverge.ports import Scope
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate


class Mirror:
    """What a subscriber knows who applies each change; complains when they do not fit together or go back in time."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.deleted: set[str] = set()

    def __call__(self, change: Change) -> None:
        assert change.old == self.objects.get(change.key)
        if change.new is None:
            del self.objects[change.key]
            self.deleted.add(uid_of(change.old or {}))
            return
        assert uid_of(change.new) not in self.deleted
        if change.old is not None:
            assert is_newer(resource_version(change.new), resource_version(change.old))
        self.objects[change.key] = change.new


class Writer:
    """Writes at random; the answer reaches the cache at once, late, or never."""

    def __init__(self, sim: Sim, api: FakeApi, informer: Informer) -> None:
        self.sim, self.api, self.informer = sim, api, informer
        self.gone: dict[str, int] = {}
        """The version at which an object was no longer there, by its uid."""

    async def change_something(self, number: int) -> None:
        name = f"c{self.sim.random.randrange(8)}"
        if self.sim.random.random() < 0.3:
            await self.delete(name)
        else:
            await self.write(name, number)

    async def delete(self, name: str) -> None:
        held = self.informer.store.get(Key("ns", name))
        uid = uid_of(await self.api.get(ConfigMap, name, "ns"))
        await self.api.delete(ConfigMap, name, "ns")
        self.gone[uid] = self.api.server.version
        if held is not None and uid_of(held) == uid and self.sim.random.random() < 0.5:
            self.informer.removed(held)

    async def write(self, name: str, number: int) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"n": str(number)}, "metadata": {"name": name}}
        wrote = await self.api.apply(ConfigMap, name, body, "ns", field_manager="test")
        fate = self.sim.random.random()
        if fate < 0.4:
            self.informer.wrote(wrote)
            held = self.informer.store.snapshot()[key_of(wrote)]
            assert not is_newer(resource_version(wrote), resource_version(held))
        elif fate < 0.7:
            self.sim.spawn(self.tell_later(wrote))

    async def tell_later(self, wrote: Object) -> None:
        """What was gone by what the server has shown meanwhile must not come back."""
        await self.sim.clock.sleep(self.sim.random.uniform(0, 20))
        self.informer.wrote(wrote)
        held = self.informer.store.get(key_of(wrote))
        if self.gone.get(uid_of(wrote), 2**60) <= int(self.informer.resource_version or 0):
            assert held is None or uid_of(held) != uid_of(wrote)


@simulate(seeds=range(25))
async def test_the_cache_converges_once_the_faults_stop(sim: Sim) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reflector, "PAGE_SIZE", 3)  # of at most eight objects
        await converges(sim)


async def converges(sim: Sim) -> None:
    server = FakeApi(clock=sim.clock, random=sim.random)
    unreliable = server.client("reader", Faults.rough(sim.random, 0.2))
    informer = Informer(
        unreliable, ConfigMap, Scope("ns"), clock=sim.clock, random=sim.random, watch_list=sim.seed % 2 == 1
    )
    mirror, failed, writer = Mirror(), [], Writer(sim, server, informer)

    def subscriber(change: Change) -> None:
        try:
            mirror(change)
        except (AssertionError, KeyError) as error:  # the informer would only log it
            failed.append((change, error))

    informer.subscribe(subscriber)
    sim.spawn(informer.run())
    for number in range(150):
        try:
            await writer.change_something(number)
        except NotFound:
            await sim.clock.sleep(0.1)  # deleting what is not there
        if sim.random.random() < 0.03:
            server.compact()
        if sim.random.random() < 0.03:
            unreliable.end_watches(ConfigMap)
        await sim.clock.sleep(sim.random.choice([0, 0.1, 1, 5]))
    unreliable.faults.stop()

    def server_s() -> dict[Key, Object]:
        return {key_of(obj): strip_managed_fields(obj) for obj in server.objects(ConfigMap)}

    await sim.until(lambda: informer.store.snapshot() == server_s(), within=900)
    await sim.clock.sleep(900)
    assert informer.store.snapshot() == server_s()
    assert mirror.objects == server_s()
    assert not failed
    assert informer.health.healthy
