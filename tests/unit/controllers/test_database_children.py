"""What a Database is made of."""

from base64 import b64decode
from typing import Any

import pytest

from konverge.controllers.database import children, config, credentials
from tests.unit.controllers.databases import database


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    desired = children.stateful_set(database(**spec), 1, "10Gi")
    template: dict[str, Any] = desired["spec"]["template"]["spec"]
    return template


def all_children(**spec: Any) -> list[dict[str, Any]]:
    db = database(metadata={"labels": {"argocd.argoproj.io/instance": "shop"}, "annotations": {"a": "b"}}, **spec)
    return [
        credentials.stored(children.labels(db), "canary", ""),
        credentials.binding(db, children.labels(db), "canary"),
        children.config_map(db),
        children.headless_service(db),
        children.client_service(db),
        children.disruption_budget(db),
        children.stateful_set(db, 3, "10Gi"),
    ]


def test_no_child_carries_labels_or_annotations_of_the_database() -> None:
    for child in all_children():
        assert "argocd.argoproj.io/instance" not in str(child)
        assert "annotations" not in child["metadata"]


def test_every_child_is_labelled_as_kubernetes_recommends() -> None:
    for child in all_children():
        assert child["metadata"]["labels"]["app.kubernetes.io/name"] == "postgresql"
        assert child["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders"


def test_the_password_is_in_the_secrets_and_nowhere_else() -> None:
    secret, binding, *others = all_children()

    assert b64decode(secret["data"]["password"]) == b64decode(binding["data"]["password"]) == b"canary"
    assert "canary" not in str(others)


def test_no_environment_variable_holds_a_secret() -> None:
    template = pod({})

    for container in (*template["initContainers"], *template["containers"]):
        assert not any("secretKeyRef" in str(variable) for variable in container["env"])


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    template = pod({})

    assert template["securityContext"]["runAsNonRoot"] is True
    assert template["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*template["initContainers"], *template["containers"]):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
    assert {next(key for key in volume if key != "name") for volume in template["volumes"]} <= {
        "configMap",
        "secret",
        "emptyDir",
    }
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
    assert children.stateful_set(db, 3, "10Gi")["spec"]["serviceName"] == "orders-pods"


def test_selectors_find_the_pods_of_the_template() -> None:
    db = database()
    spec = children.stateful_set(db, 3, "10Gi")["spec"]
    labels = spec["template"]["metadata"]["labels"]

    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert children.headless_service(db)["spec"]["selector"].items() <= labels.items()
    assert children.disruption_budget(db)["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_volumes_outlive_the_stateful_set_whatever_becomes_of_the_database() -> None:
    spec = children.stateful_set(database(deletionPolicy="Delete"), 3, "10Gi")["spec"]

    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_pods_are_replaced_from_the_last_follower_to_the_primary() -> None:
    spec = children.stateful_set(database(), 3, "10Gi")["spec"]

    assert (spec["updateStrategy"], spec["podManagementPolicy"]) == ({"type": "RollingUpdate"}, "OrderedReady")
    assert children.client_service(database())["spec"]["selector"]["statefulset.kubernetes.io/pod-name"].endswith("-0")


def test_the_claim_asks_for_what_the_spec_says() -> None:
    db = database(storage={"size": "20Gi", "storageClassName": "fast"})
    (claim,) = children.stateful_set(db, 1, "20Gi")["spec"]["volumeClaimTemplates"]

    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"


def test_without_a_storage_class_the_clusters_default_is_used() -> None:
    (claim,) = children.stateful_set(database(), 1, "10Gi")["spec"]["volumeClaimTemplates"]

    assert "storageClassName" not in claim["spec"]


def test_only_given_resources_are_set() -> None:
    assert pod({"resources": {"requests": {"cpu": "500m"}}})["containers"][0]["resources"] == {
        "requests": {"cpu": "500m"}
    }
    assert pod({})["containers"][0]["resources"] == {}


def template_annotations(**spec: Any) -> dict[str, str]:
    desired = children.stateful_set(database(**spec), 1, "10Gi")
    annotations: dict[str, str] = desired["spec"]["template"]["metadata"]["annotations"]
    return annotations


def test_a_new_configuration_rolls_the_pods() -> None:
    assert template_annotations() == template_annotations()
    assert template_annotations() != template_annotations(resources={"limits": {"memory": "8Gi"}})


def test_a_larger_volume_does_not() -> None:
    assert template_annotations() == template_annotations(storage={"size": "20Gi"})


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


def environment(**spec: Any) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod(spec)["containers"][0]["env"] if "value" in entry}


def test_standbys_follow_the_primary() -> None:
    given = environment()

    assert (given["PRIMARY_POD"], given["PRIMARY_HOST"]) == ("orders-0", "orders-0.orders-pods")
    assert given["PEERS"].split()[0] == "orders-1.orders-pods:5432"


def test_the_number_of_replicas_changes_nothing_in_a_pod() -> None:
    assert pod({"replicas": 2}) == pod({"replicas": 9})


def test_the_scripts_that_run_in_the_pod_are_mounted_into_it() -> None:
    files = config.files(database())
    template = pod({})
    container = template["containers"][0]
    probes = [container[probe]["exec"]["command"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")]

    for command in (template["initContainers"][0]["command"], container["command"], *probes):
        assert command[0] == "bash"
        assert files[command[1].removeprefix("/etc/postgresql/")].startswith("#!/usr/bin/env bash")
    assert [command[2] for command in probes] == ["live", "ready", "live"]
    assert "promote.sh" in files


def entries(secret: dict[str, Any]) -> dict[str, str]:
    return {name: b64decode(value).decode() for name, value in secret["data"].items()}


def test_the_binding_tells_all_that_a_client_needs() -> None:
    secret = credentials.binding(database(), {}, "p@ss/word")

    assert secret["type"] == "servicebinding.io/postgresql"
    assert entries(secret) == {
        "type": "postgresql",
        "provider": "konverge",
        "host": "orders.shop.svc",
        "port": "5432",
        "database": "postgres",
        "username": "postgres",
        "password": "p@ss/word",
        "uri": "postgresql://postgres:p%40ss%2Fword@orders.shop.svc:5432/postgres",
    }


@pytest.mark.parametrize(
    ("data", "password"),
    [
        ({"password": "c2VjcmV0"}, "secret"),
        ({"password": "c2VjcmV0Cg=="}, "secret"),
        ({"password": ""}, None),
        ({"password": "YQBi"}, None),
        ({"password": "no base64"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_password_that_no_server_takes_is_none(data: dict[str, str] | None, password: str | None) -> None:
    assert credentials.password_of({"metadata": {}, "data": data}) == password


def test_every_new_password_is_another_and_long() -> None:
    made = {credentials.generate() for _ in range(100)}

    assert len(made) == 100
    assert all(len(password) >= 32 for password in made)
