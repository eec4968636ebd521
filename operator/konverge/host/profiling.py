"""What a process does, looked at from inside: its tasks, its event loop's stacks, its memory's growth.

Nothing runs until it is asked for, each look is bounded in time and size, and only one of a kind runs at once.
"""

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from collections import Counter
from types import FrameType
from typing import Any, Final

from konverge.errors import KonvergeError

INTERVAL: Final = 0.005
"""Seconds between two samples of the CPU profile."""

MAX_SECONDS: Final = 60.0
MAX_STACKS: Final = 10_000
MAX_TASKS: Final = 5_000
MAX_DEPTH: Final = 100
TOP: Final = 50
HEAP_SECONDS: Final = 900.0
"""How long memory stays traced after the last call: tracing makes every allocation slower."""

_LOOP: Final = ("asyncio/", "selectors.py")
_IDLE: Final = frozenset({"select", "run"})
"""The functions of asyncio and selectors in which the loop waits: uvloop's waits in native code right below the runner."""


class Busy(KonvergeError):
    """Another profile of the kind is being taken."""


def tasks() -> list[dict[str, Any]]:
    """The tasks of the running loop, by name: what each runs, and the lines it waits at, from the outermost in."""
    found = [
        {"name": task.get_name(), "coroutine": _name(task.get_coro()), "waits": _waits(task.get_coro())}
        for task in list(asyncio.all_tasks())[:MAX_TASKS]
        if task is not asyncio.current_task()
    ]
    return sorted(found, key=lambda task: str(task["name"]))


def _name(coroutine: Any) -> str:
    return str(getattr(coroutine, "__qualname__", coroutine))


def _waits(coroutine: Any) -> list[str]:
    """Follow what a coroutine awaits, down to the future."""
    lines: list[str] = []
    while coroutine is not None and len(lines) < MAX_DEPTH:
        frame, inner = None, None
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                inner = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        if frame is None:
            break
        lines.append(_line(frame))
        coroutine = inner
    return lines


def _line(frame: FrameType) -> str:
    return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_qualname}"


def _short(path: str) -> str:
    """The path from the package on: `konverge/host/process.py`."""
    for mark in ("/site-packages/", "/operator/", "/lib/python"):
        head, found, tail = path.rpartition(mark)
        if found and head:
            return tail.partition("/")[2] if mark == "/lib/python" else tail
    return path


class CpuProfiler:
    """Samples the stacks of one thread from another one. Python's own profilers would slow every call meanwhile."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    async def profile(self, seconds: float) -> str:
        """Sample the calling thread, which is the event loop's, for so long; at most 60 s.

        Returns collapsed stacks (`a;b;c 42` a line, the outermost frame first), as flame-graph tools read them. Where
        the loop waited for something to do, the stack is `idle`. Raises: Busy.
        """
        if not self._busy.acquire(blocking=False):
            raise Busy("a CPU profile is being taken already; try again when it is over")
        try:
            thread = threading.get_ident()
            stopped = threading.Event()
            sampling = asyncio.create_task(asyncio.to_thread(_sample, thread, min(seconds, MAX_SECONDS), stopped))
            try:
                stacks = await sampling
            finally:
                stopped.set()
        finally:
            self._busy.release()
        return "".join(f"{stack} {count}\n" for stack, count in stacks.most_common())


def _sample(thread: int, seconds: float, stopped: threading.Event) -> Counter[str]:
    stacks: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stopped.wait(INTERVAL):
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, in spite of its name
        stack = _collapsed(frame)
        if stack in stacks or len(stacks) < MAX_STACKS:
            stacks[stack] += 1
        else:
            stacks["(other stacks)"] += 1
    return stacks


def _collapsed(frame: FrameType | None) -> str:
    if frame is None or (frame.f_code.co_name in _IDLE and _short(frame.f_code.co_filename).startswith(_LOOP)):
        return "idle"
    names: list[str] = []
    while frame is not None and len(names) < MAX_DEPTH:
        names.append(f"{_short(frame.f_code.co_filename)}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))


class HeapWatch:
    """The growth of memory between two calls. The first call turns tracing on; a while after the last it goes off."""

    def __init__(self) -> None:
        self._before: tracemalloc.Snapshot | None = None
        self._since = 0.0
        self._off: asyncio.TimerHandle | None = None
        self._busy = False

    async def growth(self) -> dict[str, Any]:
        """What grew most since the last call, by line of code, in bytes and blocks. Raises: Busy."""
        if self._busy:
            raise Busy("the heap is being looked at already; try again when that is over")
        self._busy = True
        try:
            if not tracemalloc.is_tracing():
                tracemalloc.start()
            now, before, since = time.monotonic(), self._before, self._since
            gc.collect()
            self._before, self._since = await asyncio.to_thread(_snapshot), now
            self._keep_on()
            grown: list[dict[str, Any]] = []
            if before is not None:
                grown = await asyncio.to_thread(_compare, before, self._before)
        finally:
            self._busy = False
        current, peak = tracemalloc.get_traced_memory()
        return {
            "tracing": "just started; call again to see what grew meanwhile" if before is None else "on",
            "seconds": None if before is None else now - since,
            "tracedBytes": current,
            "tracedPeakBytes": peak,
            "grown": grown,
        }

    def stop(self) -> None:
        """Turn tracing off and forget."""
        if self._off is not None:
            self._off.cancel()
            self._off = None
        self._before = None
        tracemalloc.stop()

    def _keep_on(self) -> None:
        if self._off is not None:
            self._off.cancel()
        self._off = asyncio.get_running_loop().call_later(HEAP_SECONDS, self.stop)


def _snapshot() -> tracemalloc.Snapshot:
    return tracemalloc.take_snapshot().filter_traces((tracemalloc.Filter(False, tracemalloc.__file__),))


def _compare(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> list[dict[str, Any]]:
    grown = [line for line in after.compare_to(before, "lineno") if line.size_diff > 0][:TOP]
    return [
        {
            "line": f"{_short(line.traceback[0].filename)}:{line.traceback[0].lineno}",
            "bytes": line.size_diff,
            "blocks": line.count_diff,
            "totalBytes": line.size,
        }
        for line in grown
    ]
