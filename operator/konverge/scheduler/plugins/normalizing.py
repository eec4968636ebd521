"""How raw scores become 0-100, for the plugins that count something."""

import numpy as np

from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import MAX_SCORE


def share_of_largest(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """100 * score / largest, truncated; reversed it is taken from 100. All zeros stay 0, reversed they are 100."""
    largest = scores.max(initial=0)
    shares: IntArray = scores * MAX_SCORE // largest if largest > 0 else np.zeros_like(scores)
    return MAX_SCORE - shares if reverse else shares
