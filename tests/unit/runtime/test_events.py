"""Kubernetes events: one object for like ones, a limit for objects that talk too much, and never in anyone's way."""

from typing import Any

from konverge.errors import ConnectionFailed
from konverge.model.resource import ConfigMap, Event, Object
from konverge.runtime.events import BURST, PENDING, EventRecorder
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate


def about(name: str = "a", uid: str = "u-1", namespace: str | None = "default") -> Object:
    metadata: dict[str, Any] = {"name": name, "uid": uid}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def recorder(sim: Sim, api: FakeApi) -> EventRecorder:
    return EventRecorder(api, sim.clock, component="konverge", instance="pod-1")


@simulate()
async def test_an_event_says_what_happened_to_what(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    sim.spawn(record.run())
    record.event(about(), "Warning", "TooLarge", "at most 5")
    await record.flush()
    event = api.objects(Event)[0]
    assert event["regarding"] == {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "default", "uid": "u-1",
    }  # fmt: skip
    assert (event["type"], event["reason"], event["action"], event["note"]) == (
        "Warning", "TooLarge", "TooLarge", "at most 5",
    )  # fmt: skip
    assert event["reportingController"] == "konverge"


@simulate()
async def test_a_cluster_scoped_object_has_its_events_in_default(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    sim.spawn(record.run())
    record.event(about(namespace=None), "Normal", "Made", "", action="Create")
    await record.flush()
    event = api.objects(Event)[0]
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["regarding"]
    assert event["action"] == "Create"


@simulate()
async def test_like_ones_become_a_series_and_start_anew_after_ten_minutes(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    sim.spawn(record.run())
    for _ in range(3):
        record.event(about(), "Normal", "Made", "same")
        await sim.clock.sleep(100)
    await record.flush()
    assert [event["series"]["count"] for event in api.objects(Event)] == [3]
    await sim.clock.sleep(601)
    record.event(about(), "Normal", "Made", "same")
    await record.flush()
    assert len(api.objects(Event)) == 2


@simulate()
async def test_an_object_that_talks_too_much_is_limited_and_others_are_not(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    sim.spawn(record.run())
    for number in range(BURST + 10):
        record.event(about(), "Normal", "Made", f"message {number}")
    record.event(about("b", "u-2"), "Normal", "Made", "hello")
    await record.flush()
    assert len(api.objects(Event)) == BURST + 1
    assert record.dropped == 10
    await sim.clock.sleep(301)
    record.event(about(), "Normal", "Made", "one more")
    record.event(about(), "Normal", "Made", "and one too many")
    await record.flush()
    assert len(api.objects(Event)) == BURST + 2


@simulate()
async def test_a_series_whose_event_expired_starts_anew(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    sim.spawn(record.run())
    record.event(about(), "Normal", "Made", "x")
    await record.flush()
    await api.delete(Event, api.objects(Event)[0]["metadata"]["name"], "default")
    for _ in range(2):
        record.event(about(), "Normal", "Made", "x")
        await record.flush()
    assert len(api.objects(Event)) == 1


@simulate()
async def test_a_server_that_is_away_costs_events_and_nothing_else(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    api.faults.inject(ConnectionFailed("away"), verbs=["create"], resource=Event)
    record = recorder(sim, api)
    sim.spawn(record.run())
    record.event(about(), "Normal", "Lost", "x")
    record.event(about(), "Normal", "Kept", "x")
    await record.flush()
    assert [event["reason"] for event in api.objects(Event)] == ["Kept"]
    assert record.dropped == 1


@simulate()
async def test_what_waits_is_bounded_and_the_oldest_goes(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    record = recorder(sim, api)
    for number in range(PENDING + 5):
        record.event(about(uid=f"u-{number}"), "Normal", "Made", str(number))
    sim.spawn(record.run())
    await record.flush()
    notes = {event["note"] for event in api.objects(Event)}
    assert len(notes) == PENDING
    assert "4" not in notes
    assert str(PENDING + 4) in notes
    assert api.objects(ConfigMap) == []
