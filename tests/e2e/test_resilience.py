"""Things are killed: the operator in the middle of its work, the leader of two replicas, the API server under them."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge.model.rbac import rule_text
from konverge.testing import Cluster, LocalCluster
from tests.e2e.kubectl import WITHIN, Kubectl, until
from tests.e2e.limited import Limited, allow, dismiss, generated, less
from tests.e2e.operator_process import OperatorProcess, refusals

DATABASES = "databases.data.konverge.dev"
LEASE = "lease/konverge-leader"
RECOVERY = 90.0
"""Seconds: a lease runs out after 15, an informer's backoff reaches 30, a new stream is believed after 35."""

pytestmark = pytest.mark.usefixtures("crds")


def database(name: str, replicas: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "data.konverge.dev/v1alpha1",
        "kind": "Database",
        "metadata": {"name": name},
        "spec": {"version": "17.2", "replicas": replicas, "storage": {"size": "1Gi"}},
    }


def settled(kubectl: Kubectl, name: str, replicas: int) -> bool:
    """Whether the database is Ready as it is asked for now, with the pods it should have."""
    obj = kubectl.get(f"{DATABASES}/{name}")
    status = obj.get("status") or {}
    ready = [c["status"] for c in status.get("conditions") or [] if c["type"] == "Ready"]
    observed = status.get("observedGeneration") == obj["metadata"]["generation"]
    return observed and ready == ["True"] and status.get("readyReplicas") == replicas


def test_killed_in_the_middle_it_goes_on_where_it_was(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    names = [f"db-{number}" for number in range(6)]
    operator = OperatorProcess(cluster, tmp_path / "log").start()
    kubectl.apply(*(database(name) for name in names))
    until(lambda: kubectl.list("secrets"), "the first child")
    operator.kill()
    before = {secret["metadata"]["name"]: secret["data"] for secret in kubectl.list("secrets")}

    with operator:
        until(lambda: all(settled(kubectl, name, 1) for name in names), "every database Ready")

    after = {secret["metadata"]["name"]: secret["data"] for secret in kubectl.list("secrets")}
    assert {name: after[name] for name in before} == before
    for kind, each in (("statefulsets", 1), ("secrets", 2), ("configmaps", 1)):
        owned = [obj for obj in kubectl.list(kind) if obj["metadata"].get("ownerReferences")]
        owners = [obj["metadata"]["ownerReferences"][0]["name"] for obj in owned]
        assert sorted(owners) == sorted(names * each)


@pytest.fixture
def replicas(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """Two replicas that share a lease."""
    flags = ("--leader-elect", "--lease-namespace", namespace)
    with (
        OperatorProcess(cluster, tmp_path / "first", *flags) as first,
        OperatorProcess(cluster, tmp_path / "second", *flags) as second,
    ):
        yield first, second


def test_when_the_leader_is_killed_the_other_takes_over(
    kubectl: Kubectl, replicas: tuple[OperatorProcess, OperatorProcess]
) -> None:
    until(lambda: any(each.leads for each in replicas), "a leader")
    leader, standby = sorted(replicas, key=lambda each: each.leads, reverse=True)
    assert not standby.leads
    holder = kubectl.get(LEASE)["spec"]["holderIdentity"]
    kubectl.apply(database("orders"))
    until(lambda: settled(kubectl, "orders", 1), "the database Ready")

    leader.kill()
    kubectl("scale", f"{DATABASES}/orders", "--replicas=2")
    until(lambda: settled(kubectl, "orders", 2), "the standby at work", within=RECOVERY)

    lease = kubectl.get(LEASE)["spec"]
    assert lease["holderIdentity"] != holder
    assert lease["leaseTransitions"] == 1
    assert standby.leads


def test_a_leader_that_stops_in_order_gives_its_lease_back(
    kubectl: Kubectl, replicas: tuple[OperatorProcess, OperatorProcess]
) -> None:
    until(lambda: any(each.leads for each in replicas), "a leader")
    leader, standby = sorted(replicas, key=lambda each: each.leads, reverse=True)
    assert leader.stop() == 0
    assert kubectl.get(LEASE)["spec"]["leaseDurationSeconds"] in {1, 15}
    until(lambda: standby.leads, "the standby as leader")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_api_server_goes_away_and_comes_back(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, how: signal.Signals
) -> None:
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only the local cluster's API server may be ended")
    with OperatorProcess(cluster, tmp_path / "log") as operator:
        kubectl.apply(database("orders"))
        until(lambda: settled(kubectl, "orders", 1), "the database Ready")

        cluster.restart_apiserver(how)
        kubectl("scale", f"{DATABASES}/orders", "--replicas=2")
        until(lambda: settled(kubectl, "orders", 2), "the edit honoured", within=RECOVERY)
        kubectl("delete", "service/orders")
        until(lambda: kubectl.get("service/orders"), "the child back", within=RECOVERY)
        until(lambda: operator.ready, "readiness", within=RECOVERY)
        assert operator.alive


def test_it_works_with_exactly_the_shipped_permissions(
    cluster: Cluster, crds: None, kubectl: Kubectl, tmp_path: Path
) -> None:
    """The operator runs as its ServiceAccount, under config/rbac and nothing else, and is refused nothing."""
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "konverge-system"}}
    kubectl.apply(system)
    cluster.kubectl("apply", "--server-side", "-k", "config/rbac")
    token = cluster.kubectl("create", "token", "konverge", "--namespace=konverge-system", "--duration=1h").strip()
    limited = Limited(cluster, tmp_path / "kubeconfig", token)
    flags = ("--leader-elect", "--lease-namespace", "konverge-system")
    with OperatorProcess(limited, tmp_path / "log", *flags) as operator:
        kubectl.apply(database("orders", replicas=2))
        until(lambda: settled(kubectl, "orders", 2), "the database Ready")
        kubectl("delete", f"{DATABASES}/orders", f"--timeout={WITHIN:.0f}s")
        assert refusals(operator) == []


