"""Which profile places a pod: several policies may serve one `schedulerName`, each for the pods that its rule picks.

In flow policies (a rule and a profile, by owner) and pods; out flows the owner whose pod it is, and the profile it meets.
Of the policies that match a pod the highest priority has it, then the one with more requirements in its selectors, then
the first name. A pod outside a policy's canary share is the next one's. Nothing here waits or writes.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from konverge.errors import SchedulingError
from konverge.model.selectors import Selector
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, ProfileConfig
from konverge.scheduler.variants import SHARES, Variants, share_of


@dataclass(frozen=True, slots=True)
class Rule:
    """Which pods with the profile's `schedulerName` are a policy's, and when it places them."""

    pods: Selector = field(default_factory=Selector.everything)
    namespaces: Selector = field(default_factory=Selector.everything)
    priority: int = 0
    canary_percent: int = 100
    """The share of the pods that it takes of those that it matches."""
    hold: bool = False
    """Its pods wait: it places none, and no other policy does."""
    drain: bool = False
    """Those of its pods that have a node are evicted."""
    lazy: bool = False
    """A change of the profile is for pods that come after it; those that wait keep the profile that they met."""

    @property
    def specificity(self) -> int:
        """The number of requirements of both selectors."""
        return self.pods.specificity + self.namespaces.specificity

    def takes(self, owner: str, uid: str) -> bool:
        """Whether the pod with that uid is in the canary share of `owner`'s policy."""
        return self.canary_percent >= SHARES or share_of(uid, f"policy/{owner}") < self.canary_percent


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, as the scheduler runs it."""

    owner: str
    config: ProfileConfig
    rule: Rule
    variants: Variants


def order(owner: str, rule: Rule) -> tuple[int, int, str]:
    """Sorts policies: the first that matches a pod has it."""
    return (-rule.priority, -rule.specificity, owner)


_NONE: Final[Sequence[Policy]] = ()


class Policies:
    """The policies in force. `namespace_labels` gives the labels of a namespace by its name."""

    def __init__(self, namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._namespace_labels = namespace_labels
        self._by_owner: dict[str, Policy] = {}
        self._by_name: dict[str, Sequence[Policy]] = {}
        self._kept: defaultdict[str, dict[str, Variants]] = defaultdict(dict)
        """By owner and uid: what a pod met before a change of a lazy policy."""

    def get(self, owner: str) -> Policy | None:
        """The policy of that owner."""
        return self._by_owner.get(owner)

    def put(self, policy: Policy, waiting: Sequence[PodInfo] = ()) -> None:
        """Add or replace a policy; under a lazy rule those of `waiting` that are its own keep what they met.

        Raises: SchedulingError when it sorts the queue otherwise than the policies of other owners do.
        """
        for other in self._by_owner.values():
            ours, theirs = policy.variants.queue_sort, other.variants.queue_sort
            if other.owner != policy.owner and type(ours) is not type(theirs):
                raise SchedulingError(
                    f"all profiles share one queue: {other.owner} sorts it with {theirs.name}, "
                    f"so this profile cannot use {ours.name}"
                )
        before = self._by_owner.get(policy.owner)
        if before is not None and policy.rule.lazy and before.config != policy.config:
            for pod in waiting:
                if self.of(pod) is before:
                    self._kept[policy.owner].setdefault(pod.uid, before.variants)
        elif not policy.rule.lazy:
            self._kept.pop(policy.owner, None)
        self._by_owner[policy.owner] = policy
        self._sort()

    def remove(self, owner: str) -> None:
        """Take a policy away."""
        self._by_owner.pop(owner, None)
        self._kept.pop(owner, None)
        self._sort()

    def forget(self, uid: str) -> None:
        """The pod waits no longer: it keeps no earlier profile."""
        for kept in self._kept.values():
            kept.pop(uid, None)

    def serving(self, scheduler_name: str) -> Sequence[Policy]:
        """The policies for pods with that `schedulerName`, the first to be asked first."""
        return self._by_name.get(scheduler_name, _NONE)

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The schedulerNames that any policy serves."""
        return frozenset(self._by_name)

    @property
    def draining(self) -> frozenset[str]:
        """The owners whose pods on nodes have to go."""
        return frozenset(owner for owner, policy in self._by_owner.items() if policy.rule.drain)

    @property
    def minds_namespaces(self) -> frozenset[str]:
        """The schedulerNames for which the labels of namespaces matter."""
        return frozenset(
            policy.config.scheduler_name for policy in self._by_owner.values() if policy.rule.namespaces.specificity
        )

    def of(self, pod: PodInfo) -> Policy | None:
        """The policy whose pod it is, if one matches."""
        for policy in self._by_name.get(pod.scheduler_name, _NONE):
            rule = policy.rule
            if (
                rule.pods.matches(pod.labels)
                and (not rule.namespaces.specificity or rule.namespaces.matches(self._namespace_labels(pod.namespace)))
                and rule.takes(policy.owner, pod.uid)
            ):
                return policy
        return None

    def owner_of(self, pod: PodInfo) -> str | None:
        """The owner of that policy."""
        policy = self.of(pod)
        return None if policy is None else policy.owner

    def profile_of(self, pod: PodInfo) -> Profile | None:
        """The profile that places the pod; None where no policy matches it, or the one that does holds its pods."""
        variants = self.variants_of(pod)
        return None if variants is None else variants.of(pod.uid)

    def variants_of(self, pod: PodInfo) -> Variants | None:
        """All forms of that profile: it is one of these."""
        policy = self.of(pod)
        if policy is None or policy.rule.hold:
            return None
        kept = self._kept.get(policy.owner)
        variants = kept.get(pod.uid) if kept else None
        return variants or policy.variants

    def _sort(self) -> None:
        found: defaultdict[str, list[Policy]] = defaultdict(list)
        for policy in sorted(self._by_owner.values(), key=lambda each: order(each.owner, each.rule)):
            found[policy.config.scheduler_name].append(policy)
        self._by_name = dict(found)
