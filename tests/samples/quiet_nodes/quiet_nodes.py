"""QuietNodes: nodes with few pods are better, and those with `maxPods` of them take no more."""

from typing import ClassVar

from pydantic import Field

from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    MAX_SCORE,
    SUCCESS,
    CycleState,
    Filter,
    PluginArgs,
    Score,
    Verdict,
    unschedulable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo


class QuietNodesArgs(PluginArgs):
    max_pods: int = Field(default=10, ge=1, le=500)
    """How many pods a node may have."""


class QuietNodes(Filter, Score):
    name: ClassVar[str] = "QuietNodes"
    version: ClassVar[str] = "v1"
    Args = QuietNodesArgs
    events = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.POD_GONE})

    def __init__(self, args: QuietNodesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._max_pods = args.max_pods

    def filter(self, _state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> Verdict:
        return unschedulable("node(s) were not quiet") if len(node.pods) >= self._max_pods else SUCCESS

    def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
        return MAX_SCORE - MAX_SCORE * len(node.pods) // self._max_pods
