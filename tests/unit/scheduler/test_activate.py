"""What a plugin can do for pods that wait: have them tried at once, in another pod's place in the line."""

from konverge.scheduler.hints import Hints
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import Place, SchedulingQueue, Waiting
from konverge.scheduler.stats import NullObserver
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import pod


def queue_of(sim: Sim) -> SchedulingQueue:
    """A queue by time of arrival, in which no event helps anybody."""
    hints = Hints(lambda _plugin: frozenset(), lambda _pod: None, NullObserver(), sim.clock.monotonic)
    return SchedulingQueue(sim.clock, lambda queued: (queued.since,), hints)


async def tried(queue: SchedulingQueue, *names: str) -> list[Waiting]:
    """Take these pods out, one after the other."""
    found = [await queue.pop() for _ in names]
    assert [waiting.pod.name for waiting in found] == list(names)
    return found


@simulate()
async def test_pods_are_tried_at_once_wherever_they_wait(sim: Sim) -> None:
    queue = queue_of(sim)
    for name in ("a", "b", "c"):
        queue.put(PodInfo(pod(name)))
    a, b, _ = await tried(queue, "a", "b", "c")
    queue.return_unschedulable(a, ["Fit"])
    queue.return_failed(b)
    queue.activate(["a", "b", "c", "unknown"])
    assert queue.sizes[Place.ACTIVE] == 2
    start = sim.clock.monotonic()
    await tried(queue, "a", "b")
    assert sim.clock.monotonic() == start


@simulate()
async def test_beside_another_they_take_its_place_in_the_line(sim: Sim) -> None:
    """Those that came between, or at the same moment, are passed over."""
    queue = queue_of(sim)
    for name in ("first", "x"):
        queue.put(PodInfo(pod(name)))
    await sim.clock.sleep(1)
    for name in ("y", "second", "z", "third"):
        queue.put(PodInfo(pod(name)))
    await tried(queue, "first")
    queue.activate(["second", "third"], beside="first")
    await tried(queue, "second", "third", "x", "y", "z")


@simulate()
async def test_those_who_stand_before_it_keep_their_place(sim: Sim) -> None:
    queue = queue_of(sim)
    queue.put(PodInfo(pod("earlier")))
    queue.put(PodInfo(pod("early")))
    await sim.clock.sleep(1)
    queue.put(PodInfo(pod("late")))
    queue.activate(["early"], beside="late")
    await tried(queue, "earlier", "early", "late")
