"""Which pods belong together: gangs, named by a label, and the pods of one controller.

In flow pods, raw or parsed, and the caches; out flow the gang of a pod, its members and how they stand. Pure.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from konverge.model.meta import annotations_of, controller_of, is_deleting, labels_of, uid_of
from konverge.model.resource import Object, Pod
from konverge.scheduler.columns import IntArray
from konverge.scheduler.handle import Lister
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

GANG: Final = "scheduling.konverge.dev/gang"
"""The label of a pod that names its gang, within its namespace."""

POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""The label that other gang schedulers use; read where a pod has no label `GANG`."""

MIN_COUNT: Final = "scheduling.konverge.dev/gang-min-count"
"""The annotation of a pod that says how many members of its gang must have a node before any is bound."""

MAX_MIN_COUNT: Final = 10_000

_COUNT: Final = re.compile(r"[1-9][0-9]{0,4}")


class Gang(NamedTuple):
    """The name of a gang."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Family(NamedTuple):
    """What pods that belong together have in common: their gang, or else the uid of their controller."""

    namespace: str
    gang: str
    controller: str


def gang_of(pod: PodInfo) -> Gang | None:
    """The gang that the pod says it is in."""
    labels = pod.labels
    name = labels.get(GANG) or labels.get(POD_GROUP)
    return Gang(pod.namespace, name) if name else None


def family_of(pod: PodInfo) -> Family | None:
    """Whom the pod belongs with; None where it stands alone."""
    gang = gang_of(pod)
    if gang is not None:
        return Family(pod.namespace, gang.name, "")
    controller = controller_of(pod.raw)
    return Family(pod.namespace, "", controller["uid"]) if controller else None


def min_count_of(raw: Object) -> int | None:
    """What the annotation of a raw pod says; None without it. Raises: ValueError that says what is wrong with it."""
    text = annotations_of(raw).get(MIN_COUNT)
    if text is None:
        return None
    if not _COUNT.fullmatch(text) or int(text) > MAX_MIN_COUNT:
        raise ValueError(f"annotation {MIN_COUNT} is {text!r}: it must be a whole number from 1 to {MAX_MIN_COUNT}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Census:
    """How a gang stands. Members that are on their way out, or have failed, are in none of the sets."""

    min_count: int
    """How many of its members must have a node before any is bound."""
    unbound: frozenset[str]
    """The uids of the members that wait for a node or for their bind, without gates and for the same scheduler."""
    bound: frozenset[str]
    """The uids of those that the server has on a node, and of those that succeeded on theirs."""

    @property
    def size(self) -> int:
        """The members that exist."""
        return len(self.unbound) + len(self.bound)


def census(gang: Gang, scheduler_name: str, lister: Lister, default: int) -> Census:
    """Count a gang. `default` is the minCount where no member says otherwise; of several numbers the largest holds."""
    counts: list[int] = []
    unbound, bound = set(), set()
    for raw in members(gang, lister):
        count = _min_count_or_none(raw)
        if count is not None:
            counts.append(count)
        spec, phase = raw["spec"], (raw.get("status") or {}).get("phase")
        if phase == "Failed" or (is_deleting(raw) and phase != "Succeeded"):
            continue
        if spec.get("nodeName"):
            bound.add(uid_of(raw))
        elif spec.get("schedulerName") == scheduler_name and not spec.get("schedulingGates"):
            unbound.add(uid_of(raw))
    return Census(max(counts, default=default), frozenset(unbound), frozenset(bound))


def relatives(family: Family, snapshot: Snapshot) -> IntArray:
    """How many pods of a family are on each row of the snapshot. Those on their way out do not count.

    Pods that are alike in their labels are taken to have the same controller.
    """
    counts = snapshot.groups.by_row(
        family.namespace, family, lambda group: not group.deleting and family_of(group.pod) == family
    )
    return counts.up_to(snapshot.size)


def unplaced(family: Family, lister: Lister, snapshot: Snapshot) -> int:
    """How many pods of a family wait for a node."""
    pods = map(PodInfo, lister.list(Pod, family.namespace))
    return sum(pod.waiting and snapshot.node_of(pod.uid) is None and family_of(pod) == family for pod in pods)


def members(gang: Gang, lister: Lister) -> Iterable[Object]:
    """The pods that say that they are in the gang."""
    for raw in lister.list(Pod, gang.namespace):
        labels = labels_of(raw)
        if (labels.get(GANG) or labels.get(POD_GROUP)) == gang.name:
            yield raw


def _min_count_or_none(raw: Object) -> int | None:
    """A member whose annotation makes no sense is told so itself; the others go by theirs."""
    try:
        return min_count_of(raw)
    except ValueError:
        return None
