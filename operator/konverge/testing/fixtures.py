"""The pytest plugin: one control plane a session, one namespace a test.

`cluster` starts a local cluster bound to the test process, or uses the one of `KONVERGE_TEST_KUBECONFIG`. That is a
variable of its own, and not KUBECONFIG, so that nobody's tests ever write to the cluster that they happen to be logged in
to. pytest loads this module in every run, also where no cluster is asked for: what it needs it imports when asked.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from konverge.testing.access import Cluster

_PREFIX = "pytest-"


@pytest.fixture(scope="session")
def cluster() -> "Iterator[Cluster]":
    """A running cluster for the whole session: `konverge.testing.LocalCluster`, or `ExistingCluster`."""
    with session_cluster() as found:
        yield found


@contextmanager
def session_cluster() -> "Iterator[Cluster]":
    """The cluster that the environment asks for, for as long as the block runs."""
    from konverge.testing.access import ExistingCluster  # noqa: PLC0415 - see above
    from konverge.testing.cluster import LocalCluster, sweep  # noqa: PLC0415 - see above

    if given := os.environ.get("KONVERGE_TEST_KUBECONFIG"):
        yield ExistingCluster(Path(given).expanduser())
        return
    sweep(_PREFIX)
    with LocalCluster(f"{_PREFIX}{os.getpid()}") as started:
        yield started


@pytest.fixture
def namespace(cluster: "Cluster") -> Iterator[str]:
    """The name of a fresh namespace, deleted afterwards without waiting for it to be gone."""
    name = cluster.create_namespace()
    try:
        yield name
    finally:
        cluster.delete_namespace(name)
