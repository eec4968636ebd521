"""How a policy stands among those for the same schedulerName: what the scheduler runs flows in, a judgement out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from konverge.model.selectors import Operator, Requirement, Selector
from konverge.scheduler.policies import Policy, Rule


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a policy stands."""

    shadow: str = ""
    """The policy that has all the pods that this one matches, because it is asked first; empty: none."""
    ties: tuple[str, ...] = ()
    """Policies of the same priority and specificity that may match the same pods: there the name alone decides."""


def standing(owner: str, policies: Sequence[Policy]) -> Standing:
    """How the policy of `owner` stands among `policies`, which are in the order in which they are asked."""
    at = next(index for index, policy in enumerate(policies) if policy.owner == owner)
    rule = policies[at].rule
    return Standing(
        shadow=next((first.owner for first in policies[:at] if _covers(first.rule, rule)), ""),
        ties=tuple(
            other.owner
            for other in policies
            if other.owner != owner
            and (other.rule.priority, other.rule.specificity) == (rule.priority, rule.specificity)
            and _may_overlap(other.rule, rule)
        ),
    )


def _covers(first: Rule, later: Rule) -> bool:
    """Whether `first` takes every pod that `later` matches: it asks for nothing that the other does not."""
    return (
        first.canary_percent == 100
        and {*first.pods.requirements} <= {*later.pods.requirements}
        and {*first.namespaces.requirements} <= {*later.namespaces.requirements}
    )


def _may_overlap(one: Rule, other: Rule) -> bool:
    """Whether a pod may match both, as far as the selectors tell: not when they want different values of one label."""
    return not (_exclude(one.pods, other.pods) or _exclude(one.namespaces, other.namespaces))


def _exclude(one: Selector, other: Selector) -> bool:
    return any(
        left.key == right.key and _contradict(left, right) for left in one.requirements for right in other.requirements
    )


def _contradict(one: Requirement, other: Requirement) -> bool:
    for left, right in ((one, other), (other, one)):
        match left.operator, right.operator:
            case Operator.IN, Operator.IN if not left.values & right.values:
                return True
            case Operator.IN, Operator.NOT_IN if left.values <= right.values:
                return True
            case ((Operator.IN | Operator.EXISTS), Operator.DOES_NOT_EXIST):
                return True
    return False
