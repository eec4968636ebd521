"""SIGTERM and SIGINT: the first asks for an ordered stop, the second ends the process on the spot. Others call what they are for.

The handlers are plain ones, not the event loop's: they run even while the loop is blocked, and no other code that adds
a handler to the loop runs beside them.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Self

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """A context manager that owns both signals meanwhile, and those of `calls`, each of which calls its function in the loop.

    Outside of the main thread it does nothing.
    """

    def __init__(self, calls: Mapping[signal.Signals, Callable[[], None]] | None = None) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        self._calls = dict(calls or {})
        self._previous = {number: signal.getsignal(number) for number in (*_SIGNALS, *self._calls)}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[str], None] = lambda _: None
        self._asked = False

    def __enter__(self) -> Self:
        self._install()
        return self

    def __exit__(self, *_: object) -> None:
        if self._main:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def bind(self, loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> None:
        """From now on the first signal calls `stop` in `loop` with a text that names the signal."""
        self._loop, self._stop = loop, stop

    def reclaim(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the signals back from whoever added handlers to `loop` since."""
        if self._main:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        self._install()

    def _install(self) -> None:
        if self._main:
            for number in _SIGNALS:
                signal.signal(number, self._received)
            for number in self._calls:
                signal.signal(number, self._called)

    def _called(self, number: int, _: FrameType | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._calls[signal.Signals(number)])

    def _received(self, number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if not self._asked and self._loop is not None and not self._loop.is_closed():
            self._asked = True
            self._loop.call_soon_threadsafe(self._stop, f"{name} received")
            return
        try:
            logger.critical("%s received%s: exiting at once", name, " again" if self._asked else "")
        finally:  # whatever the interrupted code was doing to the log
            os._exit(128 + number)
