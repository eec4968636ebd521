"""Pod templates and metadata in a spec, and fields to select by."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from konverge.errors import ModelError
from konverge.model.crd import crd_of
from konverge.model.custom import CustomResource, Part, Spec, Status
from konverge.model.embedded import EmbeddedMeta, PodTemplate, SecretKeyRef
from konverge.model.fields import ListMap
from konverge.runtime.sparse import sparse


class Port(Part):
    name: str = Field(max_length=63)


class JobSpec(Spec):
    template: PodTemplate
    queue: str = Field(default="", max_length=63)
    urgent: bool = False
    limits: dict[str, int] = Field(default={}, max_length=8)
    ports: Annotated[list[Port], ListMap("name")] = Field(default=[], max_length=8)
    token: SecretKeyRef | None = None


class Job(
    CustomResource[JobSpec, Status],
    group="jobs.example.dev",
    version="v1",
    selectable=[".spec.queue", ".spec.urgent"],
):
    pass


TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "env": [{"name": "x"}]}]},
}


def test_a_pod_template_does_not_put_the_pods_schema_into_the_crd() -> None:
    fields = crd_of(Job)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec = fields["template"]["properties"]["spec"]
    assert spec == {
        "description": "A PodSpec (see `kubectl explain pod.spec`).",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert list(fields["template"]["properties"]["metadata"]["properties"]) == ["labels", "annotations"]


def test_a_pod_template_goes_into_a_child_as_it_was_written() -> None:
    template = PodTemplate.model_validate(TEMPLATE)
    assert template.metadata == EmbeddedMeta(labels={"a": "b"})
    assert template.manifest() == TEMPLATE


def test_a_secret_is_named_by_a_reference_that_goes_into_a_child_as_it_is() -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": SecretKeyRef(name="of-mine", key="token.txt")}}]
    assert sparse({"env": env}) == {
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "of-mine", "key": "token.txt"}}}]
    }


def test_selectable_fields_stand_in_the_crd() -> None:
    assert crd_of(Job)["spec"]["versions"][0]["selectableFields"] == [
        {"jsonPath": ".spec.queue"},
        {"jsonPath": ".spec.urgent"},
    ]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([".spec.nothing"], r"selectable: \.spec\.nothing leads nowhere at 'nothing'"),
        ([".spec.template"], r"selectable: \.spec\.template must be a string, an integer or a boolean"),
        ([".spec.limits.cpu"], r"selectable: \.spec\.limits\.cpu must be a string"),
        ([".spec.ports[0].name"], r"selectable: \.spec\.ports\[0\]\.name must be a string.* outside of lists"),
        ([".spec.queue"] * 9, "9 selectable fields, and the server takes 8; use labels"),
    ],
)
def test_what_cannot_be_selected_by_is_refused(paths: list[str], message: str) -> None:
    class Bad(CustomResource[JobSpec, Status], group="jobs.example.dev", version="v1", selectable=paths):
        pass

    with pytest.raises(ModelError, match=f"^Bad: {message}"):
        crd_of(Bad)


def test_a_pod_template_needs_its_spec() -> None:
    schema: Any = crd_of(Job)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["properties"]["template"]["required"] == ["spec"]
