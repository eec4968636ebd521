"""An operator in a process of its own, as a user runs it: `konverge run` on a cluster, with its log in a file."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.error import URLError
from urllib.request import urlopen

from konverge.testing.loopback import free_ports
from konverge.testing.processes import wait_for

START_TIMEOUT = 60.0
STOP_TIMEOUT = 40.0
LOG_TAIL = 4000


class Reachable(Protocol):
    """A cluster, or another way into one."""

    @property
    def kubeconfig(self) -> Path: ...


class OperatorProcess:
    """`with OperatorProcess(cluster, log, ...) as operator:` it is ready inside, and stopped in order afterwards.

    `arguments` go to `konverge run`: modules and flags.
    """

    def __init__(self, cluster: Reachable, log: Path, *arguments: str) -> None:
        self.log = log
        self._cluster, self._arguments = cluster, arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._probe = self._metrics = ""

    def start(self) -> Self:
        """Start it, and wait until it says that it is ready."""
        probe, metrics = free_ports(2)
        self._probe = f"http://127.0.0.1:{probe}/readyz"
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"
        command = [
            *(sys.executable, "-m", "konverge", "run", *self._arguments),
            *("--kubeconfig", str(self._cluster.kubeconfig)),
            *("--probe-address", f"127.0.0.1:{probe}", "--metrics-address", f"127.0.0.1:{metrics}"),
        ]
        with self.log.open("ab") as sink:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)  # noqa: S603 - no shell
        if not wait_for(lambda: not self.alive or self.ready, START_TIMEOUT) or not self.alive:
            self.kill()
            raise AssertionError(f"the operator did not become ready; it said:\n{self.said()}")
        return self

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether its readiness endpoint says 200."""
        try:
            with urlopen(self._probe, timeout=5) as answer:  # noqa: S310 - our own http address
                return bool(answer.status == 200)
        except (URLError, ConnectionError, TimeoutError):
            return False

    def metric(self, series: str) -> float:
        """The value of a series of its /metrics, named as it is there: `name{label="value",...}`; 0 where there is none."""
        with urlopen(self._metrics, timeout=5) as answer:  # noqa: S310 - our own http address
            lines = answer.read().decode().splitlines()
        return float(next((line.rpartition(" ")[2] for line in lines if line.startswith(f"{series} ")), 0.0))

    def stop(self) -> int:
        """End it with SIGTERM; return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL: nothing is finished, nothing is given back."""
        self._end(signal.SIGKILL)

    @property
    def leads(self) -> bool:
        """Whether it said that it leads."""
        return "leading: " in self.log.read_text(errors="replace")

    def pause(self) -> None:
        """Stop it in whatever it does, as a paused machine does."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a pause."""
        self._signal(signal.SIGCONT)

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"the operator said:\n{self.said()}")
        self.stop()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, how)
        try:
            return process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"the operator did not stop within {STOP_TIMEOUT:g} s; it said:\n{self.said()}"
            ) from None
