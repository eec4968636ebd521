"""CRDs on the real API server, installed once for the module that asks; and the sum of what was compared with kube-scheduler."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from konverge.errors import AlreadyExists
from konverge.model.crd import ResourceClass, crd_of
from konverge.testing import Cluster
from tests.parity.tally import Tally

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
InstallCrd = Callable[[ResourceClass], None]


@pytest.fixture(scope="session")
def install_crd(cluster: Cluster) -> InstallCrd:
    """Installs the CRD of a class and waits until the server serves it."""

    def install(cls: ResourceClass) -> None:
        try:
            cluster.request("POST", CRDS, crd_of(cls))
        except AlreadyExists:
            return
        cluster.wait_for_crds(cls.resource.name)

    return install


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Tally]:
    """What a test compares with kube-scheduler; the end of the run says how much that was in all."""
    counted = Tally()
    yield counted
    for outcome, times in counted.outcomes.items():
        record_property(f"parity {outcome}", times)
    record_property("parity scores", counted.scores)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many decisions and scores were compared; properties come along from whatever process ran the test."""
    sums: Counter[str] = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if getattr(report, "when", "") == "teardown":
            sums.update({name: times for name, times in report.user_properties if name.startswith("parity ")})
    scores = sums.pop("parity scores", 0)
    if sums:
        outcomes = ", ".join(f"{times} {name.removeprefix('parity ')}" for name, times in sorted(sums.items()))
        terminalreporter.write_line(f"parity: {sums.total()} decisions, {outcomes}, {scores} scores compared")
