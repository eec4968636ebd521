"""What the scheduler reads of a cluster, for commands that try things out: from the API server, or from a file.

The file is a `List` as `kubectl get nodes,pods,namespaces --all-namespaces --output json` prints it, JSON or YAML. Only reads are
sent. What a cluster does not serve, or does not let us list, counts as empty, and is told.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import click
import yaml

from konverge.errors import ConfigError, Forbidden, NotFound
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.kube.discovery import served_of
from konverge.model.resource import Namespace, Node, Object, Pod, ResourceType
from konverge.ports import Scope
from konverge.runtime.clock import SystemClock
from konverge.scheduler.registry import Registry
from konverge.scheduler.resources import capacity_of, requests_of

Objects = dict[ResourceType, list[Object]]

ALWAYS: Final = (Node, Pod, Namespace)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NO_MATTER: Final = frozenset({"env", "envFrom", "command", "args"})
"""What of a container decides nothing here, and may be secret."""


async def read_cluster(registry: Registry, *, kubeconfig: str | None, context: str | None) -> Objects:
    """All that the scheduler and its plugins read. Raises: CredentialsError; ConnectionFailed; ApiError."""
    client = await connect(kubeconfig, context, clock=SystemClock(), random=Random(), check=False)  # noqa: S311 - jitter
    try:
        optional = sorted(registry.reads | await served_of(client, registry.reads_if_served), key=str)
        listed = await asyncio.gather(*(_list(client, each, must=True) for each in ALWAYS))
        further = await asyncio.gather(*(_list(client, each, must=False) for each in optional))
        return dict(zip((*ALWAYS, *optional), (*listed, *further), strict=True))
    finally:
        await client.close()


def load_cluster(file: Path, registry: Registry) -> Objects:
    """The same from a file. Raises: ConfigError for a file that holds no such list."""
    known = {(each.api_version, each.kind): each for each in (*ALWAYS, *registry.reads, *registry.reads_if_served)}
    found: Objects = {each: [] for each in (*ALWAYS, *registry.reads)}
    for obj in _items(file):
        resource = known.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
        if resource is None:
            continue
        if problem := _problem(resource, obj):
            raise ConfigError(f"{file}: {problem}")
        found.setdefault(resource, []).append(obj)
    if not found[Node]:
        raise ConfigError(
            f"{file} has no Node; make it with --dump, or with `kubectl get nodes,pods,namespaces --all-namespaces --output json`"
        )
    return found


def dump_cluster(file: Path, cluster: Mapping[ResourceType, Sequence[Object]]) -> None:
    """Write such a file, without environments and commands of containers. Raises: ConfigError."""
    items = [_lean(obj) for objects in cluster.values() for obj in objects]
    try:
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1, default=dict) + "\n")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error


async def _list(client: Client, resource: ResourceType, *, must: bool) -> list[Object]:
    found: list[Object] = []
    token = ""
    while True:
        try:
            page = await client.list(resource, Scope(), continue_token=token)
        except (Forbidden, NotFound) as error:
            if must:
                raise
            click.echo(f"note: {resource} cannot be listed and count as none: {error.message}", err=True)
            return []
        found += page.items
        token = page.continue_token
        if not token:
            return found


def _problem(resource: ResourceType, obj: Mapping[str, Any]) -> str:
    """What is wrong with an object that no API server has seen; empty: nothing that would matter."""
    name = (obj.get("metadata") or {}).get("name")
    if not name:
        return f"a {resource.kind} has no metadata.name"
    try:
        if resource == Pod:
            requests_of(obj)
        elif resource == Node:
            capacity_of((obj.get("status") or {}).get("allocatable") or {})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{resource.kind} {name} is not as an API server would have it: {type(error).__name__}: {error}"
    return ""


def _items(file: Path) -> Iterable[Mapping[str, Any]]:
    try:
        text = file.read_text()
        content = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{file} is neither JSON nor YAML: {error}") from error
    items = content.get("items") if isinstance(content, Mapping) else None
    if not isinstance(items, list) or not all(isinstance(each, Mapping) for each in items):
        raise ConfigError(f"{file} is no List of objects: it needs `items`")
    return items


def _lean(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {name: text for name, text in annotations.items() if name != _LAST_APPLIED}
    obj = {**obj, "metadata": metadata}
    if obj["kind"] != Pod.kind:
        return obj
    spec = {name: _lean_containers(value) if _holds_containers(name) else value for name, value in obj["spec"].items()}
    return {**obj, "spec": spec}


def _holds_containers(field: str) -> bool:
    return field in {"containers", "initContainers", "ephemeralContainers"}


def _lean_containers(containers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name not in _NO_MATTER} for each in containers]
