"""A Database as a person with kubectl meets it."""

import re
from base64 import b64decode
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

DB = "databases.data.konverge.dev/orders"
CHILDREN = [
    "secret/orders-credentials",
    "secret/orders-binding",
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


def pods(kubectl: Kubectl) -> dict[str, str]:
    """The pods that are there to stay: their uids by name."""
    live = [pod["metadata"] for pod in kubectl.list("pods")]
    return {metadata["name"]: metadata["uid"] for metadata in live if "deletionTimestamp" not in metadata}


def sizes(kubectl: Kubectl) -> dict[str, str]:
    """How large the volumes are, by their claims."""
    claims = kubectl.list("persistentvolumeclaims")
    return {claim["metadata"]["name"]: claim["status"]["capacity"]["storage"] for claim in claims}


def secret(kubectl: Kubectl, name: str) -> dict[str, str]:
    """What a Secret holds, decoded."""
    data = kubectl.get(f"secret/{name}")["data"]
    return {key: b64decode(value).decode() for key, value in data.items()}


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


def test_followers_are_replaced_first_and_the_primary_last(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl, replicas=3)

    kubectl.edit(DB, version="17.4")
    kubectl.wait_ready(DB)

    deletions = [event for event in kubectl.list("events") if event["reason"] == "SuccessfulDelete"]
    deletions.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    assert [event["message"].split()[2] for event in deletions] == ["orders-2", "orders-1", "orders-0"]


def test_scaling_down_removes_the_last_follower(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl, replicas=3)
    before = pods(kubectl)

    kubectl("scale", DB, "--replicas=2")
    kubectl.wait_ready(DB)

    assert pods(kubectl) == {name: uid for name, uid in before.items() if name != "orders-2"}


def test_volumes_grow_under_running_pods(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)
    before, first = pods(kubectl), kubectl.get("statefulset/orders")["metadata"]["uid"]

    kubectl.edit(DB, storage={"size": "2Gi"})
    until(lambda: (kubectl.get(DB)["status"].get("storage"), phase(kubectl)) == ("2Gi", "Running"), "larger volumes")

    assert pods(kubectl) == before, "no pod was restarted"
    stateful_set = kubectl.get("statefulset/orders")
    assert stateful_set["metadata"]["uid"] != first
    assert sizes(kubectl) == {"data-orders-0": "2Gi", "data-orders-1": "2Gi"}
    kubectl("scale", DB, "--replicas=3")
    kubectl.wait_ready(DB)
    assert sizes(kubectl)["data-orders-2"] == "2Gi"


def test_a_storage_class_that_cannot_grow_is_named_until_it_can(kubectl: Kubectl) -> None:
    name = f"fixed-{kubectl.namespace}"
    kubectl.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": kubectl.get("storageclass/standard")["provisioner"],
            "allowVolumeExpansion": False,
        }
    )
    try:
        apply_and_wait(kubectl, replicas=1, storage={"size": "1Gi", "storageClassName": name})

        kubectl.edit(DB, storage={"size": "2Gi"})
        until(lambda: kubectl.condition(DB, "Ready").get("reason") == "VolumeExpansionUnsupported", "a reason")
        assert f"StorageClass {name} does not let volumes grow" in kubectl.condition(DB, "Ready")["message"]
        assert len(pods(kubectl)) == 1
        kubectl("patch", f"storageclass/{name}", "--type=merge", "--patch", '{"allowVolumeExpansion": true}')
        until(lambda: sizes(kubectl) == {"data-orders-0": "2Gi"}, "a larger volume", within=120)
        kubectl.wait_ready(DB)
    finally:
        kubectl("delete", f"storageclass/{name}")


def test_a_new_password_on_request(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)
    before, running = secret(kubectl, "orders-credentials")["password"], pods(kubectl)

    kubectl("annotate", DB, "data.konverge.dev/rotate-password=2026-11")
    until(lambda: kubectl.get(DB)["status"].get("passwordRotation") == "2026-11", "the new password")

    after = secret(kubectl, "orders-credentials")["password"]
    assert after != before
    assert secret(kubectl, "orders-binding")["password"] == after
    assert pods(kubectl) == running, "no pod was restarted"
    kubectl("annotate", DB, "data.konverge.dev/rotate-password-", "a=b")
    kubectl.edit(DB, replicas=1)
    kubectl.wait_ready(DB)
    assert secret(kubectl, "orders-credentials")["password"] == after


def test_applications_find_how_to_connect(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl, replicas=1)
    name = kubectl.get(DB)["status"]["binding"]["name"]
    found, password = secret(kubectl, name), secret(kubectl, "orders-credentials")["password"]

    assert kubectl.get(f"secret/{name}")["type"] == "servicebinding.io/postgresql"
    host = f"orders.{kubectl.namespace}.svc"
    assert kubectl.get(DB)["status"]["endpoint"] == f"{host}:5432"
    assert found == {
        "type": "postgresql",
        "provider": "konverge",
        "host": host,
        "port": "5432",
        "database": "postgres",
        "username": "postgres",
        "password": password,
        "uri": f"postgresql://postgres:{password}@{host}:5432/postgres",
    }


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
        ({"storage": {"size": "1023Mi"}}, "storage.size cannot shrink"),
        ({"storage": {"size": 1000000000}}, "storage.size cannot shrink"),
        ({"storage": {"size": "1Gi", "storageClassName": "fast"}}, "storageClassName cannot be added"),
        ({"deletionPolicy": "Keep"}, 'supported values: "Retain", "Delete"'),
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


def test_the_deletion_policy_delete_deletes_all_volumes(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)
    kubectl("scale", DB, "--replicas=1")
    kubectl.wait_ready(DB)
    kubectl.edit(DB, suspend=True)
    until(lambda: phase(kubectl) == "Suspended", "phase Suspended")
    kubectl.edit(DB, deletionPolicy="Delete")

    kubectl("delete", DB, "--timeout=60s")

    until(lambda: not kubectl.list("persistentvolumeclaims"), "the end of the volumes, also of a pod scaled away")


def test_a_database_of_the_same_name_takes_up_the_kept_volumes(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)
    kept = {claim["metadata"]["uid"] for claim in kubectl.list("persistentvolumeclaims")}
    kubectl("delete", DB, "--timeout=60s")

    apply_and_wait(kubectl)

    assert {claim["metadata"]["uid"] for claim in kubectl.list("persistentvolumeclaims")} == kept


def test_deletion_of_the_namespace_finishes(kubectl: Kubectl) -> None:
    apply_and_wait(kubectl)

    kubectl.cluster.kubectl("delete", "namespace", kubectl.namespace, "--timeout=60s")
