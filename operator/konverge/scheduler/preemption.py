"""Preemption: which pods have to go so that a more important one fits, as kube-scheduler decides it.

In flow the nodes where removing pods could help, tried one by one, and the disruption budgets; out flows the node whose
victims hurt least. The order of what counts: budgets violated, the highest priority among the victims, the sum of their
priorities, their number, and how short a time the most important ones have run.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from konverge.model.conditions import find
from konverge.model.resource import Object
from konverge.model.selectors import Selector
from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import Trial, Verdict, unresolvable
from konverge.scheduler.importance import rank, started
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
"""The condition of a victim, and its reason."""

NO_VICTIMS: Final = "No preemption victims found for incoming pod"

LIFT: Final = 2**31
"""Makes all priorities positive, so that many pods of low priority do not count less than few."""


class Cost(NamedTuple):
    """How much a preemption hurts; the smaller the better, from the first number on."""

    violations: int
    """How many of the victims a disruption budget does not allow to go."""
    highest: int
    """The priority of the most important victim."""
    total: int
    """The sum of all priorities, each lifted above zero."""
    victims: int
    newest: int
    """The start of the victim of the highest priority that runs for longest, in microseconds since 1970, less than zero."""


class Way(Protocol):
    """A way to make room for a pod."""

    @property
    def cost(self) -> Cost:
        """How much it hurts."""
        ...


W = TypeVar("W", bound=Way)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that the pod fits once the victims are gone, the most important one first."""

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int
    """How many of them a disruption budget does not allow to go."""

    @property
    def cost(self) -> Cost:
        """How much it hurts that they go."""
        highest = self.victims[0].priority
        longest = min(started(victim) for victim in self.victims if victim.priority == highest)
        total = sum(victim.priority + LIFT for victim in self.victims)
        return Cost(self.violations, highest, total, len(self.victims), -longest)


class Budgets:
    """The PodDisruptionBudgets of the cluster."""

    def __init__(self, budgets: Iterable[Object]) -> None:
        self._of: defaultdict[str, list[_Budget]] = defaultdict(list)
        for budget in map(_Budget.of, budgets):
            if budget is not None:
                self._of[budget.namespace].append(budget)

    def concern(self, pod: PodInfo) -> bool:
        """Whether one is for pods like this one, be they accounted for or not."""
        return any(budget.is_for(pod) for budget in self._of.get(pod.namespace, ()))

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Those whose going, one after the other in this order, violates a budget, and those whose does not."""
        gone: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            violated = False
            for budget in self._of.get(pod.namespace, ()):
                if budget.covers(pod):
                    count = gone[id(budget)] = gone.get(id(budget), 0) + 1
                    violated = violated or count > budget.allowed
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

    def is_for(self, pod: PodInfo) -> bool:
        """Whether a pod of its namespace has such labels."""
        return bool(pod.labels) and self.selector.matches(pod.labels)

    def covers(self, pod: PodInfo) -> bool:
        return pod.name not in self.disrupted and self.is_for(pod)


def select_victims(trial: Trial, pod: PodInfo, budgets: Budgets) -> Candidate | Verdict:
    """The least pods that must leave the node of the trial for `pod` to fit, or why it does not fit even so.

    All that are less important are taken off. Those that can stay are put back: first those whose going would violate
    a budget, then the others, each time the most important first. Raises: PluginFailed.
    """
    node_name = trial.node.name
    lower = sorted((other for other in trial.node.pods.values() if other.priority < pod.priority), key=rank)
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
        return none_needed(trial.node)
    return Candidate(node_name, tuple(sorted(victims, key=rank)), violations)


def none_needed(node: NodeInfo) -> Verdict:
    """What is said of a node where the pod turns out to fit although nobody leaves."""
    return unresolvable(f"expected at least one victim pod on node {node.name!r}")


def choose(ways: Sequence[W]) -> W:
    """The way that hurts least; of several equal ones the first."""
    return min(ways, key=lambda way: way.cost)


def terminating(pod: PodInfo) -> bool:
    """Whether the pod is on its way out because a scheduler preempted it."""
    if not pod.deleting:
        return False
    target = find((pod.raw.get("status") or {}).get("conditions") or (), DISRUPTION_TARGET) or {}
    return (target.get("status"), target.get("reason")) == ("True", PREEMPTED)


def under_way(pod: PodInfo, snapshot: Snapshot, rows: IntArray) -> bool:
    """Whether pods are leaving the pod's nominated node because of it, and it may still fit there after that.

    `rows` are the nodes that removing pods could help.
    """
    row = snapshot.row_of(pod.nominated_node)
    if row is None or row not in rows:
        return False
    others = snapshot.node(row).pods.values()
    return any(other.priority < pod.priority and terminating(other) for other in others)


def gather(count: int, wanted: int, try_one: Callable[[int], W | None], start: int) -> tuple[list[W], list[W]]:
    """Try `count` nodes from `start` on until there are `wanted` ways, one of which violates no budget.

    Returns those that violate none, and the others.
    """
    harmless: list[W] = []
    harmful: list[W] = []
    for index in around(count, start):
        way = try_one(index)
        if way is None:
            continue
        if not way.cost.violations:
            harmless.append(way)
        elif len(harmful) < wanted:
            harmful.append(way)
        if harmless and len(harmless) + len(harmful) >= wanted:
            break
    return harmless, harmful


def around(count: int, start: int) -> Iterator[int]:
    """The indexes of `count` things, from `start` on and then from the beginning."""
    yield from range(start, count)
    yield from range(start)


def _can_stay(trial: Trial, other: PodInfo) -> bool:
    trial.add(other)
    fits = not trial.verdict().rejected
    if not fits:
        trial.remove(other)
    return fits
