"""How important pods on nodes are to preemption: by priority, then by how long they run. Pods flow in, sort keys flow out."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from konverge.model.meta import Key
from konverge.scheduler.podinfo import PodInfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOT_YET: Final = 2**62
"""The start of a pod that has not started: later than any other."""


def rank(pod: PodInfo) -> tuple[int, int, Key]:
    """The more important the pod, the smaller: higher priority, then running for longer; the name breaks ties."""
    return -pod.priority, started(pod), pod.key


def started(pod: PodInfo) -> int:
    """When the pod started, in microseconds since 1970; one that has not started is the newest of all."""
    moment: Any = (pod.raw.get("status") or {}).get("startTime")
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND if moment else _NOT_YET
