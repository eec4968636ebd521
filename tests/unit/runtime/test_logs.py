"""What a real reconcile logs, as a collector gets it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from konverge.host.logs import LogOptions, configure_logging
from konverge.runtime.context import Context
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, World


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """A stream to log to; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_every_line_of_a_reconcile_carries_controller_object_and_reconcile_id(out: io.StringIO) -> None:
    async def step(gadget: Any, ctx: Context) -> Result:
        ctx.log.info("looking", extra={"size": gadget.spec.size})
        raise ValueError("no route")

    @simulate()
    async def scenario(sim: Sim) -> None:
        world = World(sim, GadgetReconciler(step))
        await world.create(size=3)
        world.start()
        await sim.until(lambda: out.getvalue().count("looking") >= 2)

    configure_logging(LogOptions(format="json"), out)
    scenario(seed=0)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    ours = [record for record in records if record["logger"] == "konverge.runtime.controller"]
    first, failed, second, *_ = ours
    assert {key: value for key, value in first.items() if key not in {"timestamp", "reconcileID"}} == {
        "level": "info",
        "logger": "konverge.runtime.controller",
        "message": "looking",
        "controller": "gadget",
        "object": "default/one",
        "size": 3,
    }
    assert failed["message"] == "reconcile failed: no route"
    assert failed["exception"].endswith("ValueError: no route")
    assert first["reconcileID"] == failed["reconcileID"] != second["reconcileID"]
    assert all(record["controller"] == "gadget" and record["object"] == "default/one" for record in ours)
