"""Files that may change while the process runs: their content is looked at every so often, changes are told.

The content is compared and not the time stamps, so that a ConfigMap's or Secret's mount, which swaps a symbolic link,
counts, and a file that was only touched does not.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

POLL: Final = 10.0
"""Seconds between two looks."""


class FileWatch:
    """Calls `changed` when the content of one of `paths` is another one than at the last look.

    A file that is missing counts as a content of its own. `changed` must not raise for bad content; where it does, that
    is logged and the watch goes on.
    """

    def __init__(self, paths: Sequence[Path], changed: Callable[[], None], *, poll: float = POLL) -> None:
        self._paths, self._changed, self._poll = tuple(paths), changed, poll
        self._seen = self._look()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(self._poll)
            self.look()

    def look(self) -> None:
        """Look now."""
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._changed()
        except Exception:
            logger.exception("could not take over the change of %s", ", ".join(map(str, self._paths)))

    def _look(self) -> tuple[str, ...]:
        return tuple(_digest(path) for path in self._paths)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.errno}"
