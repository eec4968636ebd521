"""What the server serves, by the names that people use."""

from typing import Any

import pytest
from aiohttp import web

from konverge.errors import ConfigError
from konverge.kube import Client
from konverge.kube.discovery import discover, find, served_of
from konverge.model.resource import Deployment, Node, Pod, ResourceType
from tests.unit.kube.serving import ScriptedServer, refuses, replies


def entry(name: str, kind: str, *, namespaced: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get", "list"], **more}


DOCUMENTS = {
    "/apis": {
        "groups": [
            {"name": name, "preferredVersion": {"groupVersion": f"{name}/v1"}}
            for name in ("apps", "metrics.k8s.io", "shop.example")
        ]
    },
    "/api/v1": {
        "groupVersion": "v1",
        "resources": [
            entry("pods", "Pod", singularName="pod", shortNames=["po"]),
            entry("pods/log", "Pod"),
            entry("nodes", "Node", namespaced=False, singularName=""),
        ],
    },
    "/apis/apps/v1": {
        "groupVersion": "apps/v1",
        "resources": [entry("deployments", "Deployment", singularName="deployment", shortNames=["deploy"])],
    },
    "/apis/shop.example/v1": {"groupVersion": "shop.example/v1", "resources": [entry("pods", "Pod", verbs=["get"])]},
}


async def documents(request: web.Request) -> web.StreamResponse:
    document = DOCUMENTS.get(request.path)
    return await (replies(document) if document else refuses(503, "ServiceUnavailable"))(request)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("pod", Pod),
        ("PODS", Pod),
        ("po", Pod),
        ("Node", Node),
        ("deploy", Deployment),
        ("deployment.apps", Deployment),
        ("deploy.apps", Deployment),
        ("pods.shop.example", ResourceType("shop.example", "v1", "Pod", "pods")),
    ],
)
async def test_a_resource_goes_by_all_its_names_and_the_first_group_wins(
    server: ScriptedServer, client: Client, text: str, resource: ResourceType
) -> None:
    server.answers(documents)
    assert find(await discover(client), text).resource == resource


async def test_a_group_that_is_down_hides_no_other_and_subresources_are_none(
    server: ScriptedServer, client: Client
) -> None:
    server.answers(documents)
    served = await discover(client)
    assert [each.resource.name for each in served] == ["pods", "nodes", "deployments.apps", "pods.shop.example"]
    assert served[-1].verbs == {"get"}


async def test_a_name_that_is_none_is_refused(server: ScriptedServer, client: Client) -> None:
    server.answers(documents)
    with pytest.raises(ConfigError, match="the server has no resource 'wheel'; `kubectl api-resources`"):
        find(await discover(client), "wheel")


async def test_what_a_server_may_lack_is_looked_up_by_its_group(server: ScriptedServer, client: Client) -> None:
    server.answers(documents)
    wheels = ResourceType("shop.example", "v1", "Wheel", "wheels")
    topologies = ResourceType("topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies")
    assert await served_of(client, [Deployment, wheels, topologies]) == {Deployment}
