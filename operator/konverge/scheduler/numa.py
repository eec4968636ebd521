"""NUMA zones of nodes: what each has free, and whether a pod's requests fit one of them.

In flow NodeResourceTopology objects, which an agent on each node keeps up to date, or where there is none an annotation of
the node that says what the zones hold; out flow amounts by zone. What this scheduler placed and the agent has not reported
yet is taken off the zone that it would go to.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.errors import SchedulingError
from konverge.model.meta import annotations_of, resource_version
from konverge.model.resource import Object, ResourceType
from konverge.scheduler.handle import Lister
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.resources import STORAGE, Amounts, capacity_of

NodeResourceTopology: Final = ResourceType(
    "topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies", namespaced=False
)
"""One object a node, of the same name."""

ZONES: Final = "topology.konverge.dev/numa-zones"
"""The annotation of a node: `{"0": {"cpu": "16", "memory": "64Gi"}, "1": {...}}`, resources by zone."""

_NODE_ZONE: Final = "Node"
_KEPT: Final = 16_384
"""So many nodes' zones are kept as they were read."""

Zones = Sequence[Amounts]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a pod was given that the node has not reported yet."""

    version: str
    """The report that did not know of the pod."""
    zone: int
    amounts: Amounts


@dataclass(slots=True)
class ZoneBook:
    """The zones of all nodes, and what was promised of them."""

    lister: Lister
    _parsed: LatestUsed[tuple[str, str], Zones] = field(default_factory=lambda: LatestUsed(_KEPT))
    _claims: dict[str, dict[str, _Claim]] = field(default_factory=dict)
    _reported: bool = False

    def __post_init__(self) -> None:
        try:
            self.lister.list(NodeResourceTopology)
        except SchedulingError:  # the cluster has no such resource: annotations will do
            self._reported = False
        else:
            self._reported = True

    def free(self, node: NodeInfo) -> Zones:
        """What each zone of the node has left; empty where the node's zones are not known."""
        version, zones = self._read(node)
        claims = self._claims.get(node.name)
        if not claims or not zones:
            return zones
        left = [dict(zone) for zone in zones]
        for uid, claim in claims.items():
            if claim.version == version and uid in node.pods:
                for name in left[claim.zone].keys() & claim.amounts.keys():
                    left[claim.zone][name] -= claim.amounts[name]
        return left

    def claim(self, pod: PodInfo, node: NodeInfo) -> None:
        """Note that the pod goes to that node: to its first zone that fits."""
        version, _ = self._read(node)
        zone = fitting(self.free(node), wanted(pod))
        known = self._claims.get(node.name, {})
        kept = {uid: old for uid, old in known.items() if old.version == version and uid in node.pods}
        if zone is not None:
            kept[pod.uid] = _Claim(version, zone, wanted(pod))
        self._claims[node.name] = kept

    def drop(self, uid: str, node_name: str) -> None:
        """The pod does not go there."""
        self._claims.get(node_name, {}).pop(uid, None)

    def _read(self, node: NodeInfo) -> tuple[str, Zones]:
        """The zones as they were last said to be, and which report that was."""
        report = self.lister.get(NodeResourceTopology, node.name) if self._reported else None
        if report is not None:
            version = f"report {resource_version(report)}"
            return version, self._parsed.get((node.name, version), lambda: _zones_of(report))
        text = annotations_of(node.raw).get(ZONES)
        if text is None:
            return "", ()
        return text, self._parsed.get((node.name, text), lambda: _zones_in(text))


def wanted(pod: PodInfo) -> Amounts:
    """What has to come from one zone."""
    return {name: amount for name, amount in pod.requests.amounts.items() if amount > 0 and name != STORAGE}


def fitting(zones: Zones, amounts: Amounts) -> int | None:
    """The first zone that has all of `amounts`. A resource that no zone lists does not belong to any."""
    local = {name: amount for name, amount in amounts.items() if any(name in zone for zone in zones)}
    for number, zone in enumerate(zones):
        if all(zone.get(name, 0) >= amount for name, amount in local.items()):
            return number
    return None


def _zones_of(report: Object) -> Zones:
    zones = (zone for zone in report.get("zones") or () if zone.get("type") == _NODE_ZONE)
    return _amounts({each["name"]: _available(each) for each in zone.get("resources") or ()} for zone in zones)


def _available(resource: Mapping[str, Any]) -> Any:
    return resource.get("available", resource.get("allocatable", 0))


def _zones_in(text: str) -> Zones:
    try:
        zones = json.loads(text)
    except ValueError:
        return ()
    return _amounts(zones.values()) if isinstance(zones, dict) else ()


def _amounts(zones: Iterable[Mapping[str, Any]]) -> Zones:
    """The zones' quantities parsed. What makes no sense is as good as nothing said."""
    try:
        return [capacity_of(zone) for zone in zones]
    except (ValueError, AttributeError, TypeError):
        return ()
