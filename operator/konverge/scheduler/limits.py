"""What a filter says of nodes, put as sums over the pods there: so that many nodes can be tried at once without some pods.

Each pod on a node has a weight, and the weights of those that stay must not exceed what the node has room for: millicores,
taken ports, pods that unbalance a spread. What a filter says so, preemption reckons for all nodes in a few steps over
columns; for the others it takes pods off each node in turn and asks.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.podinfo import PodInfo


@dataclass(frozen=True, slots=True)
class Weight:
    """How much each pod weighs: a number that may be negative, for a pod that must not go."""

    what: Hashable
    """Equal `what` must mean equal `of`."""
    of: Callable[[PodInfo], int]
    alike: bool = False
    """Whether pods of one namespace with the same labels, the same pod affinity, and both leaving or not, weigh the same."""


WEIGHTLESS: Final = Weight("nothing", lambda _: 0, alike=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """A node is rejected where `used`, less the weights of the pods that leave it, is more than `most`."""

    reason: str
    weight: Weight
    used: IntArray | None
    """By row asked about; None where it is what the pods on the node weigh together."""
    most: IntArray
    counted: BoolArray | None = None
    """The rows whose pods weigh anything; None for all."""
    waived_at: int | None = None
    """Where the pods on a node weigh that together, it is rejected for nothing here, whoever leaves."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All that one filter says of some rows."""

    limits: tuple[Limit, ...] = ()
    first_only: bool = False
    """Whether a node is told the first of the limits that it exceeds, rather than all of them."""
    unsure: BoolArray | None = None
    """The rows of which it cannot be said so; None for none."""
