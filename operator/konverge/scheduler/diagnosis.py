"""Why a pod fits nowhere, in kube-scheduler's words: `0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.`"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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

    @property
    def message(self) -> str:
        """The text of the event and the condition."""
        if not self.nodes:
            return NO_NODES
        head = f"0/{self.nodes} nodes are available:"
        if self.whole:
            return f"{head} {', '.join(self.whole)}."
        counted = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        return f"{head} {', '.join(counted)}." if counted else head

    @property
    def counts(self) -> Mapping[str, int]:
        """The reasons with the number of nodes, also where they hold for all."""
        if not self.nodes:
            return {NO_NODES: 0}
        return dict.fromkeys(self.whole, self.nodes) if self.whole else self.reasons
