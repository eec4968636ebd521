"""Nodes that are being cleared for pods: who is nominated where, before and after the pods' status shows it.

In flow nominations of the scheduler and `status.nominatedNodeName` of pods that wait; out flow the pods for which a node
is being cleared, so that others of no higher priority leave them the room. A pod that has a node is nominated no longer.
"""

from collections.abc import Mapping

from konverge.scheduler.podinfo import PodInfo


class Nominations:
    """One node a pod."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def put(self, pod: PodInfo, node_name: str) -> None:
        """`pod` is nominated to that node, and to no other; empty for none."""
        self.discard(pod.uid)
        if node_name:
            self._node_of[pod.uid] = node_name
            self._by_node.setdefault(node_name, {})[pod.uid] = pod

    def discard(self, uid: str) -> None:
        """The pod is nominated no longer."""
        if (node_name := self._node_of.pop(uid, None)) is not None:
            pods = self._by_node[node_name]
            del pods[uid]
            if not pods:
                del self._by_node[node_name]

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A pod that waits has a newer version. What its status says counts when it changed; it may be behind us."""
        if old.nominated_node != new.nominated_node:
            self.put(new, new.nominated_node)
        elif (node_name := self._node_of.get(new.uid)) is not None:
            self._by_node[node_name][new.uid] = new

    def node_of(self, uid: str) -> str:
        """The node that the pod is nominated to; empty for none."""
        return self._node_of.get(uid, "")

    def lower_than(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """The pods of lower priority that are nominated to the node."""
        return [other for other in self._by_node.get(node_name, {}).values() if other.priority < pod.priority]

    def beside(self, pod: PodInfo) -> Mapping[str, list[PodInfo]]:
        """By node, the other pods nominated to it to which `pod` must leave their room: of its priority or higher."""
        found: dict[str, list[PodInfo]] = {}
        for node_name, pods in self._by_node.items():
            others = [other for other in pods.values() if other.priority >= pod.priority and other.uid != pod.uid]
            if others:
                found[node_name] = others
        return found
