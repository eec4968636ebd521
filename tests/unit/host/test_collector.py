"""The garbage collector leaves alone what an operator holds for long."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from konverge.host import collector


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_it_looks_less_often() -> None:
    collector.relax()
    assert gc.get_threshold()[0] == collector.THRESHOLD


def test_what_is_there_is_never_looked_at_again() -> None:
    held = [{"metadata": {"name": "a"}}]
    assert any(each is held for each in gc.get_objects())
    collector.settle()
    assert not any(each is held for each in gc.get_objects())


def test_what_comes_later_is_still_collected() -> None:
    collector.settle()
    cycle: list[object] = []
    cycle.append(cycle)
    assert any(each is cycle for each in gc.get_objects())
    del cycle
    assert gc.collect() >= 1


def test_an_operator_without_a_scheduler_does_not_load_numpy() -> None:
    program = "import sys, konverge.cli.run; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
