"""How much is compared with kube-scheduler: how many seeds, and the count of what was."""

import os
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What was compared."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """placed, refused, preempted."""
    scores: int = 0
    """A plugin's for a node each."""
    real_choices: int = 0
    """Pods that got one of the best nodes where others fitted, but were worse."""


def seeds(usually: int) -> range:
    """As many as the environment asks for; each is a cluster of its own."""
    return range(1, 1 + int(os.environ.get("KONVERGE_PARITY_SEEDS", usually)))
