"""The operators that are compared: names such as `controller-runtime:8` flow in, command lines flow out.

The Go one is built once, with the Go that builds the local cluster, and kept beside it in the user's cache.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from konverge.errors import BuildFailed, ConfigError, ToolsMissing
from konverge.testing.build import input_hash
from konverge.testing.gotool import find_go, go_environment, required_version
from konverge.testing.locking import locked
from konverge.testing.paths import binaries_root, lock_file, private_directory

PEERS: Final = Path(__file__).parents[1] / "peers"
KONVERGE: Final = "konverge"
CONTROLLER_RUNTIME: Final = "controller-runtime"
KOPF: Final = "kopf"
NAMES: Final = (KONVERGE, CONTROLLER_RUNTIME, KOPF)


@dataclass(frozen=True, slots=True)
class Peer:
    """One operator with its number of workers: how it is shown, and how it is started."""

    name: str
    label: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def peer_of(text: str, workers: int) -> Peer:
    """The peer `name` or `name:workers`; `workers` holds where the text has none, but not for kopf, which has no bound.

    Raises: ConfigError for an unknown name; ToolsMissing and BuildFailed where the Go program cannot be had.
    """
    name, _, own = text.partition(":")
    if name not in NAMES or (own and not own.isdecimal()):
        raise ConfigError(f"peer {text!r} is unknown: use {', '.join(NAMES)}, each with :WORKERS where you like")
    count = own or ("" if name == KOPF else str(workers))
    environment = {"ECHO_WORKERS": count} if count else {}
    if name == CONTROLLER_RUNTIME:
        return Peer(name, text, (str(go_program()), f"-workers={count}"))
    return Peer(name, text, (sys.executable, str(PEERS / f"{name}_echo.py")), environment)


def go_program() -> Path:
    """The built Go program. Raises: ToolsMissing without a Go; BuildFailed with what the compiler said."""
    sources = PEERS / CONTROLLER_RUNTIME
    key = input_hash(sources)
    program = binaries_root() / key / "echo-controller-runtime"
    with locked(lock_file(f"build-{key}"), waiting=lambda: None):
        if program.is_file():
            return program
        tried: list[str] = []
        go = find_go(required_version((sources / "go.mod").read_text()), tried)
        if go is None:
            raise ToolsMissing("no Go to build the controller-runtime peer with; tried: " + "; ".join(tried))
        private_directory(program.parent)
        print("building the controller-runtime peer (once, some minutes)", file=sys.stderr)
        fresh = program.with_suffix(f".{os.getpid()}.new")
        command = [str(go), "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(fresh), "."]
        result = subprocess.run(command, cwd=sources, env=go_environment(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildFailed(f"`{' '.join(command)}` ended with {result.returncode}:\n{result.stderr[-4000:]}")
        fresh.replace(program)
    return program
