"""Pod templates, selectable fields and tightened bounds on the real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import Field

from konverge.errors import BadRequest, Invalid
from konverge.model.crd import crd_of
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.embedded import PodTemplate
from konverge.testing import Cluster
from tests.e2e.kubectl import until
from tests.parity.conftest import CRDS, InstallCrd
from tests.unit.model.test_embedded import TEMPLATE, Job

pytestmark = pytest.mark.e2e

GROUP = "/apis/jobs.example.dev/v1"


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, install_crd: InstallCrd) -> Iterator[str]:
    """The path of the jobs in a namespace."""
    install_crd(Job)
    namespace = cluster.create_namespace("jobs")
    yield f"{GROUP}/namespaces/{namespace}/jobs"
    cluster.request("DELETE", f"{CRDS}/{Job.resource.name}")
    cluster.delete_namespace(namespace)


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "jobs.example.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_a_pod_template_is_kept_whole(cluster: Cluster, jobs: str) -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "inventedLater": {"deep": [1, {"x": True}]}}}
    kept = cluster.request("POST", f"{jobs}?fieldValidation=Strict", job("whole", template=template))
    assert kept["spec"]["template"] == template


def test_what_is_wrong_in_a_pod_template_is_told_where_it_is_used(cluster: Cluster, jobs: str, namespace: str) -> None:
    template = PodTemplate.model_validate({"metadata": {"labels": {"a": "b"}}, "spec": {"contaners": []}})
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template.manifest()}
    child = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "child"}, "spec": spec}
    with pytest.raises(BadRequest, match=r'unknown field "spec\.template\.spec\.contaners"'):
        cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments?fieldValidation=Strict", child)


def test_a_secret_is_named_and_cannot_be_said(cluster: Cluster, jobs: str) -> None:
    token = {"name": "of-mine", "key": "token.txt"}
    kept = cluster.request("POST", f"{jobs}?fieldValidation=Strict", job("named", template=TEMPLATE, token=token))
    assert kept["spec"]["token"] == token
    for wrong in ({"name": "Of Mine", "key": "a"}, {"name": "of-mine", "key": "a/b"}, {"name": "of-mine"}, "s3cret"):
        assert "spec.token" in refused(cluster, "POST", jobs, job("wrong", template=TEMPLATE, token=wrong))
    with pytest.raises(BadRequest, match=r'unknown field "spec\.token\.value"'):
        cluster.request(
            "POST", f"{jobs}?fieldValidation=Strict", job("said", template=TEMPLATE, token={**token, "value": "s3cret"})
        )


def test_objects_are_selected_by_the_fields_that_are_declared(cluster: Cluster, jobs: str) -> None:
    for name, queue, urgent in (("one", "red", True), ("two", "blue", True), ("three", "red", False)):
        cluster.request("POST", jobs, job(name, template=TEMPLATE, queue=queue, urgent=urgent))

    def selected(selector: str) -> set[str]:
        items = cluster.request("GET", f"{jobs}?fieldSelector={selector}")["items"]
        return {item["metadata"]["name"] for item in items}

    assert selected("spec.queue%3Dred") == {"one", "three"}
    assert selected("spec.queue%3Dred,spec.urgent%3Dtrue") == {"one"}


def task(longest: int) -> type[CustomResource[Any, Any]]:
    """A resource whose queue may have so many letters."""

    class TaskSpec(Spec):
        queue: str = Field(max_length=longest)
        urgent: bool = False

    class Task(CustomResource[TaskSpec, Status], group="jobs.example.dev", version="v1"):
        pass

    return Task


def test_a_tightened_bound_lets_old_values_stay_while_the_rest_is_edited(
    cluster: Cluster, jobs: str, install_crd: InstallCrd
) -> None:
    install_crd(task(20))
    path = jobs.removesuffix("/jobs") + "/tasks"
    old = cluster.request("POST", path, {**job("old", queue="much-longer"), "kind": "Task"})
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(crd_of(task(3))))
    another = {**job("new", queue="much-longer"), "kind": "Task"}
    until(lambda: refused(cluster, "POST", f"{path}?dryRun=All", another), "the server holds new objects to the bound")
    assert "spec.queue: Too long: may not be more than 3 bytes" in refused(cluster, "POST", path, another)

    edited = cluster.request("PUT", f"{path}/old", {**old, "spec": {**old["spec"], "urgent": True}})
    assert edited["spec"] == {"queue": "much-longer", "urgent": True}
    longer = {**edited, "spec": {**edited["spec"], "queue": "also-longer"}}
    assert "spec.queue: Too long" in refused(cluster, "PUT", f"{path}/old", longer)
    cluster.request("DELETE", f"{CRDS}/tasks.jobs.example.dev")


def refused(cluster: Cluster, method: str, path: str, body: dict[str, Any]) -> str:
    """Why the server refuses; empty when it does not."""
    try:
        cluster.request(method, path, body)
    except Invalid as error:
        return str(error)
    return ""
