"""NodeTopology: pods that belong together go to one topology domain, and what a pod needs fits where it is close.

Four aspects, each of which a profile may ask for:

- `level`: pods of one gang, or of one controller, go to nodes with the same value of that label. `mode: Hard` demands it,
  `Soft` prefers it.
- `nvlink`: of these, the pods that ask for GPUs go to one NVLink domain.
- `numa`: the pod's requests fit into one NUMA zone of its node.
- `memoryBandwidth`: the node has the memory bandwidth that the pod declares, beside what the pods on it declare.

Each of the last three is None, Preferred or Required. What is required filters nodes, what is preferred ranks them; the
score is the mean of the aspects that say anything of the pod.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import field_validator, model_validator

from konverge.scheduler.bandwidth import bandwidth_asked, bandwidth_of, bandwidth_taken
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.devices import asks_gpu
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    PluginArgs,
    PreFilter,
    PreFilterResult,
    PreScore,
    Reserve,
    Score,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.gangs import family_of
from konverge.scheduler.gathering import Gathering
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.numa import NodeResourceTopology, ZoneBook, fitting, wanted
from konverge.scheduler.plugins.node_label_priority import LABEL_KEY
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

NVLINK_DOMAIN: Final = "topology.konverge.dev/nvlink-domain"
"""The label of a node that says with which nodes its GPUs are linked."""

GPU_CLIQUE: Final = "nvidia.com/gpu.clique"
"""The same, as NVIDIA's feature discovery sets it; read where a node has no label `NVLINK_DOMAIN`."""

NO_DOMAIN: Final = "node(s) didn't match the topology domain of the pod's group (missing required label)"
OTHER_DOMAIN: Final = "node(s) didn't match the topology domain of the pod's group"
NO_NVLINK: Final = "node(s) didn't match the NVLink domain of the pod's group (missing required label)"
OTHER_NVLINK: Final = "node(s) didn't match the NVLink domain of the pod's group"
NO_ZONES: Final = "node(s) had no known NUMA topology"
NO_ZONE_FITS: Final = "node(s) had no single NUMA zone with room for the pod"
NO_BANDWIDTH: Final = "Insufficient memory bandwidth"

Strength = Literal["None", "Preferred", "Required"]


class NodeTopologyArgs(PluginArgs):
    """The arguments of NodeTopology."""

    level: str = ""
    """The node label whose values are the domains, such as `topology.kubernetes.io/zone`; empty: any node will do."""
    mode: Literal["Hard", "Soft"] = "Soft"
    """Whether pods that belong together must share a domain of `level`, or rather do."""
    numa: Strength = "None"
    nvlink: Strength = "None"
    memory_bandwidth: Strength = "None"

    @field_validator("level")
    @classmethod
    def _is_a_key(cls, level: str) -> str:
        if level and not LABEL_KEY.fullmatch(level):
            raise ValueError("must be a label key, such as `topology.kubernetes.io/zone`")
        return level

    @model_validator(mode="after")
    def _has_a_level(self) -> "NodeTopologyArgs":
        if self.mode == "Hard" and not self.level:
            raise ValueError("`mode: Hard` needs `level`: the node label whose values are the domains")
        return self


@dataclass(frozen=True, slots=True)
class _Plan:
    """What matters for one pod."""

    snapshot: Snapshot
    level: Gathering | None
    nvlink: Gathering | None
    zoned: bool
    """Whether it asks for anything that has to come from one NUMA zone."""
    bandwidth: int
    """What it declares, in thousandths of GB/s."""


