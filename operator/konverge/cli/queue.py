"""`konverge queue`: what a running operator has still to do, as rows: each key, where it is, and for how long."""

from typing import Any

import click
from rich.table import Table

from konverge.cli.endpoint import DebugEndpoint, endpoint_options
from konverge.cli.text import console, duration, table

COLUMNS = ("CONTROLLER", "KEY", "STATE", "PRIORITY", "FAILURES")


@click.command()
@click.argument("controller", default="")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Keys of each state.")
@endpoint_options
def queue(controller: str, limit: int, **endpoint: Any) -> None:
    """Show what is processing, ready and delayed in the work queues, or in that of CONTROLLER."""
    queues = DebugEndpoint(**endpoint).json(f"queues?controller={controller}&limit={limit}")["queues"]
    out = console()
    rows = rows_of(queues)
    if rows:
        out.print(rendered(queues))
    for each in queues:
        out.print(summary(each))


def summary(each: dict[str, Any]) -> str:
    """One line on a queue: how many keys of each state."""
    return (
        f"{each['controller']}: {each['processingTotal']} of {each['workers']} workers busy, "
        f"{each['depth']} ready, {each['delayedTotal']} delayed"
    )


def rendered(queues: list[dict[str, Any]]) -> Table:
    """The keys as a table."""
    return table(COLUMNS, rows_of(queues))


def rows_of(queues: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row a key: those under work first, then those that are ready in their order, then those that wait."""
    rows: list[tuple[str, ...]] = []
    for each in queues:
        states = (
            *((entry, f"processing for {duration(entry['seconds'])}") for entry in each["processing"]),
            *((entry, "ready") for entry in each["ready"]),
            *((entry, f"delayed, due in {duration(entry['dueIn'])}") for entry in each["delayed"]),
        )
        rows += [
            (each["controller"], entry["key"], state, str(entry.get("priority", "")), str(entry["failures"]))
            for entry, state in states
        ]
    return rows
