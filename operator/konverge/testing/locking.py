"""One lock an instance and one a build, held over processes: in, a file; out, the certainty of being alone."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from konverge.testing.paths import private_directory


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock on `path` while the block runs; the kernel frees it however this process ends.

    `waiting` is called once when somebody else holds it, before this call blocks.
    """
    private_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
