"""Waiting for what plugins read to become what they wait for: changes of the caches flow in, those who wait go on."""

import asyncio
from collections.abc import Callable

from konverge.ports import Clock


class Changes:
    """Tells those who wait of each change; see `konverge.scheduler.handle.Until`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Something changed: let everyone who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, check: Callable[[], bool], seconds: float, /) -> bool:
        """Wait until `check` holds, asking it now and after each change; False when so many seconds have passed.

        Raises: what `check` raises.
        """
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            while not check():
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait([changed, timer], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if timer.done():
                    return check()
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
        return True
