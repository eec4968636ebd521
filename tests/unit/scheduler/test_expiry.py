"""A bind that the watch does not show for as long as an assumption stands: the server is asked before the room is given away."""

import asyncio

from konverge.errors import ConnectionFailed
from konverge.model.resource import Pod
from konverge.scheduler.attempts import ASSUMED_FOR
from konverge.scheduler.expiry import CHECK
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import Running, binds, node, pod, running
from tests.unit.scheduler.weather import Referee


async def bound_unseen(sim: Sim) -> Running:
    """A node for one pod: `first` is bound to it, which no watch of pods will ever show, and `second` waits for its room."""
    api = FakeApi(clock=sim.clock, random=sim.random)
    Referee(api.client("referee")).start(sim)
    cluster = await running(sim, node("n1", cpu="1"), api=api)
    api.faults.latency = (8.0, 8.0)
    await cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
    await sim.until(lambda: cluster.scheduler.stats("policy").unschedulable == 1)
    cluster.caching.cancel()
    assert await cluster.placed("first") == ["n1"]
    return cluster


@simulate()
async def test_the_room_of_a_pod_that_runs_is_not_given_away(sim: Sim) -> None:
    cluster = await bound_unseen(sim)
    await asyncio.sleep(ASSUMED_FOR + 4 * CHECK)
    assert not cluster.at("second")
    assert [request.name for request in cluster.api.requests if request.verb == "get"] == ["first"]
    assert [request.name for request in binds(cluster)] == ["first"]


@simulate()
async def test_while_the_server_does_not_answer_the_room_stays_taken(sim: Sim) -> None:
    cluster = await bound_unseen(sim)
    cluster.api.faults.inject(ConnectionFailed("reset"), verbs=["get"], times=3)
    await asyncio.sleep(ASSUMED_FOR + 8 * CHECK)
    assert not cluster.at("second")
    assert len([request for request in cluster.api.requests if request.verb == "get"]) == 4


@simulate()
async def test_the_room_of_a_pod_that_is_gone_is_given_to_another(sim: Sim) -> None:
    cluster = await bound_unseen(sim)
    await cluster.api.client("author").delete(Pod, "first", "default")
    await sim.until(lambda: cluster.at("second"), within=ASSUMED_FOR + 4 * CHECK)


@simulate()
async def test_a_pod_made_anew_under_the_name_is_another(sim: Sim) -> None:
    cluster = await bound_unseen(sim)
    await cluster.api.client("author").delete(Pod, "first", "default")
    await cluster.create(pod("first", cpu="1", scheduler="another"))
    await sim.until(lambda: cluster.at("second"), within=ASSUMED_FOR + 4 * CHECK)
