"""An informer on a server with faults: whatever happened, once the faults stop, it holds what the server holds."""

from konverge.cache.informer import Informer
from konverge.cache.store import Change, strip_managed_fields
from konverge.errors import KonvergeError
from konverge.model.meta import Key, key_of
from konverge.model.resource import ConfigMap, Object
from konverge.ports import Scope
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import Sim, simulate


class Mirror:
    """What a subscriber knows who applies each change; complains when the changes do not fit together."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}

    def __call__(self, change: Change) -> None:
        assert change.old == self.objects.get(change.key)
        if change.new is None:
            del self.objects[change.key]
        else:
            self.objects[change.key] = change.new


async def change_something(sim: Sim, api: FakeApi, informer: Informer, number: int) -> None:
    """One write at random; its answer reaches the cache at once, late, or never."""
    name = f"c{sim.random.randrange(8)}"
    key = Key("ns", name)
    if sim.random.random() < 0.3:
        held = informer.store.get(key)
        await api.delete(ConfigMap, name, "ns")
        if held is not None and sim.random.random() < 0.5:
            informer.removed(held)
        return
    wrote = await api.apply(ConfigMap, name, {"data": {"n": str(number)}}, "ns", field_manager="test")
    fate = sim.random.random()
    if fate < 0.4:
        informer.wrote(wrote)
        assert int(informer.store.snapshot()[key]["metadata"]["resourceVersion"]) >= int(
            wrote["metadata"]["resourceVersion"]
        )
    elif fate < 0.7:
        sim.spawn(later(sim, informer, wrote))


async def later(sim: Sim, informer: Informer, wrote: Object) -> None:
    await sim.clock.sleep(sim.random.uniform(0, 20))
    informer.wrote(wrote)


@simulate(seeds=range(25))
async def test_the_cache_converges_once_the_faults_stop(sim: Sim) -> None:
    server = FakeApi(clock=sim.clock, random=sim.random)
    unreliable = server.client("reader", Faults.rough(sim.random, 0.2))
    informer = Informer(unreliable, ConfigMap, Scope("ns"), clock=sim.clock, random=sim.random)
    mirror, failed = Mirror(), []

    def subscriber(change: Change) -> None:
        try:
            mirror(change)
        except (AssertionError, KeyError) as error:  # the informer would only log it
            failed.append((change, error))

    informer.subscribe(subscriber)
    sim.spawn(informer.run())
    for number in range(150):
        try:
            await change_something(sim, server, informer, number)
        except KonvergeError:
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
