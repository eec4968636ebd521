"""Many runs into one table: medians for each peer, and each against one of them: controller-runtime at its best, where
operators are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final, Protocol

from harness.measure import Run
from harness.peers import CONTROLLER_RUNTIME

Rows = Sequence[tuple[str, str, str]]
"""The title of each row, the number that it shows, and how it is written."""


class Measured(Protocol):
    """A dataclass of numbers, measured of one peer."""

    @property
    def peer(self) -> str: ...


_ROWS: Final[Rows] = (
    ("resources/s", "resources_per_second", "{:.0f}"),
    ("all Ready, s", "all_ready_seconds", "{:.1f}"),
    ("first Ready, s", "first_ready_seconds", "{:.2f}"),
    ("CPU a resource, ms", "cpu_ms_per_resource", "{:.2f}"),
    ("... without the start, ms", "work_cpu_ms_per_resource", "{:.2f}"),
    ("API server's CPU a resource, ms", "apiserver_cpu_ms_per_resource", "{:.2f}"),
    ("requests a resource", "requests_per_resource", "{:.2f}"),
    ("edit to Ready, p50 ms", "edit_p50_ms", "{:.1f}"),
    ("edit to Ready, p99 ms", "edit_p99_ms", "{:.1f}"),
    ("requests an edit", "edit_requests", "{:.2f}"),
    ("idle CPU, % of a core", "idle_cpu_percent", "{:.2f}"),
    ("start, CPU s", "start_cpu_seconds", "{:.2f}"),
    ("memory at the start, MB", "start_mb", "{:.0f}"),
    ("memory, all cached, MB", "cached_mb", "{:.0f}"),
    ("memory a cached object, kB", "cached_kb_per_object", "{:.1f}"),
    ("peak memory, MB", "peak_mb", "{:.0f}"),
    ("CPU a resource after a restart, ms", "restart_cpu_ms_per_resource", "{:.2f}"),
)


def medians(runs: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """By peer, in the order in which they ran: the median of each number."""
    by_peer: dict[str, list[Any]] = {}
    for run in runs:
        by_peer.setdefault(run.peer, []).append(run)
    numbers = [name for each in by_peer.values() for name in asdict(each[0]) if name != "peer"]
    return {
        peer: {number: median(getattr(run, number) for run in of_peer) for number in numbers}
        for peer, of_peer in by_peer.items()
    }


def reference(by_peer: dict[str, dict[str, float]]) -> str | None:
    """The controller-runtime with the most resources a second; None where none took part."""
    entries = [peer for peer in by_peer if peer.partition(":")[0] == CONTROLLER_RUNTIME]
    return max(entries, key=lambda peer: by_peer[peer]["resources_per_second"], default=None)


def table(runs: Sequence[Run]) -> str:
    """A Markdown table: a row a number, a column a peer, with the ratio to controller-runtime in brackets."""
    by_peer = medians(runs)
    return rendered(by_peer, _ROWS, reference(by_peer))


def rendered(by_peer: Mapping[str, Mapping[str, float]], rows: Rows, base: str | None) -> str:
    """The same for any numbers; `base` is the peer that the ratios refer to."""
    lines = [["", *by_peer], ["---", *("---:" for _ in by_peer)]]
    for title, number, form in rows:
        cells = [title]
        for peer, values in by_peer.items():
            cell = form.format(values[number])
            if base is not None and peer != base and by_peer[base][number] > 0:
                cell += f" ({values[number] / by_peer[base][number]:.2f})"
            cells.append(cell)
        lines.append(cells)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def as_json(runs: Sequence[Run], setup: dict[str, Any]) -> dict[str, Any]:
    """Everything: the setup, each run, the medians and whom the ratios refer to."""
    by_peer = medians(runs)
    return {
        "setup": setup,
        "reference": reference(by_peer),
        "medians": by_peer,
        "runs": [asdict(run) for run in runs],
    }
