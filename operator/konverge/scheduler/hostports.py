"""The ports that pods take of their nodes, and which of them exclude each other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared with, never bound
"""Conflicts with every address; what a port without `hostIP` is on."""


class HostPort(NamedTuple):
    """One port of a node."""

    protocol: str
    port: int
    address: str

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be taken at once."""
        return (self.protocol, self.port) == (other.protocol, other.port) and (
            self.address == other.address or ANY_ADDRESS in {self.address, other.address}
        )


def host_ports_of(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """The ports that a pod holds as long as it runs: those of its containers and sidecars, not of other init containers."""
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return tuple(
        HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or ANY_ADDRESS)
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


class PortIndex:
    """Which rows of the snapshot have which ports taken."""

    def __init__(self) -> None:
        self._holders: dict[HostPort, Counter[int]] = {}
        self._addresses: defaultdict[tuple[str, int], set[str]] = defaultdict(set)

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod on `row` takes these."""
        for port in ports:
            self._holders.setdefault(port, Counter())[row] += 1
            self._addresses[port.protocol, port.port].add(port.address)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod on `row` gives them back."""
        for port in ports:
            holders = self._holders[port]
            holders[row] -= 1
            if not holders[row]:
                del holders[row]
            if not holders:
                del self._holders[port]
                addresses = self._addresses[port.protocol, port.port]
                addresses.discard(port.address)
                if not addresses:
                    del self._addresses[port.protocol, port.port]

    def conflicting(self, wanted: HostPort) -> set[int]:
        """The rows on which `wanted` cannot be had."""
        rows: set[int] = set()
        for address in self._addresses.get((wanted.protocol, wanted.port), ()):
            taken = HostPort(wanted.protocol, wanted.port, address)
            if wanted.conflicts(taken):
                rows |= self._holders[taken].keys()
        return rows
