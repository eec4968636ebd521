"""The clock of production: the `ports.Clock` that `app` hands to everything that waits or stamps."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's own clocks and the running event loop's timers."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def now(self) -> datetime:
        """The wall clock, UTC, aware."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait; always yields to the loop once."""
        await asyncio.sleep(seconds)
