"""A Database as a person with kubectl meets it."""

import re
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

DB = "databases.data.konverge.dev/orders"
CHILDREN = [
    "secret/orders-credentials",
    "configmap/orders-config",
    "service/orders-pods",
    "service/orders",
    "poddisruptionbudget/orders",
    "statefulset/orders",
]
QUIET = 60.0
QUIET_AFTER_RESTART = 20.0

pytestmark = pytest.mark.usefixtures("operator")


def database(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "data.konverge.dev/v1alpha1",
        "kind": "Database",
        "metadata": {"name": "orders", "labels": {"argocd.argoproj.io/instance": "shop"}},
        "spec": {"version": "17.2", "replicas": 2, "storage": {"size": "1Gi"}, **spec},
    }


def apply_and_wait(kubectl: Kubectl, **spec: Any) -> None:
    kubectl.apply(database(**spec))
    kubectl.wait_ready(DB)


def phase(kubectl: Kubectl) -> str:
    return str(kubectl.get(DB)["status"].get("phase"))


def versions(kubectl: Kubectl) -> dict[str, str]:
    return {target: kubectl.get(target)["metadata"]["resourceVersion"] for target in (DB, *CHILDREN)}


def test_applied_it_runs(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl, replicas=3)

    header, row = kubectl("get", DB).splitlines()
    assert header.split() == ["NAME", "VERSION", "REPLICAS", "PHASE", "READY", "REASON", "AGE"]
    assert row.split()[:6] == ["orders", "17.2", "3", "Running", "True", "AllReplicasReady"]
    pods = kubectl.list("pods")
    assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 3
    assert kubectl.get("statefulset/orders")["status"]["readyReplicas"] == 3
    assert "argocd.argoproj.io/instance" not in str([kubectl.get(child)["metadata"] for child in CHILDREN])


def test_its_pods_are_admitted_where_pod_security_is_restricted(kubectl: Kubectl) -> None:
    kubectl("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted")
    apply_and_wait(kubectl, replicas=1)


def test_kubectl_scale_changes_the_number_of_pods(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl, replicas=1)

    kubectl("scale", DB, "--replicas=3")
    kubectl.wait_ready(DB)
    assert len(kubectl.list("pods")) == 3
    assert kubectl.get("poddisruptionbudget/orders") is not None
    kubectl("scale", DB, "--replicas=1")
    kubectl.wait_ready(DB)
    assert len(kubectl.list("pods")) == 1
    assert kubectl.get("poddisruptionbudget/orders") is None


def test_a_new_version_is_rolled_out(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)

    kubectl.edit(DB, version="17.4")
    kubectl.wait_ready(DB)

    images = {container["image"] for pod in kubectl.list("pods") for container in pod["spec"]["containers"]}
    assert images == {"docker.io/library/postgres:17.4"}
    assert kubectl.get(DB)["status"]["version"] == "17.4"


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_deleted_by_hand_comes_back(kubectl: Kubectl, child: str) -> None:
    apply_and_wait(kubectl)
    uid = kubectl.get(child)["metadata"]["uid"]

    kubectl("delete", child)

    until(lambda: (kubectl.get(child) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid, f"a new {child}")
    kubectl.wait_ready(DB)


def test_a_child_edited_by_hand_is_put_right(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)

    kubectl("scale", "statefulset/orders", "--replicas=5")
    kubectl("patch", "configmap/orders-config", "--type=merge", "--patch", '{"data": {"pg_hba.conf": "all trust"}}')

    until(lambda: kubectl.get("statefulset/orders")["spec"]["replicas"] == 2, "two replicas again")
    until(lambda: "scram-sha-256" in kubectl.get("configmap/orders-config")["data"]["pg_hba.conf"], "our pg_hba.conf")


def test_suspended_it_has_no_pods_and_keeps_its_data(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)

    kubectl.edit(DB, suspend=True)
    until(lambda: phase(kubectl) == "Suspended", "phase Suspended")
    assert kubectl.condition(DB, "Ready")["status"] == "True"
    assert kubectl.list("pods") == []
    assert len(kubectl.list("persistentvolumeclaims")) == 2
    kubectl.edit(DB, suspend=False)
    until(lambda: phase(kubectl) == "Running", "phase Running")


@pytest.mark.parametrize(("replicas", "words"), [(0, "greater than or equal to 1"), (10, "less than or equal to 9")])
def test_too_few_and_too_many_replicas_are_refused(kubectl: Kubectl, replicas: int, words: str) -> None:
    said = kubectl.refusal(lambda: kubectl.apply(database(replicas=replicas)))

    assert f"spec.replicas in body should be {words}" in said


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"version": "16.1"}, "the major version cannot be changed in place"),
        ({"storage": {"size": "2Gi"}}, "size cannot be changed once it is set"),
        ({"storage": {"size": "1Gi", "storageClassName": "fast"}}, "storageClassName cannot be added"),
        ({"engine": "MySQL"}, 'supported values: "PostgreSQL"'),
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "500m"}}}, "requests.cpu must not exceed limits.cpu"),
        ({"replica": 2}, r'unknown field "(spec\.)?replica"'),
    ],
)
def test_edits_that_cannot_be_honoured_are_refused_with_a_reason(
    kubectl: Kubectl, spec: dict[str, Any], words: str
) -> None:
    kubectl.apply(database())

    assert re.search(words, kubectl.refusal(lambda: kubectl.apply(database(**spec))))


def test_a_reconcile_that_changes_nothing_writes_nothing(kubectl: Kubectl, operator: OperatorProcess) -> None:
    apply_and_wait(kubectl)
    before = versions(kubectl)

    def moved() -> bool:
        return versions(kubectl) != before

    with pytest.raises(AssertionError, match="not within"):
        until(moved, "a write without a cause", within=QUIET)
    assert operator.stop() == 0
    operator.start()
    with pytest.raises(AssertionError, match="not within"):
        until(moved, "a write after a restart", within=QUIET_AFTER_RESTART)


def test_deletion_stops_the_pods_and_keeps_the_volumes(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)
    assert kubectl.get(DB)["metadata"]["finalizers"] == ["data.konverge.dev/database"]

    kubectl("delete", DB, "--timeout=60s")

    assert kubectl.list("pods") == []
    until(lambda: not any(kubectl.get(child) for child in CHILDREN), "the children's collection")
    assert len(kubectl.list("persistentvolumeclaims")) == 2


def test_deletion_of_the_namespace_finishes(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)

    kubectl.cluster.kubectl("delete", "namespace", kubectl.namespace, "--timeout=60s")
