"""Many seeds of every simulation, beyond the few that each run of the tests takes.

    python -m tests.sim.soak --seeds 500 --start 1000

takes seeds 1000 to 1499 through each scenario. Seeds flow in; out flow a line for every hundred, each failure with the
seed and the call that replays it, and an exit code.
"""

import argparse
import functools
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.sim import test_election as elections
from tests.sim import test_runtime as runtimes
from tests.sim import test_status as statuses
from tests.unit.cache import test_convergence as convergence
from tests.unit.scheduler import test_gang_simulation as gangs
from tests.unit.scheduler import test_preemption_simulation as preemptions
from tests.unit.scheduler import test_sharing_simulation as sharing
from tests.unit.scheduler import test_simulation as schedulers
from tests.unit.scheduler.weather import WEATHERS, Scenario, once
from tests.unit.workqueue import test_queue as queues

Simulation = Callable[..., object]


def scheduling(scenario: Scenario) -> Simulation:
    """The scenario in one weather a seed: the next seed has the next one."""
    return lambda seed: once(scenario, WEATHERS[seed % len(WEATHERS)], seed)


SCENARIOS: Final[Mapping[str, Simulation]] = {
    "queue": queues.test_one_key_never_runs_twice_at_once_and_no_change_is_lost,
    "cache": convergence.test_the_cache_converges_once_the_faults_stop,
    "election-2": functools.partial(elections.test_never_two_act_at_once_and_somebody_leads_when_faults_end, count=2),
    "election-3": functools.partial(elections.test_never_two_act_at_once_and_somebody_leads_when_faults_end, count=3),
    "succession": elections.test_a_leader_that_dies_without_a_word_is_succeeded_within_its_duration,
    "status": statuses.test_each_status_write_is_news_and_keeps_what_others_wrote,
    "runtime": runtimes.test_it_converges_once_the_faults_stop_and_then_writes_nothing,
    "dependents": runtimes.test_dependents_come_to_exactly_what_is_desired_and_then_write_nothing,
    "crashes": runtimes.test_a_crash_between_any_two_writes_is_caught_up,
    "scheduler": scheduling(schedulers.pods_and_nodes),
    "preemption": scheduling(preemptions.priorities),
    "gangs-crowded": scheduling(gangs.little_room),
    "gangs": scheduling(gangs.room_for_all),
    "sharing": sharing.test_a_little_room_is_filled_exactly_by_both_at_once,
    "sharing-storm": sharing.test_replicas_come_and_die_in_rough_weather,
    "sharing-zones": sharing.test_zones_are_kept_apart_though_the_pods_are_placed_by_two,
    "sharing-gangs": sharing.test_a_gang_gives_way_as_a_whole,
}

PIECE: Final = 100


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def failures_of(seed: int, scenarios: Mapping[str, Simulation]) -> list[str]:
    """The names of the scenarios that fail with this seed, each reported as it does."""
    failed = []
    for name, scenario in scenarios.items():
        try:
            scenario(seed=seed)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding, and the other seeds go on
            failed.append(name)
            say(f"FAILED {name} with seed {seed}: python -m tests.sim.soak --only {name} --start {seed} --seeds 1")
            say(traceback.format_exc(limit=-3))
    return failed


def main(arguments: Sequence[str] | None = None, scenarios: Mapping[str, Simulation] = SCENARIOS) -> int:
    """Run as told; 0 when every seed passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--only", choices=sorted(scenarios), action="append", help="this scenario alone; may be repeated"
    )
    options = parser.parse_args(arguments)
    chosen = {name: scenario for name, scenario in scenarios.items() if not options.only or name in options.only}
    logging.disable(logging.CRITICAL)
    failed: list[str] = []
    end = options.start + options.seeds
    for first in range(options.start, end, PIECE):
        began = time.monotonic()
        piece = range(first, min(first + PIECE, end))
        found = [f"{name}:{seed}" for seed in piece for name in failures_of(seed, chosen)]
        failed += found
        say(f"seeds {piece.start}-{piece.stop - 1}: {len(found)} failures, {time.monotonic() - began:.0f} s")
    say(f"{options.seeds} seeds of {', '.join(chosen)}: {'all passed' if not failed else 'FAILED ' + ' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
