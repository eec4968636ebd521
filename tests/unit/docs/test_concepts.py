"""The page of concepts: its table of outcomes is what the framework does."""

import re
from pathlib import Path
from typing import Any

import pytest

from konverge.errors import RetryAfter, Terminal
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, World

PAGE = Path(__file__).parents[3] / "docs" / "concepts.md"
ROW = re.compile(r"^\| `((?:return|raise) [^`]*)`[^|]*\| (\w+) \| (\S+) \| (\S+) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())


def acting(statement: str) -> Any:
    """A reconcile of that one statement, which counts its calls."""
    names = {"Result": Result, "RetryAfter": RetryAfter, "Terminal": Terminal}
    exec(f"def act():\n    {statement}", names)

    async def step(gadget: Any, ctx: Context) -> Result:
        step.calls += 1  # type: ignore[attr-defined]
        result: Result = names["act"]()
        return result

    step.calls = 0  # type: ignore[attr-defined]
    return step


def test_the_table_has_every_way_to_end_a_reconcile() -> None:
    assert [row[0].split("(")[0] for row in ROWS] == [
        "return Result.done",
        "return Result.after",
        "return Result.waiting",
        "raise RetryAfter",
        "raise ValueError",
        "raise Terminal",
    ]


@pytest.mark.parametrize(("statement", "ready", "reconciling", "stalled", "back"), ROWS)
@simulate()
async def test_each_row_is_what_the_status_says(
    sim: Sim, statement: str, ready: str, reconciling: str, stalled: str, back: str
) -> None:
    step = acting(statement)
    world = World(sim, GadgetReconciler(step)).start()
    await world.create()
    await sim.until(lambda: world.condition("Ready"))
    await sim.clock.sleep(0.001)
    assert [world.condition(name).get("status", "-") for name in ("Ready", "Reconciling", "Stalled")] == [
        ready,
        reconciling,
        stalled,
    ]
    before = step.calls
    await sim.clock.sleep(3600)
    if seconds := re.match(r"after (\d+) s", back):
        assert step.calls - before == pytest.approx(3600 / int(seconds[1]), rel=0.05)
    elif back == "after a growing delay":
        assert 5 < step.calls - before < 25
    else:
        assert step.calls == before
        assert back == "when something changes"
