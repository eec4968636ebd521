"""Processes that must not be lost: in, command lines; out, references that stay true when a pid is used again.

A process is known by pid and start time. One that is ours, whatever the state file says, is also known by its command
line, which names the cluster's directory. Nothing is signalled before one of these has matched.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from konverge.errors import ClusterError

LIFELINE_VARIABLE = "LOCALCLUSTER_LIFELINE"
"""Names the inherited descriptor on whose end our own binary ends itself; its Go side knows the same name."""

_LINUX = platform.system() == "Linux"
_POLL = 0.05
_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""What this process has started and not yet seen end: the kernel keeps an ended child until its parent has looked."""


class ProcessRef(NamedTuple):
    """One process on this boot: its pid, and its start time in the words of the platform."""

    pid: int
    started: str


@dataclass(frozen=True)
class Lifeline:
    """A pipe whose write end only this process has: when it closes, for whatever reason, the readers end."""

    read: int
    write: int

    @classmethod
    def open(cls) -> "Lifeline":
        return cls(*os.pipe())

    def close(self) -> None:
        os.close(self.write)
        os.close(self.read)


def spawn(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    lifeline: Lifeline | None = None,
    bundled: bool = True,
) -> ProcessRef:
    """Start `command` in a session of its own, so that Ctrl-C reaches only us, its output appended to `log`.

    With a lifeline it ends when this process does: our own binary watches the pipe, any other is asked to on Linux
    through the parent-death signal (start those from a thread that lives as long as they should: the kernel looks at it).
    """
    variables = {**os.environ, **(environment or {})}
    descriptors: tuple[int, ...] = ()
    if lifeline is not None and bundled:
        variables[LIFELINE_VARIABLE] = str(lifeline.read)
        descriptors = (lifeline.read,)
    elif lifeline is not None:
        command = tied_to_parent(command)
    with log.open("ab") as output:
        try:
            child = subprocess.Popen(  # noqa: S603 - no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            message = f"cannot run {command[0]}: {error.strerror}"
            raise ClusterError(message) from error
    _children[child.pid] = child
    return ProcessRef(child.pid, start_time(child.pid) or "")


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """`command` behind a launcher that asks the kernel to end it with its parent; as it is where no kernel does that."""
    if not _LINUX:
        return list(command)
    launcher = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9);"  # PR_SET_PDEATHSIG, SIGKILL: its data goes anyhow
        "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
    )
    return [sys.executable, "-I", "-S", "-c", launcher, str(os.getpid()), *command]


def exit_code(ref: ProcessRef) -> int | None:
    """The exit code of a child of this process that has ended; None while it runs, and for what is not our child."""
    child = _children.get(ref.pid)
    return None if child is None else child.poll()


def alive(ref: ProcessRef) -> bool:
    """Whether this very process still runs."""
    if exit_code(ref) is not None:
        return False
    return bool(ref.started) and start_time(ref.pid) == ref.started


def start_time(pid: int) -> str | None:
    """When `pid` started, in the platform's words; None when there is none, or only its remains."""
    if _LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # the name in parentheses may hold anything
        return None if fields[0] in "ZX" else fields[19]
    line = _ps("-o", "stat=,lstart=", "-p", str(pid)).strip()
    state, _, started = line.partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def running(directory: Path, components: Collection[str]) -> dict[str, list[ProcessRef]]:
    """The servers of the cluster in `directory`, whoever started them, by component.

    One of them is: run by this user, named like a component, and given a flag with a path below `directory`.
    """
    found: dict[str, list[ProcessRef]] = {}
    for pid, command in _command_lines():
        component = _component(command, components)
        if component is None or not any(f"={directory}{os.sep}" in argument for argument in command[1:]):
            continue
        if (started := start_time(pid)) is not None:
            found.setdefault(component, []).append(ProcessRef(pid, started))
    return found


def _component(command: Sequence[str], components: Collection[str]) -> str | None:
    names = [Path(word).name for word in command[:2]]  # by itself, as our binary's argument, or as its interpreter's
    return next((name for name in names if name in components), None)


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    if not _LINUX:
        for line in _ps("-x", "-o", "pid=,command=").splitlines():
            pid, *command = line.split()
            yield int(pid), command
        return
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it ended meanwhile
            continue
        yield int(entry.name), [argument for argument in command if argument]


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607 - fixed words


def end(refs: Collection[ProcessRef], *, grace: float) -> None:
    """Ask each to end, and after `grace` seconds (0: at once) make it; returns when all are gone."""
    if grace > 0:
        _signal(refs, signal.SIGTERM)
        wait_for(lambda: not any(map(alive, refs)), grace)
    _signal(refs, signal.SIGKILL)
    if not wait_for(lambda: not any(map(alive, refs)), 10.0):
        message = f"cannot end the processes {', '.join(str(ref.pid) for ref in refs if alive(ref))}"
        raise ClusterError(message)
    for ref in refs:
        if (child := _children.pop(ref.pid, None)) is not None:
            child.wait()


def _signal(refs: Collection[ProcessRef], number: int) -> None:
    for ref in refs:
        if alive(ref):
            try:
                os.kill(ref.pid, number)
            except ProcessLookupError:  # it ended between the look and the signal
                continue


def wait_for(condition: Callable[[], bool], seconds: float, *, poll: float = _POLL) -> bool:
    """Look every `poll` seconds until `condition` holds; False when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll)
    return True
