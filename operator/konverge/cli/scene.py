"""What `konverge demo` shows: the custom resources and their pods as the API server has them, as rows of a table."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.table import Table

from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.model import meta
from konverge.model.conditions import READY, find
from konverge.model.resource import Object, Pod, ResourceType
from konverge.testing.access import Cluster

COLUMNS: Final = ("KIND", "NAME", "PHASE", "READY", "REASON", "NODE", "AGE")
MANAGED_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")


class Row(NamedTuple):
    """One object as the table shows it."""

    kind: str
    name: str
    phase: str
    ready: str
    reason: str
    node: str
    age: str

    @property
    def settled(self) -> bool:
        """Whether it is as it should be."""
        return self.ready == "True"


class Scene:
    """The objects of the demo. `refresh` reads them anew and yields a line for each that changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._resources = [kind.resource for kind in resource_classes(BUILT_IN)]
        self._rows: dict[tuple[str, str], Row] = {}

    @property
    def ready(self) -> bool:
        """Whether there is a custom resource of every kind and everything is as it should be."""
        kinds = {row.kind for row in self._rows.values()}
        return {resource.kind for resource in self._resources} < kinds and all(
            row.settled for row in self._rows.values()
        )

    def refresh(self) -> Iterator[str]:
        """Read all objects; yield `Database default/demo: Provisioning, Ready=Unknown (...)` for what changed."""
        now = datetime.now(UTC)
        rows: dict[tuple[str, str], Row] = {}
        for resource in [*self._resources, Pod]:
            for obj in self._list(resource):
                row = _pod_row(obj, now) if resource is Pod else _resource_row(obj, resource.kind, now)
                rows[row.kind, row.name] = row
        for key, row in rows.items():
            before = self._rows.get(key)
            if before is None or before[:-1] != row[:-1]:
                node = f" on {row.node}" if row.node else ""
                yield f"{row.kind} {row.name}: {row.phase or '-'}{node}, Ready={row.ready} ({row.reason})"
        self._rows = rows

    def table(self) -> Table:
        """The rows, as `kubectl get` would align them."""
        table = Table(*COLUMNS, box=None, header_style="bold", pad_edge=False)
        for row in self._rows.values():
            table.add_row(*row, style="green" if row.settled else "yellow")
        return table

    def _list(self, resource: ResourceType) -> Iterator[Object]:
        items = self._cluster.request("GET", resource.path()).get("items") or []
        yield from (item for item in items if meta.key_of(item).namespace not in MANAGED_NAMESPACES)


def _resource_row(obj: Object, kind: str, now: datetime) -> Row:
    status: Mapping[str, Any] = obj.get("status") or {}
    ready = find(status.get("conditions") or [], READY) or {}
    observed = status.get("observedGeneration") == meta.generation_of(obj)
    verdict = str(ready.get("status", "Unknown")) if observed else "Unknown"
    return Row(
        kind,
        str(meta.key_of(obj)),
        str(status.get("phase") or ""),
        verdict,
        str(ready.get("reason", "")),
        "",
        _age(obj, now),
    )


def _pod_row(obj: Object, now: datetime) -> Row:
    status: Mapping[str, Any] = obj.get("status") or {}
    conditions = status.get("conditions") or []
    ready = str((find(conditions, READY) or {}).get("status", "Unknown"))
    waiting = next((str(c["reason"]) for c in conditions if c.get("status") == "False" and c.get("reason")), "")
    node = str(obj["spec"].get("nodeName") or "")
    return Row("Pod", str(meta.key_of(obj)), str(status.get("phase") or ""), ready, waiting, node, _age(obj, now))


def _age(obj: Object, now: datetime) -> str:
    created = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    return f"{max(0, int((now - created).total_seconds()))}s"