class NodeTopology(PreFilter, Filter, PreScore, Score, Reserve):
    """See the module."""

    name: ClassVar[str] = "NodeTopology"
    Args = NodeTopologyArgs
    reads_if_served = frozenset({NodeResourceTopology})
    events = frozenset(
        {
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_ALLOCATABLE,
            ClusterEvent.NODE_LABEL,
            ClusterEvent.POD_GONE,
            ClusterEvent.POD_PLACED,
            ClusterEvent.POD_SHRUNK,
            ClusterEvent.OTHER_CHANGED,
        }
    )

    def __init__(self, args: NodeTopologyArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args, self._lister = args, handle.lister
        self._zones = ZoneBook(handle.lister)

    # What is required

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Find where the pod's family is; skip a pod of which nothing is required."""
        try:
            plan = self._plan(pod, snapshot)
        except ValueError as error:
            return PreFilterResult(unresolvable(str(error)))
        state.write(plan)
        args = self._args
        required = (
            (plan.level is not None and args.mode == "Hard")
            or (plan.nvlink is not None and args.nvlink == "Required")
            or (plan.zoned and args.numa == "Required")
            or (plan.bandwidth > 0 and args.memory_bandwidth == "Required")
        )
        return PreFilterResult() if required else PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Success where every required aspect holds; else the first that does not."""
        plan = state.read(_Plan)
        if plan is None:
            return SUCCESS
        if plan.level is not None and self._args.mode == "Hard":
            verdict = _together(plan.level, node, NO_DOMAIN, OTHER_DOMAIN)
            if verdict.rejected:
                return verdict
        if plan.nvlink is not None and self._args.nvlink == "Required":
            verdict = _together(plan.nvlink, node, NO_NVLINK, OTHER_NVLINK)
            if verdict.rejected:
                return verdict
        return self._near(plan, pod, node)

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same: domains over the label columns, and then zones and bandwidth of the nodes that are left."""
        plan = state.read(_Plan)
        if plan is None:
            return BatchVerdict({})
        reasons: dict[str, BoolArray] = {}
        left, final = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
        for gathering, holds, missing, other in (
            (plan.level, self._args.mode == "Hard", NO_DOMAIN, OTHER_DOMAIN),
            (plan.nvlink, self._args.nvlink == "Required", NO_NVLINK, OTHER_NVLINK),
        ):
            if gathering is not None and holds:
                outside, elsewhere = gathering.judge(snapshot, rows)
                reasons[missing], reasons[other] = outside & left, elsewhere & left
                final |= (outside | elsewhere) & left
                left &= ~(outside | elsewhere)
        if self._looks_at_nodes(plan):
            for index in np.flatnonzero(left).tolist():
                verdict = self._near(plan, pod, snapshot.node(int(rows[index])))
                for reason in verdict.reasons:
                    reasons.setdefault(reason, np.zeros(len(rows), dtype=np.bool_))[index] = True
                final[index] = verdict.code is Code.UNRESOLVABLE
        return BatchVerdict(reasons, final)

    # What is preferred

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, _rows: IntArray, /) -> Verdict:
        """Skip a pod of which no aspect says anything."""
        plan = state.read(_Plan)
        if plan is None:
            plan = self._plan(pod, snapshot)
            state.write(plan)
        return SUCCESS if self._gatherings(plan) or self._closeness(plan) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """The mean of the aspects, 0-100."""
        plan = state.read(_Plan)
        if plan is None:
            return 0
        gathered = [gathering.score(gathering.domain(node)) for gathering in self._gatherings(plan)]
        aspects = self._closeness(plan)
        count = len(gathered) + len(aspects)
        return (sum(gathered) + self._close(plan, pod, node)) // count if count else 0

    def score_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same: domains over the label columns, zones and bandwidth node by node."""
        plan = state.read(_Plan)
        total = np.zeros(len(rows), dtype=np.int64)
        if plan is None:
            return total
        gatherings, aspects = self._gatherings(plan), self._closeness(plan)
        for gathering in gatherings:
            total += gathering.scores(snapshot, rows)
        if aspects:
            total += np.array([self._close(plan, pod, node) for node in snapshot.nodes(rows)], dtype=np.int64)
        return total // max(1, len(gatherings) + len(aspects))

    # What was promised

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        """Take the pod's requests off the zone that it goes to, until the node reports them."""
        plan = state.read(_Plan)
        row = plan.snapshot.row_of(node_name) if plan is not None else None
        if plan is not None and row is not None and plan.zoned and self._args.numa != "None":
            self._zones.claim(pod, plan.snapshot.node(row))
        return SUCCESS

    def unreserve(self, _state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        """Give it back."""
        self._zones.drop(pod.uid, node_name)

    # Inside

    def _plan(self, pod: PodInfo, snapshot: Snapshot) -> _Plan:
        """Raises: ValueError for a bandwidth that is none."""
        args, family = self._args, family_of(pod)
        level = nvlink = None
        if family is not None and args.level:
            level = Gathering.of((args.level,), family, pod, snapshot, self._lister)
        if family is not None and args.nvlink != "None" and asks_gpu(pod):
            nvlink = Gathering.of((NVLINK_DOMAIN, GPU_CLIQUE), family, pod, snapshot, self._lister)
        return _Plan(snapshot, level, nvlink, bool(wanted(pod)), bandwidth_asked(pod))

    def _gatherings(self, plan: _Plan) -> list[Gathering]:
        return [gathering for gathering in (plan.level, plan.nvlink) if gathering is not None]

    def _looks_at_nodes(self, plan: _Plan) -> bool:
        return (plan.zoned and self._args.numa == "Required") or (
            plan.bandwidth > 0 and self._args.memory_bandwidth == "Required"
        )

    def _near(self, plan: _Plan, pod: PodInfo, node: NodeInfo) -> Verdict:
        """Whether the node has what the pod requires close together."""
        if plan.zoned and self._args.numa == "Required":
            zones = self._zones.free(node)
            if not zones:
                return unresolvable(NO_ZONES)
            if fitting(zones, wanted(pod)) is None:
                return unschedulable(NO_ZONE_FITS)
        if plan.bandwidth > 0 and self._args.memory_bandwidth == "Required":
            capacity = bandwidth_of(node)
            if plan.bandwidth > capacity - bandwidth_taken(node):
                return unresolvable(NO_BANDWIDTH) if plan.bandwidth > capacity else unschedulable(NO_BANDWIDTH)
        return SUCCESS

    def _closeness(self, plan: _Plan) -> list[str]:
        """The aspects of the node itself that rank it for this pod."""
        numa = plan.zoned and self._args.numa == "Preferred"
        bandwidth = plan.bandwidth > 0 and self._args.memory_bandwidth == "Preferred"
        return [name for name, counts in (("numa", numa), ("memoryBandwidth", bandwidth)) if counts]

    def _close(self, plan: _Plan, pod: PodInfo, node: NodeInfo) -> int:
        """The sum of these aspects, each 0-100."""
        total = 0
        for aspect in self._closeness(plan):
            if aspect == "numa":
                total += MAX_SCORE * (fitting(self._zones.free(node), wanted(pod)) is not None)
            else:
                free = max(0, bandwidth_of(node) - bandwidth_taken(node))
                total += min(free, plan.bandwidth) * MAX_SCORE // plan.bandwidth
        return total


def _together(gathering: Gathering, node: NodeInfo, missing: str, other: str) -> Verdict:
    domain = gathering.domain(node)
    if domain is None:
        return unresolvable(missing)
    return SUCCESS if gathering.allows(domain) else unresolvable(other)
