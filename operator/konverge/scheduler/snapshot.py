"""The cluster as the scheduler sees it: nodes, the pods on them, and the pods it has placed but not yet seen bound.

In flow node and pod changes from the caches, and the scheduler's own assumptions; out flow rows and columns. The
scheduling cycle runs without yielding, so what it reads is consistent although nothing is copied: each change touches
only its own row.

A pod is counted on a node once: either *assumed* (we chose the node; the server has not confirmed it to us) or *placed*
(the cache showed it bound). Confirmation, deletion, `forget` and expiry end an assumption.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from konverge.model import meta
from konverge.model.resource import Object
from konverge.scheduler.claims import ClaimIndex
from konverge.scheduler.columns import AmountColumn, IntArray, InternedColumn
from konverge.scheduler.hostports import PortIndex
from konverge.scheduler.images import ImageIndex
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podgroups import PodGroups
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.priorities import PriorityIndex
from konverge.scheduler.resources import LIMIT
from konverge.scheduler.rowlog import RowLog
from konverge.scheduler.taints import Taint

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that the API server puts on every namespace: its name."""


@dataclass(slots=True)
class Placement:
    """Where a pod is counted."""

    pod: PodInfo
    node_name: str
    assumed: bool
    expires: float | None = None


class Snapshot:
    """Nodes by row, and their columns. Rows of deleted nodes are used again; `rows` lists those in use, in order."""

    def __init__(self) -> None:
        self._nodes: list[NodeInfo | None] = []
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._rows: IntArray | None = None
        self._placements: dict[str, Placement] = {}
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        self._allocatable: dict[str, AmountColumn] = {}
        self._requested: dict[str, AmountColumn] = {}
        self._labels: dict[str, InternedColumn[str | None]] = {}
        self._scored_cpu, self._scored_memory = AmountColumn(), AmountColumn()
        self.taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(())
        self.unschedulable: InternedColumn[bool] = InternedColumn(False)
        self.ports = PortIndex()
        self.claims = ClaimIndex()
        self.images = ImageIndex()
        self.priorities = PriorityIndex()
        self.groups = PodGroups(self.label)
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self.changes = RowLog()
        """The rows whose node changed, or the pods on it."""
        self.node_changes = RowLog()
        """The rows whose node came, changed or went."""

    # Reading

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def rows(self) -> IntArray:
        """The rows in use."""
        if self._rows is None:
            self._rows = np.array([row for row, node in enumerate(self._nodes) if node is not None], dtype=np.int64)
        return self._rows

    @property
    def size(self) -> int:
        """One more than the largest row that was ever in use: how long an array by row is."""
        return len(self._nodes)

    def node(self, row: int) -> NodeInfo:
        """The node of a row in use."""
        node = self._nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def in_use(self, row: int) -> bool:
        """Whether a node has that row."""
        return row < len(self._nodes) and self._nodes[row] is not None

    def nodes(self, rows: IntArray) -> Iterator[NodeInfo]:
        """The nodes of `rows`, in that order."""
        return map(self.node, rows.tolist())

    def row_of(self, name: str) -> int | None:
        """The row of the node of that name, if there is one."""
        return self._row_of.get(name)

    def allocatable(self, resource: str, rows: IntArray) -> IntArray:
        """How much of `resource` each node offers in all."""
        return self._amounts(self._allocatable, resource).take(rows)

    def requested(self, resource: str, rows: IntArray) -> IntArray:
        """How much of `resource` the pods on each node ask for."""
        return self._amounts(self._requested, resource).take(rows)

    def scored_cpu(self, rows: IntArray) -> IntArray:
        """Requested millicores with the defaults that only scoring counts."""
        return self._scored_cpu.take(rows)

    def scored_memory(self, rows: IntArray) -> IntArray:
        """Requested bytes of memory with the defaults that only scoring counts."""
        return self._scored_memory.take(rows)

    def label(self, key: str) -> InternedColumn[str | None]:
        """The column of a node label; None where a node lacks it. Built when first asked for, then kept up to date."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = InternedColumn(None)
            for row in self.rows.tolist():
                column.set(row, self.node(row).labels.get(key))
        return column

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod is counted on a node that the server has not confirmed yet."""
        placement = self._placements.get(uid)
        return placement is not None and placement.assumed

    def pod(self, uid: str) -> PodInfo | None:
        """The pod as it is counted, if it is."""
        placement = self._placements.get(uid)
        return placement.pod if placement else None

    def node_of(self, uid: str) -> str | None:
        """The name of the node that the pod is counted on, if any."""
        placement = self._placements.get(uid)
        return placement.node_name if placement else None

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; of one that was never shown only the name is known."""
        labels = self._namespaces.get(name)
        return {NAMESPACE_NAME: name} if labels is None else labels

    # Namespaces

    def set_namespace(self, raw: Object) -> None:
        """Take over a new or changed namespace."""
        name, labels = raw["metadata"]["name"], meta.labels_of(raw)
        if self._namespaces.get(name) != labels:
            self._namespaces[name] = labels
            self.groups.ask_anew()

    def remove_namespace(self, name: str) -> None:
        """Take it out."""
        if self._namespaces.pop(name, None) is not None:
            self.groups.ask_anew()

    # Nodes

    def set_node(self, raw: Object) -> None:
        """Take over a new or changed node, with the pods that were seen on it before it was."""
        name: str = raw["metadata"]["name"]
        row = self._row_of.get(name)
        if row is not None:
            self._update_node(row, raw)
            return
        node = NodeInfo(raw)
        row = self._free.pop() if self._free else len(self._nodes)
        if row == len(self._nodes):
            self._nodes.append(None)
        self._nodes[row] = node
        self._row_of[name] = row
        self._rows = None
        self._write_node(row, node)
        for pod in self._homeless.pop(name, {}).values():
            self._add(row, node, pod)
        self._write_pods(row, node)

    def _update_node(self, row: int, raw: Object) -> None:
        node = self.node(row)
        # Pods are counted by domain, so those of a node that changes its labels are taken off in between.
        moving = list(node.pods.values()) if meta.labels_of(raw) != node.labels else []
        for pod in moving:
            self.groups.remove(row, pod)
        node.update(raw)
        self._write_node(row, node)
        for pod in moving:
            self.groups.add(row, pod)

    def remove_node(self, name: str) -> None:
        """Take the node out; its pods are remembered in case it comes back."""
        row = self._row_of.pop(name, None)
        if row is None:
            return
        node = self.node(row)
        if node.pods:
            self._homeless[name] = dict(node.pods)
        for uid in list(node.pods):
            self._remove(row, node, uid)
        self.images.set(row, {})
        self._node_changed(row)
        self._nodes[row] = None
        self._free.append(row)
        self._rows = None
        for columns in (self._allocatable, self._requested):
            for column in columns.values():
                column.set(row, 0)

    # Pods

    def place(self, pod: PodInfo) -> None:
        """Count a pod that the cache shows bound; ends an assumption about it, wherever that was."""
        self.forget(pod.uid)
        self._place(Placement(pod, pod.node_name, assumed=False))

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count `pod` on the node that was chosen for it. The assumption holds until something ends it."""
        self.forget(pod.uid)
        self._place(Placement(pod, node_name, assumed=True))

    def expire_after(self, uid: str, moment: float) -> None:
        """The bind went through: the cache is to show it before `moment`, monotonic seconds."""
        placement = self._placements.get(uid)
        if placement is not None and placement.assumed:
            placement.expires = moment

    def overdue(self, now: float) -> list[PodInfo]:
        """The pods whose assumption is past its moment."""
        return [p.pod for p in self._placements.values() if p.expires is not None and p.expires <= now]

    def forget(self, uid: str) -> bool:
        """Count the pod no longer, assumed or placed. Returns whether it was counted."""
        return self.lift(uid) is not None

    def lift(self, uid: str) -> Placement | None:
        """Count the pod no longer; what is returned puts it back as it was."""
        placement = self._placements.pop(uid, None)
        if placement is None:
            return None
        row = self._row_of.get(placement.node_name)
        if row is None:
            homeless = self._homeless[placement.node_name]
            del homeless[uid]
            if not homeless:
                del self._homeless[placement.node_name]
        else:
            node = self.node(row)
            self._remove(row, node, uid)
            self._write_pods(row, node)
        return placement

    def put_back(self, placement: Placement) -> None:
        """Count a pod again that was lifted."""
        self._place(placement)

    def _place(self, placement: Placement) -> None:
        pod = placement.pod
        row = self._row_of.get(placement.node_name)
        if row is None:
            self._homeless.setdefault(placement.node_name, {})[pod.uid] = pod
        else:
            node = self.node(row)
            self._add(row, node, pod)
            self._write_pods(row, node)
        self._placements[pod.uid] = placement

    def _add(self, row: int, node: NodeInfo, pod: PodInfo) -> None:
        # What is wrong with a pod shows here, before anything is counted.
        ports, claims, _ = pod.host_ports, pod.claims, pod.pod_affinity_text
        node.add(pod)
        self.ports.add(row, ports)
        self.claims.add(row, pod.namespace, claims)
        self.priorities.add(row, pod.priority)
        self.groups.add(row, pod)

    def _remove(self, row: int, node: NodeInfo, uid: str) -> None:
        pod = node.remove(uid)
        self.ports.remove(row, pod.host_ports)
        self.priorities.remove(row, pod.priority)
        self.claims.remove(row, pod.namespace, pod.claims)
        self.groups.remove(row, pod)

    # Columns

    def _amounts(self, columns: dict[str, AmountColumn], resource: str) -> AmountColumn:
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = AmountColumn()
        return column

    def _write_node(self, row: int, node: NodeInfo) -> None:
        for resource in self._allocatable.keys() | node.allocatable.keys():
            self._amounts(self._allocatable, resource).set(row, node.allocatable.get(resource, 0))
        for key, column in self._labels.items():
            column.set(row, node.labels.get(key))
        self.taints.set(row, node.taints)
        self.unschedulable.set(row, node.unschedulable)
        self.images.set(row, node.images)
        self._node_changed(row)

    def _write_pods(self, row: int, node: NodeInfo) -> None:
        for resource, amount in node.requested.items():
            self._amounts(self._requested, resource).set(row, min(amount, LIMIT))
        self._scored_cpu.set(row, min(node.scored_cpu, LIMIT))
        self._scored_memory.set(row, min(node.scored_memory, LIMIT))
        self.changes.note(row)

    def _node_changed(self, row: int) -> None:
        self.changes.note(row)
        self.node_changes.note(row)
