"""Cases that broke other frameworks, played against the whole runtime by number; the parts have their own tests of them.

The operator, its caches and the API server are all here, in simulated time; what only a socket can show (14, 15, 17 and
the Retry-After of a PATCH) stands with the client and the host.
"""

import logging
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from konverge.election import LeaderElector
from konverge.errors import ApiError, ConnectionFailed, LeaseLost
from konverge.model.resource import ConfigMap, Deployment, Lease, Object, ResourceType, Secret
from konverge.ports import Scope, WatchEvent
from konverge.runtime.context import Context
from konverge.runtime.manager import Manager
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.testing.fake import FakeApi, gone
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, GadgetReconciler, HeldReconciler, World, mirror

IDLE = 620.0
"""The longest watch that is asked for, with the grace in which a silent one is given up."""


class Observed(FakeApi):
    """The fake API server, with each watch that is opened on gadgets: when, and from which version.

    `lists` are the calls that bring everything: a list, or with even seeds a watch with initial events.
    """

    def __init__(self, sim: Sim) -> None:
        super().__init__(clock=sim.clock, random=sim.random)
        self.opened: list[tuple[float, str]] = []
        self._from_the_start: list[float] = []
        self.server.gives_initial_events = sim.seed % 2 == 0

    def watch(self, resource: ResourceType, scope: Scope = Scope(), **options: Any) -> AsyncIterator[WatchEvent]:  # noqa: B008 - frozen
        if resource == Gadget.resource:
            now = self.server.clock.monotonic()
            if not options["initial_events"]:
                self.opened.append((now, options["resource_version"]))
            elif self.server.gives_initial_events:
                self._from_the_start.append(now)
        return super().watch(resource, scope, **options)

    @property
    def lists(self) -> list[float]:
        listed = [call.time for call in self.requests if call.verb == "list" and call.resource == Gadget.resource]
        return sorted(listed + self._from_the_start)


async def settled(sim: Sim, reconciler: Reconciler[Any] | None = None) -> tuple[World, Observed]:
    """An operator whose one gadget is ready and whose reflectors watch."""
    api = Observed(sim)
    world = World(sim, reconciler or GadgetReconciler(), api).start()
    await world.create()
    await sim.until(lambda: world.ready() and not red(world))
    return world, api


def red(world: World) -> list[str]:
    """What /readyz has to complain about."""
    return [name for name, problem in world.manager.health().items() if problem]


@pytest.mark.parametrize("on_connect", [False, True], ids=["in the stream", "on connect"])
@simulate(seeds=range(3))
async def test_a_410_means_one_list_after_a_wait_and_the_old_version_is_never_used_again(
    sim: Sim, on_connect: bool
) -> None:
    """Replay 1."""
    world, api = await settled(sim)
    await sim.clock.sleep(5)
    lists, watches, left = len(api.lists), len(api.opened), sim.time
    api.compact()
    api.end_watches(Gadget.resource, None if on_connect else gone("too old resource version: 5"))
    person = api.client("person")
    await person.delete(Gadget.resource, "one", NAMESPACE)  # while nobody watches: only the list can tell
    await world.create("two")
    await sim.until(lambda: world.ready("two") and len(world.caches.cache(Gadget.resource)) == 1)
    assert len(api.lists) == lists + 1
    assert api.lists[-1] - left >= 0.8
    before = {version for _, version in api.opened[: watches + on_connect]}
    assert before.isdisjoint({version for _, version in api.opened[watches + on_connect :]})


@pytest.mark.parametrize("status", [500, 401, 403])
@simulate()
async def test_a_watch_that_fails_for_long_shows_in_readyz_and_resumes_by_itself(sim: Sim, status: int) -> None:
    """Replay 2."""
    world, api = await settled(sim)
    refusal = ApiError.of(status, "Because", "the server says no")
    api.faults.inject(refusal, verbs=["watch"], resource=Gadget.resource, times=12)
    api.end_watches(Gadget.resource, refusal)
    await sim.until(lambda: red(world) == [f"informer-{Gadget.resource}"])
    assert world.manager.health()[f"informer-{Gadget.resource}"] == f"{status} Because: the server says no"
    await world.edit(size=7)
    await sim.until(lambda: not red(world), within=900)
    await sim.until(lambda: (world.child() or {})["data"] == {"size": "7"})
    assert len(api.lists) == 1


