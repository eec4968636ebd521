"""One operator as a process: a command flows in; its CPU time and memory, as the kernel counts them, flow out."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_TICK: Final = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 15.0
_QUIET: Final = 0.02
"""Of one core, over a second: a process below it has nothing to do."""
_LOG_TAIL: Final = 3000


def cpu_seconds(pid: int) -> float:
    """User and system time that process `pid` has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_mb(pid: int, field: str) -> float:
    """`VmRSS` or `VmHWM` of process `pid`, in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"process {pid} has no {field}: it ended")


async def quiet(pid: int, *, seconds: float = 60.0, below: float = _QUIET) -> None:
    """Wait until `pid` used less than `below` of a core for a second. Raises: TimeoutError after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = cpu_seconds(pid)
        await asyncio.sleep(1)
        if cpu_seconds(pid) - before <= below:
            return
    raise TimeoutError(f"process {pid} was still at work after {seconds:g} s")


class Operator:
    """`with Operator(...) as operator:` it runs inside; afterwards it was told to stop, and killed if it did not."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command, self._log = command, log
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    def __enter__(self) -> Self:
        with self._log.open("wb") as sink:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self.process
        if error is not None:
            error.add_note(f"{' '.join(self._command)} said:\n{self._log.read_text(errors='replace')[-_LOG_TAIL:]}")
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The running process."""
        assert self._process is not None
        return self._process

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_seconds(self.process.pid)

    @property
    def rss(self) -> float:
        """Resident memory now, in MB."""
        return memory_mb(self.process.pid, "VmRSS")

    @property
    def peak(self) -> float:
        """The most resident memory so far, in MB."""
        return memory_mb(self.process.pid, "VmHWM")

    async def settled(self) -> None:
        """Wait until it has nothing to do. Raises: TimeoutError; ProcessLookupError when it ended."""
        await quiet(self.process.pid)
        if self.process.poll() is not None:
            raise ProcessLookupError(f"the operator ended with code {self.process.returncode}")


class Operators:
    """Replicas of one operator, started together: what they use is what all of them use."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, count: int) -> None:
        logs = [log if number == 0 else log.with_name(f"{log.name}-{number}") for number in range(count)]
        self._each = [Operator(command, environment, one) for one in logs]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for each in self._each:
            self._stack.enter_context(each)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def started(self) -> float:
        """When the first of them was started, monotonic seconds."""
        return self._each[0].started

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return sum(each.cpu for each in self._each)

    @property
    def rss(self) -> float:
        """Resident memory now, in MB."""
        return sum(each.rss for each in self._each)

    @property
    def peak(self) -> float:
        """The most resident memory of each so far, in MB."""
        return sum(each.peak for each in self._each)

    async def settled(self) -> None:
        """Wait until they have nothing to do. Raises: TimeoutError; ProcessLookupError when one ended."""
        for each in self._each:
            await each.settled()
