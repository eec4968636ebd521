"""The status under faults and a second writer: every write says something new, and nothing of what others said is lost."""

from collections.abc import Iterable, Mapping
from typing import Any

from konverge.errors import KonvergeError, RetryAfter
from konverge.model.conditions import find
from konverge.model.resource import Object
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.testing.fake import FakeApi, Faults, Request
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, GadgetReconciler, World, mirror

NAMES = ("a", "b", "c")
THEIRS = "Theirs"


async def moody(gadget: Any, ctx: Context) -> Result:
    """By its size, a gadget becomes ready, keeps waiting, or fails."""
    match gadget.spec.size % 3:
        case 0:
            return await mirror(gadget, ctx)
        case 1:
            return Result.waiting("Warming", "not yet", after=20)
    raise RetryAfter(15, "Broken", "not at all")


async def speak(person: FakeApi, name: str, text: str) -> None:
    """The second writer: sets a condition of its own as a careful one does."""
    read = await person.get(Gadget.resource, name, NAMESPACE)
    listed = (read.get("status") or {}).get("conditions") or []
    said = {
        "type": THEIRS,
        "status": "True",
        "reason": "Said",
        "message": text,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {
        "metadata": {"resourceVersion": read["metadata"]["resourceVersion"]},
        "status": {"conditions": [*(c for c in listed if c["type"] != THEIRS), said]},
    }
    await person.patch(Gadget.resource, name, patch, NAMESPACE, subresource="status")


def conditions(obj: Object) -> list[dict[str, Any]]:
    return list((obj.get("status") or {}).get("conditions") or [])


class Audit:
    """Follows one object through all writes that were executed, and complains of those that should not have been."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.before: Object = {}
        self.sizes: dict[int, int] = {}

    def follow(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if request.resource != Gadget.resource or request.name != self.name or request.object is None:
                continue
            if request.verb != "get" and request.executed:
                if request.user != "person":
                    self._judge(request, request.object)
                self.before = request.object
                self.sizes[request.object["metadata"]["generation"]] = request.object["spec"]["size"]

    def _judge(self, request: Request, after: Object) -> None:
        assert request.changed, f"a write that changes nothing: {request.body}"
        old, new = conditions(self.before), conditions(after)
        assert find(old, THEIRS) == find(new, THEIRS)
        assert len({condition["type"] for condition in new}) == len(new)
        for condition in new:
            self._judge_time(find(old, condition["type"]), condition)
        status = after["status"]
        if (find(new, "Ready") or {})["status"] == "True":
            assert status["size"] == self.sizes[status["observedGeneration"]]

    def _judge_time(self, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> None:
        if old is not None and old["status"] == new["status"]:
            assert old["lastTransitionTime"] == new["lastTransitionTime"]
        elif old is not None:
            assert old["lastTransitionTime"] <= new["lastTransitionTime"]


@simulate(seeds=range(12))
async def test_each_status_write_is_news_and_keeps_what_others_wrote(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random))
    api.server.gives_initial_events = sim.seed % 2 == 0  # else lists in pages
    world = World(sim, GadgetReconciler(moody), api).start_supervised()
    person, draw = api.client("person"), sim.random
    for name in NAMES:
        await world.create(name, size=draw.randrange(9))
    for step in range(80):
        name = draw.choice(NAMES)
        try:
            if draw.random() < 0.5:
                await world.edit(name, size=draw.randrange(9))
            else:
                await speak(person, name, f"step {step}")
        except KonvergeError:  # the operator wrote in between
            continue
        await sim.clock.sleep(draw.choice([0.01, 0.1, 5]))
    api.faults.stop()
    api.end_watches()
    for name in NAMES:
        await world.edit(name, size=9)
    await sim.until(lambda: all(world.ready(name) for name in NAMES), within=1500)
    await sim.clock.sleep(60)
    written = len(api.writes)
    await world.restart()
    await sim.clock.sleep(3600)
    assert len(api.writes) == written
    for name in NAMES:
        Audit(name).follow(api.requests)
