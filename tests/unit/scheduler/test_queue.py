"""The queue: who is tried next, who waits, and what ends the wait."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from konverge.scheduler.events import ClusterEvent, PodChange
from konverge.scheduler.framework import QueuedPod
from konverge.scheduler.hints import Hints
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.queue import Place, SchedulingQueue
from konverge.scheduler.stats import NullObserver
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import pod


def info(name: str, **options: Any) -> PodInfo:
    return PodInfo(pod(name, **options))


def priority_first(queued: QueuedPod) -> tuple[Any, ...]:
    return (-queued.pod.priority, queued.since)


def queue_of(
    sim: Sim,
    *pods: PodInfo,
    helps: Callable[[str, ClusterEvent], bool] = lambda _plugin, _event: True,
    entered: Callable[[str, str], None] = lambda _place, _event: None,
) -> SchedulingQueue:
    def events(plugin: str) -> frozenset[ClusterEvent]:
        return frozenset(event for event in ClusterEvent if helps(plugin, event))

    hints = Hints(events, lambda _pod: None, NullObserver(), sim.clock.monotonic)
    queue = SchedulingQueue(sim.clock, priority_first, hints, entered)
    for each in pods:
        queue.put(each)
    return queue


def sizes(queue: SchedulingQueue) -> tuple[int, int, int]:
    return (queue.sizes[Place.ACTIVE], queue.sizes[Place.BACKOFF], queue.sizes[Place.UNSCHEDULABLE])


@simulate()
async def test_priority_decides_then_time(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b", priority=9))
    await asyncio.sleep(1)
    queue.put(info("c"))
    queue.put(info("d", priority=9))
    assert [(await queue.pop()).pod.name for _ in range(4)] == ["b", "d", "a", "c"]


@simulate()
async def test_pop_waits_for_a_pod(sim: Sim) -> None:
    queue = queue_of(sim)
    popped = sim.spawn(queue.pop())
    await asyncio.sleep(5)
    assert not popped.done()
    queue.put(info("a"))
    assert (await popped).pod.name == "a"


@simulate()
async def test_a_pop_that_is_cancelled_loses_nothing(sim: Sim) -> None:
    queue = queue_of(sim)
    popped = asyncio.ensure_future(queue.pop())
    await asyncio.sleep(1)
    popped.cancel()
    await asyncio.wait([popped])
    queue.put(info("a"))
    assert (await queue.pop()).pod.name == "a"


@simulate()
async def test_failures_back_off_from_one_second_doubling_to_ten(sim: Sim) -> None:
    """The second in which the backoff ends has to pass, as with kube-scheduler."""
    queue = queue_of(sim, info("a"))
    waiting, waits = await queue.pop(), []
    for _ in range(6):
        queue.return_failed(waiting)
        started = sim.time
        waiting = await queue.pop()
        waits.append(round(sim.time - started, 3))
    assert waits == [2, 3, 5, 9, 11, 11]


@simulate()
async def test_an_event_that_may_help_wakes_a_pod_and_another_does_not(sim: Sim) -> None:
    def helps(plugin: str, event: ClusterEvent) -> bool:
        return (plugin, event) == ("Fit", ClusterEvent.POD_GONE)

    queue = queue_of(sim, info("fit"), info("taint"), helps=helps)
    for plugins in (["Fit", "Other"], ["Taint"]):
        queue.return_unschedulable(await queue.pop(), plugins)
    await asyncio.sleep(2)
    queue.notify([ClusterEvent.NODE_ADDED])
    assert sizes(queue) == (0, 0, 2)
    queue.notify([ClusterEvent.NODE_ADDED, ClusterEvent.POD_GONE])
    assert sizes(queue) == (1, 0, 1)
    assert (await queue.pop()).pod.name == "fit"


@simulate()
async def test_a_pod_that_nobody_knows_how_to_help_is_woken_by_anything(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), helps=lambda _plugin, _event: False)
    queue.return_unschedulable(await queue.pop(), [])
    await asyncio.sleep(2)
    queue.notify([ClusterEvent.NODE_LABEL])
    assert sizes(queue) == (1, 0, 0)


@simulate()
async def test_an_event_does_not_cut_the_backoff_short_while_others_are_to_be_tried(sim: Sim) -> None:
    queue = queue_of(sim, info("a", priority=9))
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    queue.notify([ClusterEvent.NODE_ADDED])
    for name in ("b", "c"):
        queue.put(info(name))
    assert sizes(queue) == (2, 1, 0)
    assert (await queue.pop()).pod.name == "b"
    await asyncio.sleep(2)
    assert (await queue.pop()).pod.name == "a"


# Early from backoff


@simulate()
async def test_when_nothing_else_is_to_be_tried_a_pod_in_backoff_is(sim: Sim) -> None:
    entered: list[tuple[str, str]] = []
    queue = queue_of(sim, entered=lambda place, event: entered.append((place, event)))
    queue.put(info("a"))
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    popped = sim.spawn(queue.pop())
    await asyncio.sleep(0.25)
    assert not popped.done()
    queue.notify([ClusterEvent.NODE_ADDED])
    assert (await popped).pod.name == "a"
    assert (sim.time, sizes(queue)) == (0.25, (0, 0, 0))
    assert entered[-2:] == [("backoff", "NodeAdded"), ("active", "PopFromBackoffQ")]


@simulate()
async def test_a_pod_that_failed_for_an_error_is_not_taken_early(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    failed, rejected = await queue.pop(), await queue.pop()
    queue.return_failed(failed)
    queue.return_unschedulable(rejected, ["Fit"])
    queue.notify([ClusterEvent.NODE_ADDED])
    assert sizes(queue) == (0, 2, 0)
    assert (await queue.pop()).pod.name == "b"
    assert sizes(queue) == (0, 1, 0)
    assert ((await queue.pop()).pod.name, sim.time) == ("a", 2)


@simulate()
async def test_a_pod_about_which_nobody_knows_what_could_help_is_not_taken_early(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    queue.return_unschedulable(await queue.pop(), [])
    queue.notify([ClusterEvent.NODE_ADDED])
    await queue.pop()
    assert sim.time == 2


@simulate()
async def test_the_first_to_be_taken_early_is_whose_backoff_ends_first_and_within_a_second_who_goes_first(
    sim: Sim,
) -> None:
    queue = queue_of(sim, info("twice"))
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    queue.notify([ClusterEvent.NODE_ADDED])
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    for name, priority in (("first", 1), ("later", 9)):
        queue.put(info(name, priority=priority))
        queue.return_unschedulable(await queue.pop(), ["Fit"])
        await asyncio.sleep(0.3)
    queue.notify([ClusterEvent.NODE_ADDED])
    assert sizes(queue) == (0, 3, 0)
    assert [queue.ahead(name) for name in ("later", "first", "twice")] == [0, 1, 2]
    assert [(await queue.pop()).pod.name for _ in range(3)] == ["later", "first", "twice"]


@simulate()
async def test_all_pods_whose_backoff_ends_in_the_same_second_come_back_together_in_their_order(sim: Sim) -> None:
    queue = queue_of(sim)
    for name, priority in (("low", 1), ("high", 9)):
        queue.put(info(name, priority=priority))
        queue.return_failed(await queue.pop())
        await asyncio.sleep(0.4)
    assert [((await queue.pop()).pod.name, sim.time) for _ in range(2)] == [("high", 2), ("low", 2)]


@simulate()
async def test_errors_and_rejections_are_counted_apart_for_the_backoff(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    waits = []
    for error in (True, True, False, True, False):
        waiting = await queue.pop()
        if error:
            queue.return_failed(waiting)
        else:
            queue.return_unschedulable(waiting, ["Fit"])
        waits.append(waiting.retry_at - sim.time - 1)
        queue.retry_now(lambda _: True)
    assert waits == [1, 2, 1, 1, 2]
    assert (await queue.pop()).failures == 5


@simulate()
async def test_an_edited_pod_in_backoff_and_another_order_change_who_is_taken_early(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    for waiting in [await queue.pop() for _ in range(2)]:
        queue.return_unschedulable(waiting, ["Fit"])
    queue.notify([ClusterEvent.NODE_ADDED])
    queue.put(info("b", priority=5))
    assert [queue.ahead("a"), queue.ahead("b"), sizes(queue)] == [1, 0, (0, 2, 0)]
    queue.sort_by(lambda queued: (queued.pod.name,))
    assert [(await queue.pop()).pod.name for _ in range(2)] == ["a", "b"]
    assert sizes(queue) == (0, 0, 0)


# What happens while a pod is under way


@simulate()
async def test_what_happened_while_a_pod_was_under_way_sends_it_to_backoff(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"), helps=lambda plugin, event: event is ClusterEvent.POD_GONE)
    a, b = await queue.pop(), await queue.pop()
    queue.notify([ClusterEvent.NODE_ADDED])
    queue.return_unschedulable(a, ["Fit"])
    assert sizes(queue) == (0, 0, 1)
    queue.notify([ClusterEvent.POD_GONE])
    queue.return_unschedulable(b, ["Fit"])
    assert sizes(queue) == (0, 2, 0)


@simulate()
async def test_a_pod_that_gives_its_own_node_back_does_not_help_itself(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    a, b = await queue.pop(), await queue.pop()
    queue.notify([ClusterEvent.POD_GONE], PodChange(a.pod, None))
    queue.return_unschedulable(a, ["Fit"])
    assert sizes(queue) == (0, 0, 1)
    queue.return_unschedulable(b, ["Fit"])
    assert sizes(queue) == (0, 1, 1)


@simulate()
async def test_of_several_events_those_of_others_count_though_the_last_is_its_own(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    waiting = await queue.pop()
    queue.notify([ClusterEvent.POD_GONE], PodChange(info("b"), None))
    for _ in range(2):
        queue.notify([ClusterEvent.POD_GONE], PodChange(waiting.pod, None))
    queue.return_unschedulable(waiting, ["Fit"])
    assert sizes(queue) == (0, 1, 0)


@pytest.mark.parametrize(
    "happens",
    [lambda queue: queue.put(info("a", cpu="1")), lambda queue: queue.retry_now(lambda _pod: True)],
    ids=["an edit", "a new profile"],
)
@simulate()
async def test_a_pod_that_changed_while_it_was_under_way_backs_off(
    sim: Sim, happens: Callable[[SchedulingQueue], None]
) -> None:
    queue = queue_of(sim, info("a"))
    waiting = await queue.pop()
    happens(queue)
    queue.return_unschedulable(waiting, ["Fit"])
    assert sizes(queue) == (0, 1, 0)
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    assert sizes(queue) == (0, 0, 1)


@simulate()
async def test_after_five_minutes_an_unschedulable_pod_is_tried_anyway(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    for _ in range(2):
        queue.return_unschedulable(await queue.pop(), ["Fit"])
        await asyncio.sleep(10)
    assert [((await queue.pop()).pod.name, round(sim.time)) for _ in range(2)] == [("a", 300), ("b", 310)]


@simulate()
async def test_a_version_that_asks_the_same_wakes_nothing_and_one_that_asks_less_does(sim: Sim) -> None:
    queue = queue_of(sim, info("a", cpu="2"))
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    await asyncio.sleep(2)
    queue.put(info("a", cpu="2", status={"phase": "Pending"}))
    assert sizes(queue) == (0, 0, 1)
    queue.put(info("a", cpu="1"))
    assert sizes(queue) == (1, 0, 0)
    assert (await queue.pop()).pod.requests.amounts == {"cpu": 1000}


@simulate()
async def test_an_active_pod_that_changes_is_sorted_anew(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    queue.put(info("b", priority=5))
    assert [(await queue.pop()).pod.name for _ in range(2)] == ["b", "a"]


@simulate()
async def test_a_changed_pod_in_backoff_stays_there(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    queue.return_failed(await queue.pop())
    queue.put(info("a", cpu="1"))
    assert sizes(queue) == (0, 1, 0)


@simulate()
async def test_a_pod_that_is_handed_out_is_not_handed_out_twice(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    waiting = await queue.pop()
    queue.put(info("a", cpu="1"))
    queue.notify([ClusterEvent.NODE_ADDED])
    queue.retry_now(lambda _: True)
    assert sizes(queue) == (0, 0, 0)
    assert "a" in queue
    assert waiting.pod.requests.amounts == {"cpu": 1000}


@simulate()
async def test_a_discarded_pod_is_gone_wherever_it_was(sim: Sim) -> None:
    queue = queue_of(sim, info("backoff"), info("stuck"), info("out"), info("active"))
    queue.return_failed(await queue.pop())
    queue.return_unschedulable(await queue.pop(), [])
    await queue.pop()
    assert sizes(queue) == (1, 1, 1)
    for name in ("active", "out", "backoff", "stuck", "unknown"):
        queue.discard(name)
    assert (len(queue), sizes(queue)) == (0, (0, 0, 0))
    await asyncio.sleep(1000)
    queue.put(info("next"))
    assert (await queue.pop()).pod.name == "next"


@simulate()
async def test_a_pod_that_left_while_it_was_tried_does_not_come_back(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"))
    first, second = await queue.pop(), await queue.pop()
    queue.discard("a")
    queue.put(info("a"))  # another pod under the same uid cannot be, but a profile that was removed and set again can
    queue.discard("b")
    queue.return_failed(first)
    queue.return_unschedulable(second, ["Fit"])
    assert sizes(queue) == (1, 0, 0)


@simulate()
async def test_retry_now_ends_every_wait_of_the_pods_it_picks(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"), info("c"))
    queue.return_failed(await queue.pop())
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    queue.return_failed(await queue.pop())
    queue.retry_now(lambda each: each.name != "c")
    assert sizes(queue) == (2, 1, 0)


@simulate()
async def test_another_order_holds_for_the_pods_that_wait_already(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b"), info("c"))
    queue.sort_by(lambda queued: (-ord(queued.pod.name),))
    assert [(await queue.pop()).pod.name for _ in range(3)] == ["c", "b", "a"]


@simulate()
async def test_discard_all_takes_out_the_pods_it_picks(sim: Sim) -> None:
    queue = queue_of(sim, info("a"), info("b", scheduler="other"))
    queue.discard_all(lambda each: each.scheduler_name == "other")
    assert len(queue) == 1


# While room is made for a pod


async def held(sim: Sim) -> SchedulingQueue:
    """A queue with one pod, which fits nowhere and for which the scheduler is making room."""
    queue = queue_of(sim, info("a"))
    queue.return_unschedulable(await queue.pop(), ["Fit"])
    queue.hold("a")
    await asyncio.sleep(5)
    return queue


@pytest.mark.parametrize(
    "happens",
    [
        lambda queue: queue.notify([ClusterEvent.POD_GONE]),
        lambda queue: queue.retry_now(lambda _pod: True),
        lambda queue: queue.activate(["a"]),
        lambda queue: queue.put(info("a", cpu="1")),
    ],
    ids=["an event", "a new profile", "a plugin", "an edit"],
)
@simulate()
async def test_what_may_help_a_held_pod_is_made_up_for_when_it_is_released(
    sim: Sim, happens: Callable[[SchedulingQueue], None]
) -> None:
    queue = await held(sim)
    happens(queue)
    assert sizes(queue) == (0, 0, 1)
    queue.release("a", retry=False)
    assert sizes(queue) == (1, 0, 0)


@simulate()
async def test_a_held_pod_for_which_nothing_happened_waits_on(sim: Sim) -> None:
    queue = await held(sim)
    queue.release("a", retry=False)
    assert sizes(queue) == (0, 0, 1)
    queue.notify([ClusterEvent.POD_GONE])
    assert sizes(queue) == (1, 0, 0)


@simulate()
async def test_a_pod_for_which_no_room_could_be_made_is_tried_again(sim: Sim) -> None:
    queue = await held(sim)
    queue.release("a", retry=True)
    assert sizes(queue) == (1, 0, 0)


@simulate()
async def test_a_held_pod_is_not_tried_though_it_waited_long(sim: Sim) -> None:
    queue = await held(sim)
    popped = sim.spawn(queue.pop())
    queue.put(info("b"))
    assert (await popped).pod.name == "b"
    assert sizes(queue) == (0, 0, 1)


@simulate()
async def test_pods_that_left_are_held_and_released_in_vain(sim: Sim) -> None:
    queue = await held(sim)
    queue.discard("a")
    queue.hold("a")
    queue.release("a", retry=True)
    queue.retry("a", "x")
    assert len(queue) == 0


# Nominations


def nominee(name: str, node_name: str, **options: Any) -> PodInfo:
    return info(name, status={"nominatedNodeName": node_name} if node_name else None, **options)


@simulate()
async def test_a_nomination_is_read_off_the_pod_and_follows_its_changes(sim: Sim) -> None:
    queue = queue_of(sim, nominee("a", "n1"))
    seen = [queue.nominations.node_of("a")]
    for node_name in ("n2", "", "n3"):
        queue.put(nominee("a", node_name))
        seen.append(queue.nominations.node_of("a"))
    queue.discard("a")
    assert [*seen, queue.nominations.node_of("a")] == ["n1", "n2", "", "n3", ""]


@simulate()
async def test_a_nomination_that_the_status_does_not_show_yet_holds(sim: Sim) -> None:
    queue = queue_of(sim, nominee("a", ""))
    queue.nominations.put(info("a"), "n1")
    queue.put(nominee("a", "", priority=3))
    assert queue.nominations.node_of("a") == "n1"
    assert [other.priority for other in queue.nominations.lower_than(info("x", priority=9), "n1")] == [3]


@simulate()
async def test_a_pod_that_has_a_node_is_nominated_no_longer(sim: Sim) -> None:
    queue = queue_of(sim, info("a"))
    await queue.pop()
    queue.put(nominee("a", "n1"))
    assert not queue.nominations


def test_only_other_pods_of_no_lower_priority_are_to_be_left_room() -> None:
    nominations = Nominations()
    for name, priority in (("low", 1), ("same", 5), ("high", 9), ("me", 5)):
        nominations.put(info(name, priority=priority), "n1")
    nominations.put(info("elsewhere", priority=1), "n2")
    beside = nominations.beside(info("me", priority=5))
    assert {node: [each.name for each in pods] for node, pods in beside.items()} == {"n1": ["same", "high"]}
    assert [each.name for each in nominations.lower_than(info("me", priority=5), "n1")] == ["low"]