def test_a_missing_permission_is_named_with_the_rule_to_add(
    cluster: Cluster, crds: None, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl("create", "serviceaccount", "nobody")
    limited = Limited(cluster, tmp_path / "kubeconfig", kubectl("create", "token", "nobody").strip())
    operator = OperatorProcess(limited, tmp_path / "log", "--sync-timeout", "5")
    with pytest.raises(AssertionError, match="did not become ready"):
        operator.start()
    said = operator.said()
    assert 'cannot watch resource "databases" in API group "data.konverge.dev"' in said
    assert 'resources: ["databases"]' in said
    assert 'verbs: ["get", "list", "watch"]' in said


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("apps", "statefulsets", "patch"),
        ("data.konverge.dev", "databases/status", "patch"),
        ("data.konverge.dev", "databases", "patch"),
        ("events.k8s.io", "events", "create"),
    ],
)
def test_with_one_rule_less_the_error_names_the_line_to_add(
    kubectl: Kubectl, tmp_path: Path, group: str, resource: str, verb: str
) -> None:
    """In the log always; on the object as an event, and in its status, where these can be written."""
    [role] = [each for each in generated("--no-leader-election") if each["kind"] == "ClusterRole"]
    limited = allow(kubectl, "operator", less(role["rules"], group, resource, verb), tmp_path / "kubeconfig")
    rule = rule_text(group, resource, [verb])
    target = f"{DATABASES}/orders"
    try:
        with OperatorProcess(limited, tmp_path / "log") as operator:
            kubectl.apply(database("orders"))
            until(lambda: rule in operator.log.read_text(), "the rule in the log")
            if group == "apps":
                until(lambda: rule in kubectl.condition(target, "Ready").get("message", ""), "the rule in the status")
            if resource != "events":
                until(lambda: any(rule in e["note"] for e in kubectl.list("events.events.k8s.io")), "the event")
    finally:
        dismiss(kubectl, "operator")


def test_nothing_is_left_open(cluster: Cluster, crds: None, tmp_path: Path) -> None:
    """One client for kopf's login and the manager; a second would show as an unclosed session."""
    with OperatorProcess(cluster, tmp_path / "log") as operator:
        assert operator.alive
    said = operator.log.read_text()
    assert "leading: " in said
    assert "Unclosed" not in said
    assert "Traceback" not in said
