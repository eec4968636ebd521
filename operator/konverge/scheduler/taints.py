"""Taints of nodes and tolerations of pods, and whether one tolerates the other."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


class Taint(NamedTuple):
    """One entry of a node's `spec.taints`."""

    key: str
    value: str
    effect: str

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Taint":
        """Read it off parsed JSON."""
        return cls(raw.get("key") or "", raw.get("value") or "", raw.get("effect") or "")


class Toleration(NamedTuple):
    """One entry of a pod's `spec.tolerations`. Empty `key` and `effect` stand for every key and every effect."""

    key: str
    operator: str
    value: str
    effect: str

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Toleration":
        """Read it off parsed JSON."""
        return cls(
            raw.get("key") or "", raw.get("operator") or "Equal", raw.get("value") or "", raw.get("effect") or ""
        )

    def tolerates(self, taint: Taint) -> bool:
        """Whether the pod may ignore `taint`. An operator other than Equal and Exists tolerates nothing."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations covers `taint`."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
