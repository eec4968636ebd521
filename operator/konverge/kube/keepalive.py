"""Sockets that notice when the other side is no longer there: an address flows in, a socket to connect flows out.

A watch may be silent for minutes and be well. When a load balancer forgets its connection, or the server's machine dies,
nothing is sent that would tell; the reader's idle timeout ends such a stream after up to ten minutes. Probes by the
operating system tell within a minute, and cost nothing while data flows.
"""

import socket
from typing import Any, Final

IDLE: Final = 30
"""Seconds without data before the first probe."""

INTERVAL: Final = 10
"""Seconds between probes."""

PROBES: Final = 3
"""Unanswered probes until the connection counts as dead."""

_IDLE_OPTIONS: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")
"""Linux and Windows have the first, macOS the second."""


def kept_alive(address: tuple[Any, ...]) -> socket.socket:
    """A socket for `address`, one entry of `getaddrinfo`, that sends probes. Options unknown here are left out."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        *((name, IDLE) for name in _IDLE_OPTIONS),
        ("TCP_KEEPINTVL", INTERVAL),
        ("TCP_KEEPCNT", PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
