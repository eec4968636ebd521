"""Why a pod fits nowhere, in kube-scheduler's words: `0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.`"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.podinfo import PodInfo

NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """What one attempt found. `reasons` counts the nodes that each reason turned away."""

    nodes: int
    reasons: Counter[str] = field(default_factory=Counter)
    plugins: set[str] = field(default_factory=set)
    """The plugins that rejected anything: they know which events could help."""
    whole: tuple[str, ...] = ()
    """Why the pod was turned away as a whole, before any node was looked at."""
    resolvable: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), compare=False)
    """The rows of the nodes that removing pods could help, in order."""
    way_out: str = ""
    """What the PostFilter plugins say."""
    nominated: str | None = ""
    """The node that is to be cleared for the pod, empty for none; None leaves the pod's nomination as it is."""
    victims: tuple[PodInfo, ...] = ()
    """Who has to go from there."""

    @property
    def message(self) -> str:
        """The text of the event and the condition."""
        if not self.nodes:
            return NO_NODES
        text = f"0/{self.nodes} nodes are available:"
        reasons = self.whole or sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        if reasons:
            text += f" {', '.join(reasons)}."
        return f"{text} {self.way_out}" if self.way_out else text

    @property
    def counts(self) -> Mapping[str, int]:
        """The reasons with the number of nodes, also where they hold for all."""
        if not self.nodes:
            return {NO_NODES: 0}
        return dict.fromkeys(self.whole, self.nodes) if self.whole else self.reasons


def turned_away(plugin: str, reasons: Iterable[str]) -> Diagnosis:
    """A plugin rejected the pod on the one node that had been chosen for it."""
    diagnosis = Diagnosis(nodes=1, plugins={plugin})
    diagnosis.reasons.update(reasons)
    return diagnosis
