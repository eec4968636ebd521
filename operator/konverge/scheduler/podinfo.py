"""A pod as the scheduler sees it: the fields that decide, read off the raw object once, the costly ones when asked."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from konverge.model import conditions, meta
from konverge.model.resource import Object
from konverge.scheduler.claims import UsedClaim, claims_of
from konverge.scheduler.hostports import HostPort, host_ports_of
from konverge.scheduler.podaffinity import PodTerms
from konverge.scheduler.resources import Requests, requests_of
from konverge.scheduler.taints import Toleration


class PodInfo:
    """An immutable view of one version of a pod."""

    def __init__(self, raw: Object) -> None:
        self.raw = raw
        self.key = meta.key_of(raw)
        self.uid = meta.uid_of(raw)
        spec = raw["spec"]
        self.node_name: str = spec.get("nodeName") or ""
        self.scheduler_name: str = spec.get("schedulerName") or "default-scheduler"
        self.priority: int = spec.get("priority") or 0

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""
        return self.key.namespace

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod's spec as the server sent it."""
        return self.raw["spec"]  # type: ignore[no-any-return]

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        return meta.labels_of(self.raw)

    @cached_property
    def requests(self) -> Requests:
        """What the pod asks of its node."""
        return requests_of(self.raw)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        """`spec.tolerations`."""
        return tuple(Toleration.of(entry) for entry in self.spec.get("tolerations") or ())

    @cached_property
    def node_selector(self) -> Mapping[str, str]:
        """`spec.nodeSelector`."""
        return self.spec.get("nodeSelector") or {}

    @cached_property
    def node_affinity(self) -> Mapping[str, Any]:
        """`spec.affinity.nodeAffinity`."""
        return (self.spec.get("affinity") or {}).get("nodeAffinity") or {}

    @cached_property
    def node_affinity_text(self) -> str:
        """The same as text, the same for the same content; empty without any."""
        return json.dumps(self.node_affinity, sort_keys=True) if self.node_affinity else ""

    @cached_property
    def pod_affinity_text(self) -> str:
        """`spec.affinity.podAffinity` and `podAntiAffinity`, the same text for the same content; empty without any."""
        affinity = self.spec.get("affinity") or {}
        parts = {name: affinity[name] for name in ("podAffinity", "podAntiAffinity") if affinity.get(name)}
        return json.dumps(parts, sort_keys=True) if parts else ""

    @cached_property
    def affinity_terms(self) -> PodTerms:
        """The terms of those two."""
        return PodTerms.of(self.spec.get("affinity") or {}, self.namespace)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports of its node that it holds while it runs."""
        return host_ports_of(self.spec)

    @cached_property
    def claims(self) -> tuple[UsedClaim, ...]:
        """The PersistentVolumeClaims that it uses, those of ephemeral volumes too."""
        return claims_of(self.name, self.spec)

    @property
    def nominated_node(self) -> str:
        """`status.nominatedNodeName`: the node that a preemption is clearing for this pod."""
        return (self.raw.get("status") or {}).get("nominatedNodeName") or ""

    @property
    def finished(self) -> bool:
        """Whether the pod ran to its end: it holds no resources any more."""
        return (self.raw.get("status") or {}).get("phase") in {"Succeeded", "Failed"}

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for."""
        return meta.is_deleting(self.raw)

    @property
    def waiting(self) -> bool:
        """Whether it waits for a scheduler: unbound, not going away."""
        return not (self.node_name or self.deleting or self.finished)

    @property
    def gates(self) -> tuple[str, ...]:
        """The names in `spec.schedulingGates`: it is not to be scheduled before all are gone."""
        return tuple(gate["name"] for gate in self.spec.get("schedulingGates") or ())

    @property
    def scheduled_condition(self) -> conditions.ConditionDict | None:
        """The condition `PodScheduled`, if present."""
        return conditions.find((self.raw.get("status") or {}).get("conditions") or (), "PodScheduled")

    @property
    def scheduled_at(self) -> datetime | None:
        """When the API server recorded that the pod was bound, if it was."""
        condition = self.scheduled_condition
        moment = condition and condition.get("status") == "True" and condition.get("lastTransitionTime")
        return datetime.fromisoformat(moment) if moment else None

    def asks_the_same(self, other: "PodInfo") -> bool:
        """Whether the other version asks the same of the scheduler: spec and labels, not status."""
        return self.spec == other.spec and self.labels == other.labels

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"
