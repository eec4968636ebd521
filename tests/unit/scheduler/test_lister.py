"""What plugins read: what the server shows, what is assumed over it, and how changes of it are waited for."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from konverge.errors import SchedulingError
from konverge.model.resource import (
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    Service,
)
from konverge.scheduler.changes import Changes
from konverge.scheduler.events import ClusterEvent, read_events
from konverge.scheduler.handle import Index
from konverge.scheduler.registry import Registry
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.storage import Storage, claim, volume

V1, V2 = volume("v"), volume("v", "2Gi")
ASSUMED = {**V1, "spec": {**V1["spec"], "claimRef": {"name": "c"}}}


def test_what_is_assumed_is_read_until_the_server_shows_another_version() -> None:
    storage = Storage(V1, volume("w"))
    storage.lister.assume(PersistentVolume, ASSUMED)
    assert storage.lister.get(PersistentVolume, "v") is ASSUMED
    assert [each is ASSUMED for each in storage.lister.list(PersistentVolume)] == [True, False]
    storage.show(V2)
    assert storage.lister.get(PersistentVolume, "v") == V2
    assert ASSUMED not in storage.lister.list(PersistentVolume)


def test_an_assumption_is_forgotten_by_who_made_it_only() -> None:
    storage = Storage(V1)
    theirs = {**ASSUMED}
    storage.lister.assume(PersistentVolume, ASSUMED)
    storage.lister.assume(PersistentVolume, theirs)
    storage.lister.forget(PersistentVolume, ASSUMED)
    assert storage.lister.get(PersistentVolume, "v") is theirs
    storage.lister.forget(PersistentVolume, theirs)
    assert storage.lister.get(PersistentVolume, "v") == V1


def test_what_is_gone_is_not_read_though_it_is_assumed() -> None:
    storage = Storage(V1)
    storage.lister.assume(PersistentVolume, ASSUMED)
    storage.caches[PersistentVolume].removed(V1)
    assert storage.lister.get(PersistentVolume, "v") is None
    assert storage.lister.list(PersistentVolume) == []


def test_a_write_is_read_at_once() -> None:
    storage = Storage(V1)
    storage.lister.assume(PersistentVolume, ASSUMED)
    storage.lister.wrote(PersistentVolume, V2)
    assert storage.lister.get(PersistentVolume, "v") == V2


BY_CLASS = Index("class", lambda obj: (obj["spec"]["storageClassName"],))


def test_objects_are_found_by_what_an_index_says_of_them_with_what_is_assumed() -> None:
    storage = Storage(V1, volume("w", storage="other"))
    assert storage.lister.by_index(PersistentVolume, BY_CLASS, "late") == [V1]
    storage.lister.assume(PersistentVolume, ASSUMED)
    storage.show(volume("x"))
    found = storage.lister.by_index(PersistentVolume, BY_CLASS, "late")
    assert [each["metadata"]["name"] for each in found] == ["v", "x"]
    assert found[0] is ASSUMED


def test_the_version_changes_with_whatever_is_read() -> None:
    storage = Storage(V1, claim("one"))
    lister = storage.lister
    seen = [lister.version(PersistentVolume)]
    steps: list[Callable[[], None]] = [
        partial(storage.show, V2),
        partial(lister.assume, PersistentVolume, V2),
        partial(lister.forget, PersistentVolume, V2),
        partial(storage.caches[PersistentVolume].removed, V2),
    ]
    for change in steps:
        change()
        seen.append(lister.version(PersistentVolume))
    assert len(set(seen)) == len(seen)
    storage.show(claim("two"))
    lister.forget(PersistentVolume, V2)
    assert lister.version(PersistentVolume) == seen[-1]


def test_it_tells_which_objects_changed_since_a_version() -> None:
    storage = Storage(V1, volume("w"))
    lister = storage.lister
    since = lister.version(PersistentVolume)
    assert lister.changed(PersistentVolume, since) == []
    assert lister.changed(PersistentVolume, -1) is None
    lister.assume(PersistentVolume, ASSUMED)
    lister.forget(PersistentVolume, ASSUMED)
    storage.show(volume("x"))
    changed = lister.changed(PersistentVolume, since)
    assert changed is not None
    assert sorted(key.name for key in changed) == ["v", "x"]


def test_few_objects_among_many_assumed_ones_read_as_assumed() -> None:
    volumes = [volume(f"v{index}", storage=f"class{index}") for index in range(4)]
    storage = Storage(*volumes)
    assumed = [{**each, "spec": {**each["spec"], "claimRef": {"name": "c"}}} for each in volumes[:3]]
    for each in assumed:
        storage.lister.assume(PersistentVolume, each)
    assert list(storage.lister.by_index(PersistentVolume, BY_CLASS, "class1")) == [assumed[1]]
    assert list(storage.lister.by_index(PersistentVolume, BY_CLASS, "class3")) == [volumes[3]]


def test_objects_of_a_namespace_are_found_there() -> None:
    storage = Storage(claim("one"))
    assert storage.lister.get(PersistentVolumeClaim, "one", "default") is not None
    assert storage.lister.get(PersistentVolumeClaim, "one", "other") is None
    assert storage.lister.list(PersistentVolumeClaim, "other") == []


def test_a_resource_that_no_plugin_names_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SchedulingError, match="no cache of configmaps; a plugin that reads it names it in `reads`"):
        Storage().lister.get(ConfigMap, "x", "default")


# Changes


@simulate()
async def test_who_waits_looks_again_at_each_change(sim: Sim) -> None:
    changes, seen = Changes(sim.clock), 0
    waiting = sim.spawn(changes.until(lambda: seen >= 2, 60))
    for _ in range(2):
        await asyncio.sleep(1)
        assert not waiting.done()
        seen += 1
        changes.notify()
    assert await waiting


@simulate()
async def test_who_waits_too_long_is_told(sim: Sim) -> None:
    started = sim.clock.monotonic()
    assert not await Changes(sim.clock).until(lambda: False, 60)
    assert sim.clock.monotonic() - started >= 60


@simulate()
async def test_what_holds_already_is_not_waited_for(sim: Sim) -> None:
    started = sim.clock.monotonic()
    assert await Changes(sim.clock).until(lambda: True, 60)
    assert sim.clock.monotonic() == started


@simulate()
async def test_what_a_check_raises_ends_the_wait(sim: Sim) -> None:
    def check() -> bool:
        raise SchedulingError("gone")

    with pytest.raises(SchedulingError, match="gone"):
        await Changes(sim.clock).until(check, 60)


# Events


def test_the_change_of_an_object_that_plugins_read_is_an_event_of_its_own() -> None:
    assert read_events(PersistentVolume, None, V1) == (ClusterEvent.VOLUME_CHANGED,)
    assert read_events(PodDisruptionBudget, V1, None) == (ClusterEvent.BUDGET_CHANGED,)
    assert read_events(ConfigMap, None, V1) == (ClusterEvent.OTHER_CHANGED,)


def test_the_status_of_a_workload_is_no_news() -> None:
    old, new = ({"spec": {"selector": {}}, "status": {"replicas": count}} for count in (1, 2))
    assert read_events(ReplicaSet, old, new) == ()
    assert read_events(Service, old, {**new, "spec": {}}) == (ClusterEvent.WORKLOAD_CHANGED,)
    assert read_events(Service, old, None) == (ClusterEvent.WORKLOAD_CHANGED,)


def test_the_registry_knows_what_its_plugins_read() -> None:
    assert {PersistentVolumeClaim, PersistentVolume, Service} <= Registry.default().reads
    assert Registry().reads == frozenset()
