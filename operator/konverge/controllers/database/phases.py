"""Where a Database stands: its spec, what its StatefulSet reports and the phase it was in flow in, the next phase out.

Pure, so that every case is a row of a test. The counts of a StatefulSet are believed only when its controller has seen
the StatefulSet's present generation: before that they speak of an older spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from konverge.model import meta
from konverge.model.conditions import State
from konverge.model.resource import Object
from konverge.model.states import Phase

PENDING: Final = "Pending"
PROVISIONING: Final = "Provisioning"
RUNNING: Final = "Running"
UPDATING: Final = "Updating"
DEGRADED: Final = "Degraded"
SUSPENDED: Final = "Suspended"
DELETING: Final = "Deleting"

PHASES: Final = (
    Phase(PENDING, to=(PROVISIONING, RUNNING, UPDATING, SUSPENDED, DELETING), timeout=600),
    Phase(PROVISIONING, to=(RUNNING, UPDATING, SUSPENDED, DELETING), timeout=1800),
    Phase(RUNNING, to=(UPDATING, DEGRADED, SUSPENDED, DELETING), state=State.DONE),
    Phase(UPDATING, to=(RUNNING, SUSPENDED, DELETING), timeout=1800),
    Phase(DEGRADED, to=(RUNNING, UPDATING, SUSPENDED, DELETING), state=State.FAILING),
    # A phase of its own: the contract wants a suspended object to be done, and Running without a pod would be untrue.
    Phase(SUSPENDED, to=(PROVISIONING, RUNNING, UPDATING, DELETING), state=State.DONE),
    Phase(DELETING),
)

_STARTING: Final = frozenset({PENDING, PROVISIONING, SUSPENDED})
"""Phases in which pods that are not ready yet were not ready before either."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the StatefulSet's controller reports of the present generation; `rolling` while two revisions are about."""

    replicas: int
    ready: int
    rolling: bool


class Standing(NamedTuple):
    """A phase with the reason (CamelCase) and the message for the Ready condition."""

    phase: str
    reason: str
    message: str


def observe(stateful_set: Object) -> Observed | None:
    """What can be believed of a StatefulSet's status; None until its controller has seen its present generation.

    Nothing of one that is being deleted: it is made anew, and its pods go on without it meanwhile.
    """
    status: Mapping[str, object] = stateful_set.get("status") or {}
    seen = _count(status, "observedGeneration") >= max(meta.generation_of(stateful_set), 1)
    if not seen or meta.is_deleting(stateful_set):
        return None
    return Observed(
        replicas=_count(status, "replicas"),
        ready=_count(status, "readyReplicas"),
        rolling=status.get("currentRevision") != status.get("updateRevision"),
    )


def standing(
    wanted: int, observed: Observed | None, current: str | None, *, edited: bool, growing: str = ""
) -> Standing:
    """Where a Database stands that shall have `wanted` pods (0: suspended) and showed phase `current` last.

    `edited` says that the spec moved since that phase was shown: fewer ready pods are then the edit's doing, and not a
    failure. `growing` tells of volumes that are not as large yet as asked for; the pods serve meanwhile.
    """
    before = current or PENDING
    if wanted == 0:
        return _suspended(observed, before)
    if observed is None:
        return _unobserved(before)
    counts = f"{observed.ready} of {wanted} replicas ready"
    if observed.ready == observed.replicas == wanted and not observed.rolling:
        if growing:
            return Standing(UPDATING, "GrowingVolumes", growing)
        return Standing(RUNNING, "AllReplicasReady", counts)
    if before in _STARTING:
        return _starting(observed, before, counts)
    return _disturbed(observed, before, counts, edited=edited)


def _disturbed(observed: Observed, before: str, counts: str, *, edited: bool) -> Standing:
    """What ran before does not now: because of an edit, or by itself."""
    if observed.rolling:
        return Standing(UPDATING, "RollingOut", f"pods are being replaced by the new revision; {counts}")
    if edited or before == UPDATING:
        return Standing(UPDATING, "Scaling", f"{observed.replicas} pods, {counts}")
    return Standing(DEGRADED, "ReplicasNotReady", counts)


def _starting(observed: Observed, before: str, counts: str) -> Standing:
    if before == PENDING and observed.replicas == 0:
        return Standing(PENDING, "WaitingForPods", f"no pod was made yet; {counts}")
    return Standing(PROVISIONING, "StartingReplicas", counts)


def _suspended(observed: Observed | None, before: str) -> Standing:
    stopped = observed is not None and observed.replicas == 0
    if stopped or (observed is None and before == SUSPENDED):
        return Standing(SUSPENDED, "Suspended", "no pod runs while spec.suspend is true; the data is kept")
    message = "waiting for the pods to stop" if observed is None else f"{observed.replicas} pods still run"
    return Standing(PENDING if before == PENDING else UPDATING, "Suspending", message)


def _unobserved(before: str) -> Standing:
    message = "the StatefulSet was written; its controller has not seen that yet"
    if before == PENDING:
        return Standing(PENDING, "WaitingForController", message)
    return Standing(PROVISIONING if before in _STARTING else UPDATING, "WaitingForController", message)


def _count(status: Mapping[str, object], field: str) -> int:
    value = status.get(field)
    return value if isinstance(value, int) else 0
