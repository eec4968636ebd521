"""How often the scheduler's news wake a policy."""

from konverge.controllers.scheduling_policy.wakeups import Wakeups
from konverge.model.meta import Key
from konverge.testing.sim import Sim, simulate


async def follow(wakeups: Wakeups, sim: Sim, seen: list[tuple[str, float]]) -> None:
    async for key in wakeups.keys():
        assert key == Key("", key.name)
        seen.append((key.name, sim.time))


@simulate()
async def test_the_first_mention_wakes_at_once_and_the_next_ones_together_after_the_interval(sim: Sim) -> None:
    wakeups, seen = Wakeups(sim.clock, interval=5), list[tuple[str, float]]()
    sim.spawn(follow(wakeups, sim, seen))
    wakeups.mention("a")
    await sim.until(lambda: seen)
    for _ in range(100):
        wakeups.mention("a")
        wakeups.mention("b")
    await sim.clock.sleep(30)

    assert [name for name, _ in seen] == ["a", "a", "b"]
    assert seen[1][1] - seen[0][1] >= 5


@simulate()
async def test_after_a_quiet_time_it_wakes_at_once_again(sim: Sim) -> None:
    wakeups, seen = Wakeups(sim.clock, interval=5), list[tuple[str, float]]()
    sim.spawn(follow(wakeups, sim, seen))
    wakeups.mention("a")
    await sim.clock.sleep(60)
    mentioned = sim.time
    wakeups.mention("a")
    await sim.until(lambda: len(seen) == 2)

    assert seen[1][1] - mentioned < 1


@simulate()
async def test_what_is_mentioned_before_anybody_listens_is_not_lost(sim: Sim) -> None:
    wakeups, seen = Wakeups(sim.clock), list[tuple[str, float]]()
    wakeups.mention("early")
    sim.spawn(follow(wakeups, sim, seen))

    await sim.until(lambda: [name for name, _ in seen] == ["early"])
