"""How the commands that look into an operator write: plain aligned tables, durations and sizes for people."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE: Final = 240
"""Columns where nobody's terminal limits them: piped output must not be cut at 80."""


def console() -> Console:
    """Standard output."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(width=WIDE, highlight=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Rows under headings, as `kubectl get` aligns them. What came from the cluster is never read as markup."""
    result = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        result.add_row(*(Text(str(cell)) for cell in row))
    return result


def duration(seconds: float | None) -> str:
    """`850ms`, `3.2s`, `4m10s`, `2h5m`, `3d4h`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m"
    return f"{hours // 24}d{hours % 24}h"


def size(count: float) -> str:
    """`512 B`, `12 KiB`, `3.4 MiB`, `5.6 GiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    if count < 1024**2:
        return f"{count / 1024:.0f} KiB"
    if count < 1024**3:
        return f"{count / 1024**2:.1f} MiB"
    return f"{count / 1024**3:.1f} GiB"
