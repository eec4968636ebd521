"""The CRDs of the two resources: what a person reads with `kubectl explain`, and what CEL's cost limit needs."""

from collections.abc import Iterator
from typing import Any

import pytest

from konverge.controllers.database import Database
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.model.crd import crd_of
from konverge.model.custom import CustomResource

RESOURCES: list[type[CustomResource[Any, Any]]] = [Database, SchedulingPolicy]


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    if isinstance(items := schema.get("items"), dict):
        yield from fields(items, f"{path}[]")


def root(resource: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = crd_of(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_field_of_spec_and_status_is_described(resource: type[CustomResource[Any, Any]]) -> None:
    properties = root(resource)["properties"]
    bare = [
        path
        for part in ("spec", "status")
        for path, schema in fields(properties[part], part)
        if not schema.get("description")
    ]

    assert bare == []


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_string_and_list_of_the_spec_is_bounded(resource: type[CustomResource[Any, Any]]) -> None:
    unbounded = [
        path
        for path, schema in fields(root(resource)["properties"]["spec"], "spec")
        if (schema.get("type") == "string" and not schema.keys() & {"maxLength", "enum"})
        or (schema.get("type") == "array" and "maxItems" not in schema)
    ]

    assert unbounded == []


@pytest.mark.parametrize("resource", RESOURCES)
def test_nothing_optional_may_be_null(resource: type[CustomResource[Any, Any]]) -> None:
    assert "nullable" not in str(root(resource))


def test_a_database_can_be_scaled() -> None:
    subresources = crd_of(Database)["spec"]["versions"][0]["subresources"]

    assert subresources["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
