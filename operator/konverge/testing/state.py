"""What a cluster's directory says of it: in, `state.json`; out, who runs, where, for whom, and whether that is still so."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from konverge.testing.binaries import Binaries
from konverge.testing.components import Ports
from konverge.testing.processes import ProcessRef, alive, start_time

_VERSION = 1
_FILE = "state.json"

Lifetime = Literal["detached", "process"]
"""`detached`: until `down`. `process`: until the process that started it ends, however it does."""


@dataclass
class State:
    """One cluster. `ready` is false until it was complete once; `owner` is the process that a bound cluster lives with."""

    lifetime: Lifetime
    owner: ProcessRef
    ports: Ports
    binaries: Binaries
    processes: dict[str, ProcessRef] = field(default_factory=dict)
    ready: bool = False

    def save(self, directory: Path) -> None:
        """Write it in one step, so that no reader sees half of it."""
        document = {
            "version": _VERSION,
            "lifetime": self.lifetime,
            "owner": list(self.owner),
            "ports": asdict(self.ports),
            "binaries": self.binaries.to_json(),
            "processes": {name: list(ref) for name, ref in self.processes.items()},
            "ready": self.ready,
        }
        fresh = directory / f".{_FILE}.new"
        fresh.write_text(json.dumps(document, indent=2) + "\n")
        fresh.replace(directory / _FILE)

    @classmethod
    def load(cls, directory: Path) -> "State | None":
        """What the directory says; None when it says nothing, or nothing that this version understands."""
        try:
            document: dict[str, Any] = json.loads((directory / _FILE).read_text())
            if document["version"] != _VERSION:
                return None
            return cls(
                lifetime=document["lifetime"],
                owner=ProcessRef(*document["owner"]),
                ports=Ports(**document["ports"]),
                binaries=Binaries.of_json(document["binaries"]),
                processes={name: ProcessRef(*ref) for name, ref in document["processes"].items()},
                ready=document["ready"],
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def dead(self) -> list[str]:
        """The components that should run and do not."""
        return [name for name, ref in self.processes.items() if not alive(ref)]

    @property
    def owner_alive(self) -> bool:
        return alive(self.owner)


def this_process() -> ProcessRef:
    """The reference of the calling process."""
    return ProcessRef(os.getpid(), start_time(os.getpid()) or "")
