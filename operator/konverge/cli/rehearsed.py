"""What came of a rehearsal, for a person: the result flows in, tables and sentences flow out."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from konverge.cli.text import size, table
from konverge.scheduler.rehearsal import Outcome, Rehearsal, Usage
from konverge.scheduler.resources import CPU, MEMORY, STORAGE


def told_of_rehearsal(result: Rehearsal, compare: str | None = None) -> Iterator[RenderableType]:
    """The sections. `compare` names the scheduler whose pods were tried again."""
    if not result.outcomes:
        yield Text("No pod waits for these policies.")
        return
    yield table(("POD", "POLICY", "NODE", "WHY NONE"), [_row(outcome) for outcome in result.outcomes])
    placed = sum(bool(outcome.node) for outcome in result.outcomes)
    yield Text(
        f"\n{len(result.outcomes)} pods tried: {placed} placed, {len(result.outcomes) - placed} not", style="bold"
    )
    if result.reasons:
        yield _indented(("PODS", "REASON"), [(count, reason) for reason, count in result.reasons])
    if result.evictions:
        yield Text("\nWould be evicted", style="bold")
        rows = [(each.pod, each.priority, each.node, each.preemptor) for each in result.evictions]
        yield _indented(("POD", "PRIORITY", "NODE", "FOR"), rows)
    yield Text("\nRequested of all nodes", style="bold")
    rows_of_usage = [_usage(usage) for usage in result.usage]
    yield _indented(("RESOURCE", "ALLOCATABLE", "BEFORE", "AFTER"), rows_of_usage)
    yield Text(f"  {result.nodes} nodes, with pods: {result.nodes_before} before, {result.nodes_after} after")
    if compare:
        yield from _comparison(result.outcomes, compare)


def _comparison(outcomes: Sequence[Outcome], compare: str) -> Iterator[RenderableType]:
    tried = [outcome for outcome in outcomes if outcome.before]
    elsewhere = [outcome for outcome in tried if outcome.node != outcome.before]
    yield Text(f"\nOf {len(tried)} pods that {compare} placed {len(elsewhere)} would go elsewhere", style="bold")
    if elsewhere:
        yield _indented(("POD", "NOW", "THEN"), [(each.pod, each.before, each.node or "-") for each in elsewhere])


def _indented(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Padding:
    return Padding(table(columns, rows), (0, 0, 0, 2), expand=False)


def _row(outcome: Outcome) -> tuple[str, str, str, str]:
    return outcome.pod, outcome.policy or "-", outcome.node or "-", outcome.message


def _usage(usage: Usage) -> tuple[str, str, str, str]:
    def part(amount: int) -> str:
        return f"{_amount(usage.resource, amount)} ({amount / usage.allocatable:.0%})"

    return usage.resource, _amount(usage.resource, usage.allocatable), part(usage.before), part(usage.after)


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount / 1000:g}"
    return size(amount) if resource in {MEMORY, STORAGE} or resource.startswith("hugepages-") else str(amount)
