"""How the commands that look into an operator write: plain aligned tables, durations and sizes for people."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE: Final = 240
"""Columns where nobody's terminal limits them: piped output must not be cut at 80."""


class _Trimmed:
    """Standard output without the blanks with which a table fills its lines up. Whole lines are written at once."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        sys.stdout.flush()


def console() -> Console:
    """Standard output; in a pipe wide, and without blanks at the ends of lines."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(file=cast(IO[str], _Trimmed()), width=WIDE, highlight=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Rows under headings, as `kubectl get` aligns them. What came from the cluster is never read as markup."""
    result = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        result.add_row(*(Text(str(cell)) for cell in row))
    return result


def field(label: str, value: str, style: str = "") -> Table:
    """A value behind its label; further lines of it, and what does not fit on one, stand below its beginning."""
    result = Table.grid()
    result.add_column(width=15, no_wrap=True)
    result.add_row(Text(f"  {label}:"), Text(value, style=style))
    return result


class Once:
    """Texts of several lines, each told in full the first time only: then its first line stands for it."""

    def __init__(self) -> None:
        self._told: list[str] = []

    def __call__(self, text: str) -> str:
        """`text`, cut to its first line where all of it was told before."""
        if any(text in told for told in self._told):
            return text.partition("\n")[0]
        self._told.append(text)
        return text


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
