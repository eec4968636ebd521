"""What the API server serves: the name that a person types flows in, the resource that it means flows out."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from konverge.errors import ApiError, ConfigError
from konverge.kube.client import Client
from konverge.model.resource import ResourceType


@dataclass(frozen=True, slots=True)
class Served:
    """A resource as the server announces it, with all names that it goes by, in lower case."""

    resource: ResourceType
    names: frozenset[str]
    verbs: frozenset[str]


async def discover(client: Client) -> list[Served]:
    """All resources, in the server's order of groups, each in its preferred version.

    A group whose API service is down is left out. Raises: ApiError; ConnectionFailed.
    """
    groups = (await client.read("/apis")).get("groups") or []
    paths = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    documents = await asyncio.gather(*(_document(client, path) for path in paths))
    return [served for document in documents for served in _resources(document)]


def find(served: Iterable[Served], text: str) -> Served:
    """The resource that `text` names: a kind, a plural, a short name, each with or without `.group`; the first one wins.

    Raises: ConfigError when there is none.
    """
    for each in served:
        if text.lower() in each.names:
            return each
    raise ConfigError(f"the server has no resource {text!r}; `kubectl api-resources` lists what it has")


async def served_of(client: Client, resources: Iterable[ResourceType]) -> frozenset[ResourceType]:
    """Those of `resources` that the server has. Raises: ConnectionFailed."""
    asked = sorted(resources, key=str)
    documents = await asyncio.gather(*(_document(client, resource.base_path) for resource in asked))
    return frozenset(
        resource
        for resource, document in zip(asked, documents, strict=True)
        if any(entry["name"] == resource.plural for entry in document.get("resources") or ())
    )


async def _document(client: Client, path: str) -> dict[str, Any]:
    try:
        return await client.read(path)
    except ApiError:
        return {}


def _resources(document: dict[str, Any]) -> Iterable[Served]:
    group, _, version = str(document.get("groupVersion", "")).rpartition("/")
    for entry in document.get("resources") or ():
        if "/" in entry["name"]:
            continue  # a subresource
        plain = {
            entry["name"],
            entry["kind"].lower(),
            entry.get("singularName") or entry["kind"].lower(),
            *(entry.get("shortNames") or ()),
        }
        yield Served(
            ResourceType(group, version, entry["kind"], entry["name"], bool(entry["namespaced"])),
            frozenset(plain | ({f"{name}.{group}" for name in plain} if group else set())),
            frozenset(entry.get("verbs") or ()),
        )
