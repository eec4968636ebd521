"""A scheduler's part in the work that several replicas share: which pods are its own, and how its binds and theirs go together.

In flow the team and the scheduler's insides; out flow an answer for each pod (ours or another's), leave for each bind, and
what the others do as far as it counts here.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.errors import PluginFailed
from konverge.ports import Api, Clock
from konverge.scheduler.bind import Assignment
from konverge.scheduler.bookings import Bookings, Team
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.elsewhere import Elsewhere
from konverge.scheduler.neighbours import Neighbours
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies
from konverge.scheduler.queue import SchedulingQueue
from konverge.scheduler.share import in_charge
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.stats import Ledger

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """With whom a scheduler shares the work: the team, and the namespace and name of the ConfigMap that is their register."""

    team: Team
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Insides:
    """What of a scheduler is shared."""

    api: Api
    pods: Cache
    clock: Clock
    snapshot: Snapshot
    queue: SchedulingQueue
    ledger: Ledger
    policies: Policies
    cycle: Cycle
    see: Callable[[PodInfo], None]
    """Puts a pod where it belongs."""
    past_permit: Callable[[], Iterator[PodInfo]]
    """The pods that are about to be booked, or are."""


class Sharing:
    """See the module."""

    def __init__(self, shared: Shared, inside: Insides) -> None:
        self._team, self._policies, self._pods = shared.team, inside.policies, inside.pods
        self._cycle = inside.cycle
        self._neighbours = Neighbours(inside.api, inside.pods, inside.snapshot, inside.queue, inside.see)
        self._elsewhere = Elsewhere(inside.queue, inside.ledger, self._theirs)
        self.bookings = Bookings(
            inside.api,
            shared.team,
            namespace=shared.namespace,
            name=shared.name,
            pods=inside.pods,
            clock=inside.clock,
            snapshot=inside.snapshot,
            neighbours=self._neighbours,
            fits=self._fits,
            past_permit=inside.past_permit,
        )

    def replica_of(self, pod: PodInfo) -> str:
        """The replica that is in charge of the pod."""
        return in_charge(pod, self._team.alive)

    def mine(self, pod: PodInfo) -> bool:
        """Whether the waiting pod is for this replica to place."""
        return not self._neighbours.has(pod.uid) and self.replica_of(pod) == self._team.identity

    def booked_elsewhere(self, uid: str) -> bool:
        """Whether another replica is about to bind the pod."""
        return self._neighbours.has(uid)

    def on_pod(self, change: Change) -> None:
        """A pod came, changed or went; everything else has seen it."""
        self.bookings.on_pod(change)
        self._elsewhere.on_pod(change)

    def on_register(self, change: Change) -> None:
        """The register changed."""
        self.bookings.show(change.new)

    def team_changed(self) -> None:
        """Replicas came or went, and every pod has been looked at again."""
        self.bookings.look_again()
        for raw in self._pods.list():
            self._elsewhere.see(PodInfo(raw))

    def _theirs(self, pod: PodInfo) -> bool:
        return self._policies.of(pod) is not None and not self.mine(pod)

    def _fits(self, assignment: Assignment) -> bool:
        try:
            return self._cycle.still_fits(assignment.profile, assignment.waiting.pod, assignment.node_name)
        except PluginFailed as error:
            _log.warning("pod %s is decided on anew: %s", assignment.waiting.pod.key, error)
            return False
