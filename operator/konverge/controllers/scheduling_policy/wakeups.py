"""Policies to look at again because of what happened in the scheduler: names flow in by a callback, keys flow out.

The scheduler changes its counts with every pod. A policy is woken at most once an interval, so that a burst of a thousand
pods is a handful of status writes and not a thousand.
"""

import asyncio
from collections.abc import AsyncIterator

from konverge.model.meta import Key
from konverge.ports import Clock


class Wakeups:
    """Names of policies that wait for a look; several mentions of one within an interval are one wake-up."""

    def __init__(self, clock: Clock, *, interval: float = 0) -> None:
        """`interval` is in seconds; 0 wakes at once."""
        self._clock, self._interval = clock, interval
        self._names: set[str] = set()
        self._mentioned = asyncio.Event()

    def mention(self, name: str) -> None:
        """Wake the policy `name` soon. Must be called on the event loop."""
        self._names.add(name)
        self._mentioned.set()

    async def keys(self) -> AsyncIterator[Key]:
        """The keys to reconcile, for ever. The first mention after a quiet time comes through at once."""
        while True:
            await self._mentioned.wait()
            self._mentioned.clear()
            names, self._names = self._names, set()
            for name in sorted(names):
                yield Key("", name)
            if self._interval:
                await self._clock.sleep(self._interval)
