"""Free ports on the loopback interface: in, how many; out, that many different numbers."""

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now. Another process may take one before its user binds it: be ready to pick again."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for each in sockets:  # all open at once, so that none is given out twice
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
