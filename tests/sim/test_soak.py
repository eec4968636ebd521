"""The runner of many seeds: it takes each seed through each scenario, and a failure can be replayed from what it says."""

import logging
from collections.abc import Iterator

import pytest

from konverge.testing.sim import Sim, simulate
from tests.sim import soak


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@simulate()
async def fails_with_7(sim: Sim) -> None:
    assert sim.seed != 7


def test_every_seed_goes_through_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, int]] = []
    scenarios = {name: lambda seed, name=name: seen.append((name, seed)) for name in ("one", "two")}
    assert soak.main(["--seeds", "150", "--start", "10"], scenarios) == 0
    assert seen == [(name, seed) for seed in range(10, 160) for name in ("one", "two")]
    assert "seeds 10-109: 0 failures" in capsys.readouterr().out


def test_a_failure_names_its_seed_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--seeds", "5", "--start", "5"], {"sevens": fails_with_7}) == 1
    told = capsys.readouterr().out
    assert "python -m tests.sim.soak --only sevens --start 7 --seeds 1" in told
    assert told.rstrip().endswith("5 seeds of sevens: FAILED sevens:7")


def test_all_simulations_are_there_and_run() -> None:
    assert soak.main(["--seeds", "1", "--start", "100000"]) == 0
