"""Preemption: which pods have to go so that a more important one fits, as kube-scheduler decides it.

In flow the nodes where removing pods could help, tried one by one, and the disruption budgets; out flows the node whose
victims hurt least. The order of what counts: budgets violated, the highest priority among the victims, the sum of their
priorities, their number, and how short a time the most important ones have run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from konverge.model.conditions import find
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.model.selectors import Selector
from konverge.scheduler.framework import Trial, Verdict, unresolvable
from konverge.scheduler.podinfo import PodInfo

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
"""The condition of a victim, and its reason."""

NO_VICTIMS: Final = "No preemption victims found for incoming pod"

_NOT_YET: Final = datetime.max.replace(tzinfo=UTC)
"""The start of a pod that has not started: later than any other."""

_LIFT: Final = 2**31
"""Makes all priorities positive, so that many pods of low priority do not count less than few."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that the pod fits once the victims are gone, the most important one first."""

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int
    """How many of them a disruption budget does not allow to go."""


class Budgets:
    """The PodDisruptionBudgets of the cluster."""

    def __init__(self, budgets: Iterable[Object]) -> None:
        self._budgets = [budget for budget in map(_Budget.of, budgets) if budget is not None]

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Those whose going, one after the other in this order, violates a budget, and those whose does not."""
        left = [budget.allowed for budget in self._budgets]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            violated = False
            for index, budget in enumerate(self._budgets):
                if budget.covers(pod):
                    left[index] -= 1
                    violated = violated or left[index] < 0
            (violating if violated else others).append(pod)
        return violating, others


@dataclass(frozen=True, slots=True)
class _Budget:
    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """The names of pods whose eviction is under way: they are accounted for in `allowed` already."""

    @classmethod
    def of(cls, raw: Object) -> "_Budget | None":
        """The budget, or None when its selector is empty or makes no sense: then it is for no pod."""
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        try:
            selector = Selector.of(spec.get("selector"))
        except (ValueError, KeyError):
            return None
        if selector == Selector.everything():
            return None
        return cls(
            namespace=raw["metadata"]["namespace"],
            selector=selector,
            allowed=status.get("disruptionsAllowed") or 0,
            disrupted=frozenset(status.get("disruptedPods") or ()),
        )

    def covers(self, pod: PodInfo) -> bool:
        return (
            bool(pod.labels)
            and pod.namespace == self.namespace
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )


def select_victims(trial: Trial, pod: PodInfo, budgets: Budgets) -> Candidate | Verdict:
    """The least pods that must leave the node of the trial for `pod` to fit, or why it does not fit even so.

    All that are less important are taken off. Those that can stay are put back: first those whose going would violate
    a budget, then the others, each time the most important first. Raises: PluginFailed.
    """
    node_name = trial.node.name
    lower = sorted((other for other in trial.node.pods.values() if other.priority < pod.priority), key=_rank)
    if not lower:
        return unresolvable(NO_VICTIMS)
    for other in lower:
        trial.remove(other)
    verdict = trial.verdict()
    if verdict.rejected:
        return verdict
    violating, others = budgets.split(lower)
    victims = [other for other in violating if not _can_stay(trial, other)]
    violations = len(victims)
    victims += [other for other in others if not _can_stay(trial, other)]
    if not victims:
        return unresolvable(f"expected at least one victim pod on node {node_name!r}")
    return Candidate(node_name, tuple(sorted(victims, key=_rank)), violations)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that hurts least; of several equal ones the first."""
    return min(candidates, key=_cost)


def terminating(pod: PodInfo) -> bool:
    """Whether the pod is on its way out because a scheduler preempted it."""
    if not pod.deleting:
        return False
    target = find((pod.raw.get("status") or {}).get("conditions") or (), DISRUPTION_TARGET) or {}
    return (target.get("status"), target.get("reason")) == ("True", PREEMPTED)


def gather(
    count: int, wanted: int, try_one: Callable[[int], Candidate | None], start: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Try `count` nodes from `start` on until there are `wanted` candidates, one of which violates no budget.

    Returns those that violate none, and the others.
    """
    harmless: list[Candidate] = []
    harmful: list[Candidate] = []
    for index in _around(count, start):
        candidate = try_one(index)
        if candidate is None:
            continue
        if not candidate.violations:
            harmless.append(candidate)
        elif len(harmful) < wanted:
            harmful.append(candidate)
        if harmless and len(harmless) + len(harmful) >= wanted:
            break
    return harmless, harmful


def _around(count: int, start: int) -> Iterator[int]:
    yield from range(start, count)
    yield from range(start)


def _can_stay(trial: Trial, other: PodInfo) -> bool:
    trial.add(other)
    fits = not trial.verdict().rejected
    if not fits:
        trial.remove(other)
    return fits


def _rank(pod: PodInfo) -> tuple[int, datetime, Key]:
    """The more important the pod, the smaller: higher priority, then running for longer; the name breaks ties."""
    return -pod.priority, _started(pod), pod.key


def _started(pod: PodInfo) -> datetime:
    started = (pod.raw.get("status") or {}).get("startTime")
    return datetime.fromisoformat(started) if started else _NOT_YET


def _cost(candidate: Candidate) -> tuple[int, int, int, int, float]:
    victims = candidate.victims
    highest = victims[0].priority
    longest = min(_started(victim) for victim in victims if victim.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(victim.priority + _LIFT for victim in victims),
        len(victims),
        -longest.timestamp(),
    )
