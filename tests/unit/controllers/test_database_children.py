"""What a Database is made of."""

from base64 import b64decode
from typing import Any

import pytest

from konverge.controllers.database import children, config
from tests.unit.controllers.databases import database


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    desired = children.stateful_set(database(**spec), 1, credentials_uid="u1")
    template: dict[str, Any] = desired["spec"]["template"]["spec"]
    return template


def all_children(**spec: Any) -> list[dict[str, Any]]:
    db = database(metadata={"labels": {"argocd.argoproj.io/instance": "shop"}, "annotations": {"a": "b"}}, **spec)
    return [
        children.secret(db, "canary"),
        children.config_map(db),
        children.headless_service(db),
        children.client_service(db),
        children.disruption_budget(db),
        children.stateful_set(db, 3, credentials_uid="u1"),
    ]


def test_no_child_carries_labels_or_annotations_of_the_database() -> None:
    for child in all_children():
        assert "argocd.argoproj.io/instance" not in str(child)
        assert "annotations" not in child["metadata"]


def test_every_child_is_labelled_as_kubernetes_recommends() -> None:
    for child in all_children():
        assert child["metadata"]["labels"]["app.kubernetes.io/name"] == "postgresql"
        assert child["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders"


def test_the_password_is_in_the_secret_and_nowhere_else() -> None:
    secret, *others = all_children()

    assert b64decode(secret["data"]["password"]) == b"canary"
    assert "canary" not in str(others)


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    template = pod({})

    assert template["securityContext"]["runAsNonRoot"] is True
    assert template["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*template["initContainers"], *template["containers"]):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
    assert {next(key for key in volume if key != "name") for volume in template["volumes"]} <= {"configMap", "emptyDir"}
    assert template["automountServiceAccountToken"] is False


def test_every_mount_has_its_volume() -> None:
    template = pod({})
    volumes = {volume["name"] for volume in template["volumes"]} | {"data"}

    for container in (*template["initContainers"], *template["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_data_directory_is_inside_the_volume_and_not_its_root() -> None:
    container = pod({})["containers"][0]
    mount = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "data")
    data = next(entry["value"] for entry in container["env"] if entry["name"] == "PGDATA")

    assert data.startswith(f"{mount}/")


def test_the_version_chooses_the_image() -> None:
    assert pod({"version": "16.4"})["containers"][0]["image"] == "docker.io/library/postgres:16.4"


def test_clients_reach_the_primary_and_names_reach_every_pod() -> None:
    db = database()
    client, headless = children.client_service(db)["spec"], children.headless_service(db)["spec"]

    assert client["selector"]["statefulset.kubernetes.io/pod-name"] == "orders-0"
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert children.stateful_set(db, 3, credentials_uid="u1")["spec"]["serviceName"] == "orders-pods"


def test_selectors_find_the_pods_of_the_template() -> None:
    db = database()
    spec = children.stateful_set(db, 3, credentials_uid="u1")["spec"]
    labels = spec["template"]["metadata"]["labels"]

    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert children.headless_service(db)["spec"]["selector"].items() <= labels.items()
    assert children.disruption_budget(db)["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_volumes_outlive_the_database() -> None:
    spec = children.stateful_set(database(), 3, credentials_uid="u1")["spec"]

    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_the_claim_asks_for_what_the_spec_says() -> None:
    db = database(storage={"size": "20Gi", "storageClassName": "fast"})
    (claim,) = children.stateful_set(db, 1, credentials_uid="u1")["spec"]["volumeClaimTemplates"]

    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"


def test_without_a_storage_class_the_clusters_default_is_used() -> None:
    (claim,) = children.stateful_set(database(), 1, credentials_uid="u1")["spec"]["volumeClaimTemplates"]

    assert "storageClassName" not in claim["spec"]


def test_only_given_resources_are_set() -> None:
    assert pod({"resources": {"requests": {"cpu": "500m"}}})["containers"][0]["resources"] == {
        "requests": {"cpu": "500m"}
    }
    assert pod({})["containers"][0]["resources"] == {}


def template_annotations(credentials_uid: str = "u1", **spec: Any) -> dict[str, str]:
    desired = children.stateful_set(database(**spec), 1, credentials_uid=credentials_uid)
    annotations: dict[str, str] = desired["spec"]["template"]["metadata"]["annotations"]
    return annotations


def test_a_new_configuration_rolls_the_pods() -> None:
    assert template_annotations() == template_annotations()
    assert template_annotations() != template_annotations(resources={"limits": {"memory": "8Gi"}})


def test_a_new_secret_rolls_the_pods() -> None:
    assert template_annotations("u1") != template_annotations("u2")


def test_the_secrets_uid_is_read_back_from_a_live_stateful_set() -> None:
    live = children.stateful_set(database(), 1, credentials_uid="u7")

    assert children.credentials_uid(live) == "u7"
    assert children.credentials_uid({"spec": {"template": {}}}) == ""


@pytest.mark.parametrize(
    ("resources", "mebibytes"),
    [
        ({}, 128),
        ({"requests": {"memory": "2Gi"}}, 512),
        ({"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}}, 1024),
        ({"limits": {"cpu": "2"}}, 128),
        ({"limits": {"memory": "32Mi"}}, 16),
    ],
)
def test_a_quarter_of_the_memory_becomes_shared_buffers(resources: dict[str, Any], mebibytes: int) -> None:
    db = database(resources=resources)

    assert config.shared_buffers(db) == mebibytes
    assert f"shared_buffers = {mebibytes}MB" in config.files(db)["postgresql.conf"]


@pytest.mark.parametrize(("size", "mebibytes"), [("256Mi", 32), ("8Gi", 1024), ("1Ti", 4096)])
def test_the_log_kept_for_standbys_fits_the_volume(size: str, mebibytes: int) -> None:
    assert config.wal_keep(database(storage={"size": size})) == mebibytes


def test_standbys_follow_the_primary() -> None:
    files = config.files(database())

    assert "host=orders-0.orders-pods" in files["postgresql.conf"]
    assert "--host=orders-0.orders-pods" in files["prepare.sh"]