@simulate(seeds=range(3))
async def test_a_silent_stream_is_replaced_from_its_last_version_within_the_idle_timeout(sim: Sim) -> None:
    """Replay 3."""
    world, api = await settled(sim)
    version = world.caches.cache(Gadget.resource).list()[0]["metadata"]["resourceVersion"]
    assert api.silence_watches(Gadget.resource) == 1
    silent_since, watches = sim.time, len(api.opened)
    await world.edit(size=7)
    await sim.until(lambda: len(api.opened) > watches, within=IDLE)
    reopened, at = api.opened[-1]
    assert int(at) >= int(version)
    assert reopened - silent_since <= IDLE
    await sim.until(lambda: (world.child() or {})["data"] == {"size": "7"})
    assert len(api.lists) == 1


@simulate(seeds=range(5))
async def test_removing_our_finalizer_never_brings_back_another_s(sim: Sim) -> None:
    """Replay 4: both are there when the object is read; the other one goes before our patch."""
    seen: list[tuple[str, ...]] = []

    async def last(gadget: Any, ctx: Context) -> Result:
        theirs = [f for f in gadget.raw["metadata"]["finalizers"] if f != "else.where/job"]
        await person.patch(Gadget.resource, gadget.name, {"metadata": {"finalizers": theirs}}, NAMESPACE)
        return Result.done()

    world, api = await settled(sim, HeldReconciler(last=last))
    person = api.client("person")
    ours = (world.get() or {})["metadata"]["finalizers"]
    await person.patch(Gadget.resource, "one", {"metadata": {"finalizers": ["else.where/job", *ours]}}, NAMESPACE)
    api.admission.append(
        lambda verb, resource, new, old: (
            seen.append(tuple(new["metadata"].get("finalizers") or ())) if resource == Gadget.resource else None
        )
    )
    await person.delete(Gadget.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None)
    assert seen == [tuple(ours), ()]  # theirs went, ours went, and nothing came back


@pytest.mark.parametrize("status", [409, 422])
@simulate()
async def test_a_finalizer_whose_object_goes_between_two_tries_is_no_error(sim: Sim, status: int) -> None:
    """Replay 4: the patch is refused, and at the reread the object is gone."""

    async def last(gadget: Any, ctx: Context) -> Result:
        world.api.faults.inject(ApiError.of(status, "Busy", "no"), verbs=["patch"], resource=Gadget.resource)
        sim.spawn(vanish())
        return Result.done()

    async def vanish() -> None:
        await world.api.client("person").patch(Gadget.resource, "one", {"metadata": {"finalizers": None}}, NAMESPACE)

    world, api = await settled(sim, HeldReconciler(last=last))
    api.faults.latency = (0.2, 0.2)
    await api.client("person").delete(Gadget.resource, "one", NAMESPACE)
    await sim.until(lambda: world.get() is None)
    await sim.clock.sleep(60)
    errors = world.metrics.registry.get_sample_value
    assert errors("controller_runtime_reconcile_errors_total", {"controller": "gadget"}) == 0


@simulate(seeds=range(5))
async def test_a_child_is_made_once_though_its_event_is_late(sim: Sim) -> None:
    """Replay 5. Children have names of their own, never generated ones, and what a write returned is read at once."""

    class Keeper(Reconciler[Gadget], owns=[Secret, ConfigMap]):
        async def reconcile(self, obj: Gadget, ctx: Context, /) -> Result:
            if not ctx.children(Secret):
                await ctx.create_once(
                    Secret, f"{obj.name}-password", {"stringData": {"at": str(ctx.clock.monotonic())}}
                )
            await ctx.apply(ConfigMap, obj.name, {"data": {"size": str(obj.spec.size)}})
            return Result.done()

    api = Observed(sim)
    api.faults.watch_delay = (30.0, 60.0)
    world = World(sim, Keeper(), api).start()
    await world.create()
    for size in range(2, 8):
        await sim.clock.sleep(3)
        await world.edit(size=size)
    await sim.until(lambda: (world.child() or {}).get("data") == {"size": "7"}, within=900)
    created = [call for call in api.requests if call.verb == "create" and call.resource == Secret]
    assert len(created) == 1
    assert len(api.objects(Secret)) == 1


