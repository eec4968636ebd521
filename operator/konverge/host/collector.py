"""The garbage collector of a process that holds very many objects for very long: caches flow in, walks over them do not.

What is parsed JSON has no cycles, so the collector finds nothing in a cache, and would look through all of it again and
again while it grows. Objects that are dropped still go at once, by their reference counts.
"""

import gc
from typing import Final

THRESHOLD: Final = 10_000
"""Containers made and not freed that start a look at the young ones; Python's 700 is reached by a page of a list."""


def relax() -> None:
    """Look less often. To be called once, before there is much to look at."""
    gc.set_threshold(THRESHOLD, 20, 20)


def settle() -> None:
    """Never look again at what is there now: modules, and what the caches have listed. Takes one last look first."""
    gc.collect()
    gc.freeze()
