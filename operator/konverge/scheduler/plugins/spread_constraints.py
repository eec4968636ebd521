"""The constraints that PodTopologySpread keeps: those of a pod, or the defaults of a profile for a pod that has none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from konverge.model.selectors import Operator, Requirement, Selector
from konverge.scheduler.framework import PluginArgs
from konverge.scheduler.handle import Lister
from konverge.scheduler.podgroups import PodGroup
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.workloads import selector_of

WhenUnsatisfiable = Literal["DoNotSchedule", "ScheduleAnyway"]
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


class DefaultConstraint(PluginArgs):
    """A constraint for pods without any; which pods it counts follows from the pod's Services and controller."""

    topology_key: str = Field(min_length=1)
    max_skew: int = Field(ge=1)
    when_unsatisfiable: WhenUnsatisfiable
    min_domains: int | None = Field(default=None, ge=1)
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None

    @field_validator("topology_key")
    @classmethod
    def _is_a_label(cls, key: str) -> str:
        Requirement(key, Operator.EXISTS)
        return key


class SpreadArgs(PluginArgs):
    """The arguments of PodTopologySpread."""

    defaulting_type: Literal["System", "List"] = "System"
    """System: kube-scheduler's own defaults. List: `default_constraints`, which may be none."""
    default_constraints: tuple[DefaultConstraint, ...] = ()

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.defaulting_type == "System" and self.default_constraints:
            raise ValueError("defaultConstraints are for defaultingType List; set that, or leave them out")
        pairs = [(each.topology_key, each.when_unsatisfiable) for each in self.default_constraints]
        if len(set(pairs)) < len(pairs):
            raise ValueError("defaultConstraints name a topologyKey twice with the same whenUnsatisfiable; keep one")
        return self


SYSTEM_DEFAULTS: Final = (
    DefaultConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable="ScheduleAnyway"),
    DefaultConstraint(topology_key=ZONE, max_skew=5, when_unsatisfiable="ScheduleAnyway"),
)
"""kube-scheduler's systemDefaultConstraints."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One entry of `topologySpreadConstraints`, with its defaults."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool

    def counts(self, other: PodGroup | PodInfo) -> bool:
        """Whether pods of the same namespace are among those to spread: not those on their way out.

        A selector that requires nothing counts nothing here, unlike elsewhere.
        """
        return not other.deleting and bool(self.selector.requirements) and self.selector.matches(other.labels)


class Constraints:
    """Finds the constraints of pods."""

    def __init__(self, args: SpreadArgs, lister: Lister) -> None:
        self._lister = lister
        self._system = args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._defaults = [each.model_dump(by_alias=True) for each in defaults]

    def of(self, pod: PodInfo, when: WhenUnsatisfiable) -> tuple[Constraint, ...]:
        """The constraints of a pod with that `whenUnsatisfiable`; the defaults' only for a pod with none at all."""
        own = _own(pod)
        if own:
            return tuple(
                _constraint(entry, _selector(pod, entry)) for entry in own if entry.get("whenUnsatisfiable") == when
            )
        defaults = [entry for entry in self._defaults if entry["whenUnsatisfiable"] == when]
        if not defaults:
            return ()
        selector = selector_of(pod, self._lister)
        return tuple(_constraint(entry, selector) for entry in defaults) if selector.requirements else ()

    def need_all_keys(self, pod: PodInfo) -> bool:
        """Whether only nodes with the keys of all constraints are scored: the system's defaults also spread without zones."""
        return bool(_own(pod)) or not self._system


def _own(pod: PodInfo) -> list[Mapping[str, Any]]:
    return pod.spec.get("topologySpreadConstraints") or []


def _selector(pod: PodInfo, entry: Mapping[str, Any]) -> Selector:
    selector = Selector.of(entry.get("labelSelector"))
    same = [
        Requirement(key, Operator.IN, frozenset({pod.labels[key]}))
        for key in entry.get("matchLabelKeys") or ()
        if key in pod.labels
    ]
    if same and not selector.never:
        selector = Selector((*selector.requirements, *same))
    return selector


def _constraint(entry: Mapping[str, Any], selector: Selector) -> Constraint:
    return Constraint(
        key=entry["topologyKey"],
        max_skew=entry["maxSkew"],
        min_domains=entry.get("minDomains") or 1,
        selector=selector,
        honors_affinity=(entry.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=entry.get("nodeTaintsPolicy") == "Honor",
    )