@simulate()
async def test_values_that_the_server_rewrites_cause_no_second_write(sim: Sim) -> None:
    """Replay 6: cpu "1000m" comes back as "1", and an empty value of an environment variable not at all."""

    class Runner(Reconciler[Gadget], owns=[Deployment]):
        async def reconcile(self, obj: Gadget, ctx: Context, /) -> Result:
            main = {"name": "main", "env": [{"name": "EMPTY", "value": ""}], "resources": {"limits": {"cpu": "1000m"}}}
            template = {"spec": {"containers": [main]}}
            await ctx.apply(Deployment, obj.name, {"spec": {"replicas": obj.spec.size, "template": template}})
            return Result.done()

    def normalise(verb: str, resource: ResourceType, new: dict[str, Any], old: Object | None) -> None:
        if resource == Deployment:
            (main,) = new["spec"]["template"]["spec"]["containers"]
            main["resources"]["limits"]["cpu"] = "1"
            main["env"] = [{"name": "EMPTY"}]

    api = Observed(sim)
    api.admission.append(normalise)
    world = World(sim, Runner(), api).start()
    await world.create()
    await sim.until(world.ready)
    applied = [call for call in api.writes if call.verb == "apply"]
    assert len(applied) == 1
    person = api.client("person")
    for step in range(3):  # reconciles that have no reason to write
        await person.patch(Gadget.resource, "one", {"metadata": {"labels": {"step": str(step)}}}, NAMESPACE)
        await sim.clock.sleep(10)
    await world.restart()
    await sim.clock.sleep(600)
    assert [call for call in api.writes if call.verb == "apply"] == applied
    await world.edit(size=3)
    await sim.until(lambda: api.objects(Deployment)[0]["spec"]["replicas"] == 3)


