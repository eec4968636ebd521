"""Many seeds, every fault: never two that act at once, and somebody leads again after a leader is gone.

An elector acts from the return of acquire() until hold() raises, or until it stops and releases.
"""

import asyncio
from datetime import timedelta

import pytest

from konverge.election import JITTER, LeaderElector
from konverge.errors import LeaseLost
from konverge.testing.fake import FakeApi, Faults
from konverge.testing.sim import EPOCH, Sim, SimClock, simulate


class Replica:
    """A process that stands for election for ever; `acting` is what its leader-only work would be."""

    def __init__(self, sim: Sim, api: FakeApi, name: str, stage: "set[str]") -> None:
        self.sim, self.api, self.name, self.stage = sim, api, name, stage
        self.terms = 0
        # What its wall clock shows is wrong by up to an hour: no decision may hang on it.
        self.clock = SimClock(EPOCH + timedelta(seconds=sim.random.uniform(-3600, 3600)))

    async def run(self) -> None:
        while True:
            await self.term(self.sim.random.choice([5.0, 40.0, 1e6]))

    async def term(self, seconds: float) -> None:
        """One life: stand, lead for at most `seconds`, then stop cleanly."""
        elector = LeaderElector(
            self.api,
            name="main",
            namespace="default",
            identity=f"{self.name}-{self.terms}",
            clock=self.clock,
            random=self.sim.random,
        )
        await elector.acquire()
        self.terms += 1
        assert elector.is_leader
        assert not self.stage, f"{self.name} begins while {self.stage} acts, at {self.sim.time}"
        self.stage.add(self.name)
        try:
            async with asyncio.timeout(seconds):
                await elector.hold()
        except (LeaseLost, TimeoutError):
            self.stage.discard(self.name)
        except BaseException:
            self.stage.discard(self.name)
            raise
        await elector.release()


@pytest.mark.parametrize("count", [2, 3])
@simulate(seeds=range(20))
async def test_never_two_act_at_once_and_somebody_leads_when_faults_end(sim: Sim, count: int) -> None:
    stage: set[str] = set()
    server = FakeApi(clock=sim.clock, random=sim.random)
    rate = sim.random.choice([0.02, 0.15])  # at the second, few terms last
    clients = [server.client(f"replica-{n}", Faults.rough(sim.random, rate)) for n in range(count)]
    for client in clients:
        client.faults.latency = (0.001, sim.random.choice([0.1, 1.0, 3.0]))
    replicas = [Replica(sim, client, client.user, stage) for client in clients]
    tasks = [sim.spawn(replica.run(), name=replica.name) for replica in replicas]
    for _ in range(10):
        victim = sim.random.choice(clients)
        victim.faults.partition()
        await sim.clock.sleep(sim.random.uniform(1, 60))
        victim.faults.heal()
        await sim.clock.sleep(sim.random.uniform(1, 60))
    assert sum(replica.terms for replica in replicas) > 0  # one of them may last through it all
    for client in clients:
        client.faults.stop()
    await sim.until(lambda: len(stage) == 1, within=60)
    for task in tasks:
        task.cancel()


@simulate(seeds=range(20))
async def test_a_leader_that_dies_without_a_word_is_succeeded_within_its_duration(sim: Sim) -> None:
    stage: set[str] = set()
    server = FakeApi(clock=sim.clock, random=sim.random)
    server.faults.latency = (0.001, 0.5)
    first, second = Replica(sim, server, "first", stage), Replica(sim, server, "second", stage)
    leading = sim.spawn(first.term(1e6))
    await sim.until(lambda: stage == {"first"})
    waiting = sim.spawn(second.term(1e6))
    await sim.clock.sleep(sim.random.uniform(20, 60))
    assert stage == {"first"}
    leading.cancel()
    died = sim.time
    await sim.until(lambda: stage == {"second"}, within=60)
    look = 2.0 * (1 + JITTER) + 1.0  # the longest wait between two looks of a standby, with latency
    assert sim.time - died < 15 + 2 * look
    waiting.cancel()
