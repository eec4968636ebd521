"""/metrics for others: the real API server says who may read it, and the shipped roles are all that it takes.

The operator runs as the shipped ServiceAccount, with the shipped rules and nothing else.
"""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from konverge.testing import Cluster
from tests.e2e.certificates import certify
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import Limited
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.shipped import NAMESPACE, PROMETHEUS

RECONCILED = "konverge.controllers.database"


class Scraped:
    """An operator whose metrics are guarded, and who asks for them."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        directory.mkdir()
        certify(directory)
        self.context = ssl.create_default_context(cafile=str(directory / "tls.crt"))
        token = cluster.kubectl("--namespace", NAMESPACE, "create", "token", "konverge").strip()
        flags = ("--metrics-auth", "always", "--metrics-cert-dir", str(directory))
        lease = ("--leader-elect", "--lease-namespace", NAMESPACE, "--lease-name", "metrics-auth")
        account = Limited(cluster, directory / "kubeconfig", token)
        self.operator = OperatorProcess(account, directory / "log", RECONCILED, *flags, *lease)

    def get(self, token: str = "") -> tuple[int, str]:
        """The status and body of the page."""
        served = re.search(r"serving metrics on (\S+) with TLS", self.operator.log.read_text())
        assert served is not None
        request = Request(f"https://{served[1]}/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urlopen(request, timeout=10, context=self.context) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def scraped(cluster: Cluster, rights: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    one = Scraped(cluster, tmp_path_factory.mktemp("scraped") / "one")
    with one.operator:
        yield one


def token_of(cluster: Cluster, namespace: str, account: str) -> str:
    return cluster.kubectl("--namespace", namespace, "create", "token", account).strip()


def test_prometheus_reads_them_with_its_own_token(cluster: Cluster, scraped: Scraped) -> None:
    status, page = scraped.get(token_of(cluster, PROMETHEUS, "prometheus-k8s"))
    assert status == 200
    assert "leader_election_master_status" in page


def test_a_standby_answers_too(cluster: Cluster, scraped: Scraped, tmp_path: Path) -> None:
    """What it asks the API server are POSTs, which the gate of those who do not lead must not hold."""
    until(lambda: scraped.operator.leads, "a leader")
    standby = Scraped(cluster, tmp_path / "two")
    with standby.operator:
        status, page = standby.get(token_of(cluster, PROMETHEUS, "prometheus-k8s"))
        assert status == 200
        assert 'leader_election_master_status{name="metrics-auth"} 0.0' in page
        assert not standby.operator.leads


def test_others_are_told_what_they_lack(cluster: Cluster, scraped: Scraped) -> None:
    assert scraped.get() == (401, "a bearer token of this cluster is needed, such as a ServiceAccount's\n")
    assert scraped.get("made-up") == (401, "the API server does not know this token; it may have expired\n")
    status, text = scraped.get(token_of(cluster, NAMESPACE, "default"))
    assert status == 403
    assert f"system:serviceaccount:{NAMESPACE}:default may not get /metrics" in text


def test_a_token_ends_with_its_account(cluster: Cluster, scraped: Scraped) -> None:
    monitoring = Kubectl(cluster, PROMETHEUS)
    monitoring("create", "serviceaccount", "leaver")
    token = token_of(cluster, PROMETHEUS, "leaver")
    monitoring("delete", "serviceaccount", "leaver")
    assert scraped.get(token)[0] == 401


def test_an_operator_that_may_not_ask_lets_nobody_in_and_logs_the_rule(
    cluster: Cluster, system: Kubectl, scraped: Scraped
) -> None:
    system("delete", "clusterrolebinding", "konverge-metrics-auth")
    # a fresh token each time: verdicts are kept
    until(lambda: scraped.get(token_of(cluster, PROMETHEUS, "prometheus-k8s"))[0] == 503, "the missing rule shows")
    assert "the operator needs `create` on tokenreviews.authentication.k8s.io" in scraped.operator.log.read_text()
