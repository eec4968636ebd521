"""What the API server knows of one object: its children as a tree, and its events."""

from typing import Any

from konverge.cli.story import EVENT, _children, _events
from konverge.errors import ApiError
from konverge.kube.discovery import Served
from konverge.model.meta import owner_reference
from konverge.model.resource import ConfigMap, Object, Pod, ReplicaSet, ResourceType, Secret
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, Lamp

LIST = frozenset({"get", "list"})


def served(*resources: ResourceType) -> list[Served]:
    return [Served(each, frozenset({each.plural}), LIST) for each in resources]


async def make(api: FakeApi, resource: ResourceType, name: str, owner: Object | None = None, **more: Any) -> Object:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner)]
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **more}
    return await api.create(resource, body, NAMESPACE)


@simulate()
async def test_children_are_a_tree_by_owner_references_over_usual_and_custom_kinds(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    owner = await make(api, Gadget.resource, "one")
    sets = await make(api, ReplicaSet, "one-abc", owner, spec={"replicas": 1})
    await make(api, Pod, "one-abc-1", sets)
    await make(api, Lamp.resource, "glow", owner)
    await make(api, ConfigMap, "one", owner)
    await make(api, ConfigMap, "stranger", await make(api, Gadget.resource, "two"))
    kinds = served(ConfigMap, Pod, ReplicaSet, Gadget.resource, Lamp.resource)
    children, hidden = await _children(api, kinds, owner, NAMESPACE)
    assert [(child["depth"], child["kind"], child["name"]) for child in children] == [
        (0, "ConfigMap", "one"),
        (0, "Lamp", "glow"),
        (0, "ReplicaSet", "one-abc"),
        (1, "Pod", "one-abc-1"),
    ]
    assert hidden == ()


@simulate()
async def test_kinds_that_may_not_be_listed_are_named_and_those_that_fail_hide_no_other(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    owner = await make(api, Gadget.resource, "one")
    await make(api, ConfigMap, "one", owner)
    api.faults.inject(ApiError.of(403, "Forbidden", "no"), verbs=["list"], resource=Secret, times=9)
    api.faults.inject(ApiError.of(500, "InternalError", "no"), verbs=["list"], resource=Pod, times=9)
    children, hidden = await _children(api, served(Secret, Pod, ConfigMap), owner, NAMESPACE)
    assert [child["kind"] for child in children] == ["ConfigMap"]
    assert hidden == ("secrets",)


@simulate()
async def test_who_may_not_see_events_is_told_none(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    owner = await make(api, Gadget.resource, "one")
    api.faults.inject(ApiError.of(403, "Forbidden", "no"), verbs=["list"], resource=EVENT, times=9)
    assert await _events(api, owner, NAMESPACE) == []
