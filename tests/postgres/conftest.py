"""The scripts that run in a Database's pods, on real PostgreSQL servers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.servers import Servers


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A primary and two followers, none of them started, in a place that the server's user may reach."""
    with tempfile.TemporaryDirectory(prefix="konverge-postgres-") as directory:
        started = Servers(Path(directory))
        try:
            yield started
        finally:
            started.stop()
