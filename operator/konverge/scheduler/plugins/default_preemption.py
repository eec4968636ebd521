"""DefaultPreemption: a pod that fits nowhere may push out less important ones, from the node where that hurts least."""

from typing import Any, ClassVar, Final, Self

import numpy as np
from pydantic import Field, model_validator

from konverge.errors import PluginFailed
from konverge.model.resource import PodDisruptionBudget
from konverge.scheduler.clearing import Clearing, Prospect, Unclear
from konverge.scheduler.columns import IntArray
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import (
    SUCCESS,
    CycleState,
    PluginArgs,
    PostFilter,
    PostFilterResult,
    Trials,
    unschedulable,
)
from konverge.scheduler.handle import Handle
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.preemption import (
    NO_VICTIMS,
    Budgets,
    Candidate,
    around,
    choose,
    gather,
    select_victims,
    under_way,
)

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
UNDER_WAY: Final = "not eligible due to a terminating pod on the nominated node."


class Args(PluginArgs):
    """How many candidates are enough on a large cluster: the larger of the two numbers."""

    min_candidate_nodes_percentage: int = Field(10, ge=0, le=100)
    """Percent of the nodes where preemption could help."""
    min_candidate_nodes_absolute: int = Field(100, ge=0)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if not (self.min_candidate_nodes_percentage or self.min_candidate_nodes_absolute):
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be 0")
        return self


class DefaultPreemption(PostFilter):
    """See the module."""

    name: ClassVar[str] = "DefaultPreemption"
    Args = Args
    reads = frozenset({PodDisruptionBudget})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args: Args = args
        self._lister = handle.lister
        self._known, self._read = Budgets(()), -1

    def post_filter(
        self, _state: CycleState, pod: PodInfo, trials: Trials, diagnosis: Diagnosis, /
    ) -> PostFilterResult:
        """Nominate a node and name its victims; else clear the pod's nomination, unless victims are still leaving."""
        if pod.spec.get("preemptionPolicy") == "Never":
            return _refused(NEVER)
        rows = diagnosis.resolvable
        if under_way(pod, trials.snapshot, rows):
            return _refused(UNDER_WAY)
        why = Diagnosis(nodes=len(trials.snapshot))
        candidate = self._best(pod, trials, rows, why)
        if candidate is not None:
            return PostFilterResult(SUCCESS, candidate.node_name, candidate.victims)
        if others := why.nodes - len(rows):
            why.reasons[NOT_HELPFUL] += others
        return PostFilterResult(unschedulable(f"preemption: {why.message}"), node_name="")

    def _best(self, pod: PodInfo, trials: Trials, rows: IntArray, why: Diagnosis) -> Candidate | None:
        """The node to preempt on, or why there is none. Raises: PluginFailed where a filter failed on the way to none."""
        count = len(rows)
        if not count:
            return None
        budgets, start, wanted = self._budgets(), int(trials.random.random() * count), self._wanted(count)
        promising = trials.snapshot.priorities.any_below(pod.priority, rows)
        in_turn = np.fromiter(around(count, start), dtype=np.int64, count=count)
        clearing = Clearing(trials, pod, budgets, why.reasons)
        outlooks = clearing.outlooks(rows[in_turn[promising[in_turn]]], wanted)
        may_help = promising.tolist()
        errors: list[PluginFailed] = []

        def try_one(index: int) -> Candidate | Prospect | None:
            if not may_help[index]:
                why.reasons[NO_VICTIMS] += 1
                return None
            outlook = next(outlooks)
            if outlook is not Unclear.ASK:
                return outlook
            try:
                with trials.on(trials.snapshot.node(int(rows[index]))) as trial:
                    found = select_victims(trial, pod, budgets)
            except PluginFailed as error:
                errors.append(error)
                return None
            if isinstance(found, Candidate):
                return found
            why.reasons.update(found.reasons)
            return None

        harmless: list[Candidate | Prospect]
        harmful: list[Candidate | Prospect]
        harmless, harmful = gather(count, wanted, try_one, start)
        if harmless or harmful:
            best = choose([*harmless, *harmful])
            return best if isinstance(best, Candidate) else clearing.candidate(best)
        if errors:
            raise errors[0]
        return None

    def _budgets(self) -> Budgets:
        """The budgets as they stand; the same object while nothing about them changed."""
        version = self._lister.version(PodDisruptionBudget)
        if version != self._read:
            self._known, self._read = Budgets(self._lister.list(PodDisruptionBudget)), version
        return self._known

    def _wanted(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, self._args.min_candidate_nodes_absolute))


def _refused(why: str) -> PostFilterResult:
    return PostFilterResult(unschedulable(f"preemption: {why}"))