@simulate(seeds=range(3))
async def test_a_status_that_conflicts_again_and_again_is_retried_within_bounds_and_quietly(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    """Replay 7: another writer bumps the object at each of our tries."""
    caplog.set_level(logging.INFO)
    refused: list[float] = []

    def another_writer(verb: str, resource: ResourceType, new: dict[str, Any], old: Object | None) -> None:
        ours = (
            resource == Gadget.resource and old is not None and "status" in new and old["metadata"] == new["metadata"]
        )
        if ours and len(refused) < 6:
            refused.append(sim.time)
            raise ApiError.of(409, "Conflict", "the object has been modified")

    api = Observed(sim)
    api.admission.append(another_writer)
    world = World(sim, GadgetReconciler(), api).start()
    await world.create()
    await sim.until(world.ready)
    assert len(refused) == 6
    waited = [later - earlier for earlier, later in pairwise(refused)]
    assert min(waited) > 0  # the work queue's limiter, where the writer gave up after four
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def elected(world: World, identity: str) -> LeaderElector:
    """Let a real election decide over this operator, which is not started yet."""
    sim = world.sim
    elector = LeaderElector(
        world.api, name="main", namespace=NAMESPACE, identity=identity, clock=sim.clock, random=sim.random
    )
    world.manager = Manager(
        caches=world.caches,
        controllers=[world.controller],
        recorder=world.recorder,
        block_writes=world.blocked.append,
        elector=elector,
    )
    return elector


@simulate(seeds=range(3))
async def test_renewals_that_fail_for_long_block_writes_cancel_work_and_end_the_operator(sim: Sim) -> None:
    """Replay 8."""
    cancelled: list[float] = []

    async def long_step(gadget: Any, ctx: Context) -> Result:
        try:
            await sim.clock.sleep(60)
        except BaseException:
            assert world.blocked, "writes must be blocked before anything is cancelled"
            cancelled.append(sim.time)
            raise
        return await mirror(gadget, ctx)

    class Patient(GadgetReconciler, owns=[ConfigMap], timeout=120):
        pass

    world = World(sim, Patient(long_step), Observed(sim))
    elected(world, "one")
    await world.create()
    running = world.manager.run(world.stop)

    async def cut_off() -> float:
        await sim.clock.sleep(20)
        world.api.faults.inject(ConnectionFailed("refused"), resource=Lease, times=1000)
        return sim.time

    failing = sim.spawn(cut_off())
    with pytest.raises(LeaseLost):  # the command ends with another code than 0
        await running
    assert len(cancelled) == 1
    assert cancelled[0] - await failing <= 10
    assert world.child() is None
    (lease,) = world.api.objects(Lease)
    assert lease["spec"]["holderIdentity"] == "one"  # not given back: it runs out by itself


@simulate(seeds=range(3))
async def test_a_standby_that_never_led_stops_without_having_acted(sim: Sim) -> None:
    """Replay 9."""
    reconciler = GadgetReconciler()
    world = World(sim, reconciler, Observed(sim))
    leader = LeaderElector(
        world.api.client("other"),
        name="main",
        namespace=NAMESPACE,
        identity="other",
        clock=sim.clock,
        random=sim.random,
    )
    await leader.acquire()
    holding = sim.spawn(leader.hold())
    elected(world, "standby")
    await world.create()
    world.start()
    await sim.clock.sleep(300)
    assert len(world.caches.cache(Gadget.resource)) == 1  # warm
    await world.shut_down()
    assert [write for write in world.api.writes if write.user == "client"] == []
    assert reconciler.calls == 0
    holding.cancel()


@simulate()
async def test_one_bad_object_in_a_list_or_an_event_harms_no_other_and_is_told_once(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    """Replay 10."""
    world = World(sim, GadgetReconciler(), Observed(sim))
    await world.create("listed-bad", size="two")  # type: ignore[arg-type]
    await world.create("listed-good")
    world.start()
    await sim.until(lambda: world.ready("listed-good"))
    await world.create("seen-bad", size="two")  # type: ignore[arg-type]
    await world.create("seen-good")
    await sim.until(lambda: world.ready("seen-good"))
    for bad in ("listed-bad", "seen-bad"):
        await sim.until(lambda bad=bad: world.condition("Stalled", bad).get("status") == "True")  # type: ignore[misc]
    await sim.clock.sleep(3600)
    told = [record.getMessage() for record in caplog.records if "set aside" in record.getMessage()]
    assert len(told) == 2
    await world.edit("listed-good", size=9)  # the stream goes on beyond the bad one
    await sim.until(lambda: (world.child("listed-good") or {})["data"] == {"size": "9"})


@simulate(seeds=range(3))
async def test_a_crd_that_goes_and_comes_back_is_followed_with_few_words(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    """Replay 11."""
    world, api = await settled(sim)
    deleted: list[str] = []
    world.caches.cache(Gadget.resource).subscribe(
        lambda change: deleted.append(change.key.name) if change.new is None else None
    )
    caplog.clear()
    lists, start = len(api.lists), sim.time
    api.uninstall(Gadget.resource)
    await sim.clock.sleep(60)
    assert deleted == ["one"]
    tried = api.lists[lists:]
    assert 3 <= len(tried) <= 8
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    api.install(Gadget.resource)
    await world.create("again")
    await sim.until(lambda: world.ready("again") and not red(world), within=120)
    assert sim.time - start < 60 + 120


@simulate()
async def test_a_throttled_list_waits_as_asked_and_the_stream_lives(sim: Sim) -> None:
    """Replay 12: five times Retry-After 3; for a PATCH the client itself waits."""
    api = Observed(sim)
    slow = ApiError.of(429, "TooManyRequests", "slow down", retry_after=3.0)
    api.faults.inject(slow, verbs=["list", "watch"], resource=Gadget.resource, times=5)
    world = World(sim, GadgetReconciler(), api)
    await world.create()
    world.start()
    await sim.until(world.ready)
    assert len(api.lists) == 6
    assert min(later - earlier for earlier, later in pairwise(api.lists)) >= 3 - 1e-6
    api.faults.inject(slow, verbs=["patch"], resource=Gadget.resource, times=5)
    watches = len(api.opened)
    await world.edit(size=5)
    await sim.until(lambda: world.ready() and (world.get() or {})["status"]["size"] == 5, within=30)
    assert len(api.opened) == watches


@simulate(seeds=range(3))
async def test_a_server_that_refuses_connections_then_permissions_is_waited_for(sim: Sim) -> None:
    """Replay 13."""
    world, api = await settled(sim)
    start, calls = sim.time, len(api.requests)
    api.faults.partition()
    api.end_watches(error=ConnectionFailed("connection reset by peer"))
    await sim.clock.sleep(30)
    api.faults.heal()
    api.faults.inject(ApiError.of(403, "Forbidden", "the authorizer is starting"), verbs=["watch"], times=3)
    made = len([call for call in api.requests[calls:] if call.resource == Gadget.resource])
    assert made <= 6  # no hot loop: the waits double
    await world.edit(size=4)
    await sim.until(lambda: not red(world) and (world.child() or {})["data"] == {"size": "4"}, within=300)
    assert sim.time - start < 300


@simulate(seeds=range(3))
async def test_a_backlog_is_worked_off_under_constant_load_and_a_stop_waits_for_no_getter(sim: Sim) -> None:
    """Replay 16: old objects come in at low priority while people keep editing others."""

    async def slow_mirror(gadget: Any, ctx: Context) -> Result:
        await sim.clock.sleep(0.1)
        return await mirror(gadget, ctx)

    class Single(GadgetReconciler, owns=[ConfigMap], workers=1):
        pass

    world = World(sim, Single(slow_mirror), Observed(sim))
    for number in range(30):
        await world.create(f"old-{number}")
    await world.create("busy")
    world.start()

    async def edit_for_ever() -> None:
        size = 0
        while True:
            size += 1
            await world.edit("busy", size=size)
            await sim.clock.sleep(0.1)

    editing = sim.spawn(edit_for_ever())
    await sim.until(lambda: all(world.ready(f"old-{number}") for number in range(30)), within=90)
    editing.cancel()
    await sim.clock.sleep(10)
    asked = sim.time
    await world.shut_down()  # its only worker waits in get()
    assert sim.time - asked < 1
