"""The PersistentVolumeClaims that pods use, and which nodes have pods that use them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from konverge.scheduler.columns import AmountColumn, IntArray


class UsedClaim(NamedTuple):
    """A claim in a pod's namespace. An ephemeral one is made for the pod, and must belong to it."""

    name: str
    ephemeral: bool


def claims_of(pod_name: str, spec: Mapping[str, Any]) -> tuple[UsedClaim, ...]:
    """The claims that a pod's volumes name, in order."""
    return tuple(
        UsedClaim(f"{pod_name}-{volume['name']}", ephemeral=True)
        if volume.get("ephemeral")
        else UsedClaim(volume["persistentVolumeClaim"].get("claimName") or "", ephemeral=False)
        for volume in spec.get("volumes") or ()
        if volume.get("ephemeral") or volume.get("persistentVolumeClaim")
    )


class ClaimIndex:
    """Which rows of the snapshot have pods that use claims, and which."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, str], Counter[int]] = {}
        self._counts: Counter[int] = Counter()
        self._column = AmountColumn()

    def add(self, row: int, namespace: str, claims: Iterable[UsedClaim]) -> None:
        """A pod on `row` uses these."""
        for claim in claims:
            self._users.setdefault((namespace, claim.name), Counter())[row] += 1
            self._count(row, 1)

    def remove(self, row: int, namespace: str, claims: Iterable[UsedClaim]) -> None:
        """A pod on `row` uses them no longer."""
        for claim in claims:
            users = self._users[namespace, claim.name]
            users[row] -= 1
            if not users[row]:
                del users[row]
            if not users:
                del self._users[namespace, claim.name]
            self._count(row, -1)

    def used(self, namespace: str, name: str) -> bool:
        """Whether a pod on any node uses the claim."""
        return (namespace, name) in self._users

    def counts(self, rows: IntArray) -> IntArray:
        """How often the pods on each row name a claim: at least as often as they have volumes by claims."""
        return self._column.take(rows)

    def _count(self, row: int, change: int) -> None:
        self._counts[row] += change
        self._column.set(row, self._counts[row])
