"""kstatus as an oracle: an object flows in, what Flux and other tools on kstatus make of it flows out.

The rules of `status.Compute` for kinds that it has no rules of their own for, in their order: deletion, an observed
generation that is not the present one, the first Reconciling or Stalled that holds, the first Ready, and Current where
nothing of that is there.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

Object = Mapping[str, Any]


class Health(Enum):
    """What kstatus says of an object."""

    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    CURRENT = "Current"
    TERMINATING = "Terminating"


def compute(obj: Object) -> Health:
    """The status of `obj`. Raises: TypeError where kstatus errs, for what is not of the type that it expects."""
    metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return Health.TERMINATING
    generation, observed = _integer(metadata, "generation"), _integer(status, "observedGeneration")
    if generation is not None and observed is not None and observed != generation:
        return Health.IN_PROGRESS
    conditions = _conditions(status)
    for condition in conditions:
        if condition.get("status") == "True" and condition.get("type") == "Reconciling":
            return Health.IN_PROGRESS
        if condition.get("status") == "True" and condition.get("type") == "Stalled":
            return Health.FAILED
    for condition in conditions:
        if condition.get("type") == "Ready":
            return Health.CURRENT if condition.get("status") == "True" else Health.IN_PROGRESS
    return Health.CURRENT


def _integer(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{name} is {value!r}, not an integer")
    return value


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = status.get("conditions") or []
    if not isinstance(listed, list):
        raise TypeError(f"conditions are {listed!r}, not a list")
    return listed
