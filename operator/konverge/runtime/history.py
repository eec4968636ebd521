"""How the last reconcile of each object ended, kept only where somebody may ask: the debug endpoint turns it on.

Outcomes flow in from a controller, the last one of a key flows out. Bounded: the oldest are forgotten.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from konverge.model.meta import Key

REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Past:
    """One reconcile that has ended: when, after how many seconds, and with which result (a metric's label).

    `reason` and `message` are those of its verdict, empty where it gave none.
    """

    at: datetime
    seconds: float
    result: str
    reconcile_id: str
    reason: str = ""
    message: str = ""


class History:
    """The last reconcile of up to `limit` keys."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._past: OrderedDict[Key, Past] = OrderedDict()

    def note(self, key: Key, past: Past) -> None:
        """A reconcile of `key` has ended."""
        self._past[key] = past
        self._past.move_to_end(key)
        if len(self._past) > self._limit:
            self._past.popitem(last=False)

    def get(self, key: Key) -> Past | None:
        """The last one of `key`; None where there was none, or it is forgotten."""
        return self._past.get(key)
