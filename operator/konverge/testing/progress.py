"""How far something long has come: in, counts and texts; out, one rewritten line on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

_INTERVAL = 15.0


class Progress:
    """Shows `prefix: elapsed, text`. On a terminal each call rewrites the line, elsewhere every 15 s prints one."""

    def __init__(
        self, prefix: str, *, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._prefix, self._monotonic = prefix, monotonic
        self._stream = sys.stderr if stream is None else stream
        self._started = monotonic()
        self._last: float | None = None
        self._width = 0

    @property
    def elapsed(self) -> float:
        """Seconds since this began."""
        return self._monotonic() - self._started

    def show(self, text: str) -> None:
        """Say how far it is; cheap to call often."""
        now = self._monotonic()
        if self._stream.isatty():
            line = self._line(text)
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        elif self._last is None or now - self._last >= _INTERVAL:
            self._last = now
            self._stream.write(self._line(text) + "\n")
        self._stream.flush()

    def finish(self, text: str) -> None:
        """Say how it ended, on a line that stays."""
        line = self._line(text)
        start = "\r" if self._width else ""
        self._stream.write(start + line.ljust(self._width) + "\n")
        self._stream.flush()
        self._width = 0

    def _line(self, text: str) -> str:
        minutes, seconds = divmod(int(self.elapsed), 60)
        return f"{self._prefix}: {minutes}:{seconds:02d}, {text}"
