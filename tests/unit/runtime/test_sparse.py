"""Desired state on the wire: wire names, and nothing that was never set."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, ClassVar

import kubernetes.aio.client
import kubernetes.client
import pytest
from pydantic import BaseModel

from konverge.model.custom import Part
from konverge.model.resource import ConfigMap, Secret
from konverge.runtime.sparse import as_stored, sparse

WANTED = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "imagePullPolicy": "Always",
                        "env": [{"name": "EMPTY", "value": ""}],
                        "ports": [{"containerPort": 80}],
                        "readinessProbe": {"httpGet": {"port": "http"}},
                        "resources": {"limits": {"cpu": "1000m"}},
                    }
                ]
            },
        },
    },
}


@pytest.mark.parametrize("client", [kubernetes.client, kubernetes.aio.client], ids=["sync", "aio"])
def test_models_of_the_kubernetes_client(client: Any) -> None:
    """What was set is sent, zero and empty values too; what was never set is not, at any depth."""
    container = client.V1Container(
        name="web",
        image_pull_policy="Always",
        env=[client.V1EnvVar(name="EMPTY", value="")],
        ports=[client.V1ContainerPort(container_port=80)],
        readiness_probe=client.V1Probe(http_get=client.V1HTTPGetAction(port="http")),
        resources=client.V1ResourceRequirements(limits={"cpu": "1000m"}),
    )
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(), spec=client.V1PodSpec(containers=[container]))
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web", labels={"app": "web"}),
        spec=client.V1DeploymentSpec(replicas=0, selector=selector, template=template),
    )
    assert sparse(deployment) == WANTED


@pytest.mark.parametrize("client", [kubernetes.client, kubernetes.aio.client], ids=["sync", "aio"])
def test_fields_whose_names_are_reserved_words(client: Any) -> None:
    rule = client.V1NetworkPolicyIngressRule(_from=[client.V1NetworkPolicyPeer(pod_selector=client.V1LabelSelector())])
    assert sparse(rule) == {"from": [{"podSelector": {}}]}
    assert sparse(client.V1Probe(_exec=client.V1ExecAction(command=["true"]))) == {"exec": {"command": ["true"]}}


@pytest.mark.parametrize("client", [kubernetes.client, kubernetes.aio.client], ids=["sync", "aio"])
def test_the_wire_name_of_every_field_is_the_client_s_own(client: ModuleType) -> None:
    """The names that pydantic writes are those of the client's `attribute_map`, over all that a workload is made of."""
    for kind in ("Deployment", "StatefulSet", "CronJob", "NetworkPolicy", "Ingress", "CustomResourceDefinition"):
        getattr(client, f"V1{kind}")  # loads it, and what it is made of
    models = [
        each
        for each in BaseModel.__subclasses__()
        if each.__module__.startswith(f"{client.__name__}.") and hasattr(each, "attribute_map")
    ]
    assert len(models) > 100
    for model in models:
        written = {info.serialization_alias or info.alias or name for name, info in model.model_fields.items()}
        assert written == set(getattr(model, "attribute_map").values()), model  # noqa: B009 - of models alone


def test_an_attribute_set_later_is_sent_and_one_unset_is_not() -> None:
    container = kubernetes.client.V1Container(name="web", image="a")
    container.image_pull_policy = "Never"
    container.image = None
    assert sparse(container) == {"name": "web", "imagePullPolicy": "Never"}


class OldStyle:
    """As the client's models were up to version 36: plain classes."""

    openapi_types: ClassVar[Mapping[str, str]] = {"api_version": "str", "_from": "list", "seen_at": "datetime"}
    attribute_map: ClassVar[Mapping[str, str]] = {"api_version": "apiVersion", "_from": "from", "seen_at": "seenAt"}

    def __init__(self, api_version: str | None = None, _from: Any = None, seen_at: datetime | None = None) -> None:
        self.api_version, self._from, self.seen_at = api_version, _from, seen_at


def test_plain_classes_with_an_attribute_map() -> None:
    inner = OldStyle(seen_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert sparse(OldStyle(_from=[inner, {"more": OldStyle("v1")}])) == {
        "from": [{"seenAt": "2026-01-02T00:00:00+00:00"}, {"more": {"apiVersion": "v1"}}]
    }


def test_models_inside_mappings_and_nothing_changed_in_a_mapping() -> None:
    port = kubernetes.client.V1ServicePort(port=80, target_port="http")
    given: dict[str, Any] = {"spec": {"ports": (port,), "clusterIP": None, "externalIPs": []}}
    assert sparse(given) == {
        "spec": {"ports": [{"port": 80, "targetPort": "http"}], "clusterIP": None, "externalIPs": []}
    }


def test_models_of_one_s_own() -> None:
    class Limits(Part):
        max_size: int = 3
        min_size: int = 0

    assert sparse(Limits(min_size=1)) == {"minSize": 1}


@pytest.mark.parametrize("value", [object(), "text", None, ["a"], {"x": {1, 2}}, {"x": b"bytes"}])
def test_what_cannot_be_sent_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"desired state is a mapping or a model|cannot be sent"):
        sparse(value)


def test_the_string_data_of_a_secret_is_sent_as_the_server_will_show_it() -> None:
    body = {"stringData": {"a": "1", "b": "2"}, "data": {"b": "b3Zlcg==", "c": "a2VwdA=="}, "type": "x"}
    assert as_stored(Secret, body) == {"data": {"a": "MQ==", "b": "Mg==", "c": "a2VwdA=="}, "type": "x"}
    assert as_stored(ConfigMap, body) is body
    assert as_stored(Secret, {"data": {"c": "a2VwdA=="}}) == {"data": {"c": "a2VwdA=="}}
