"""No pod is evicted for one of a company that would not find its nodes: the others are placed first, in thought.

In flow a pod with the room that could be made for it, and the pods without which its node is worth nothing: its gang. Each of
these is placed in the snapshot where it would go, in place of its victims where it has to be, until enough have a node or
too many have none; then all is put back. Nothing yields meanwhile. What plugins reserve, volumes for one, is not reckoned.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from konverge.errors import PluginFailed
from konverge.scheduler.columns import IntArray
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Company, CycleState, Point, PostFilter, PostFilterResult
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.snapshot import Placement, Snapshot
from konverge.scheduler.watch import failed

_KEPT: Final = 1024
"""The approvals of so many companies are remembered; without its own one is reckoned again."""

NameOrDiagnosis = str | Diagnosis
"""The node for a pod, or why it has none and who would have to go."""


@dataclass(slots=True)
class _Approval:
    """Who was seen to find a node together: each may have pods evicted once without being reckoned again."""

    uids: set[str]
    rows: IntArray
    """The snapshot's, which are another array once a node came or went."""


class Companies:
    """See the module."""

    def __init__(
        self, snapshot: Snapshot, nominations: Nominations, place: Callable[[Profile, PodInfo], NameOrDiagnosis]
    ) -> None:
        """`place` finds a node for a pod, with the plugins of a profile. It may raise PluginFailed."""
        self._snapshot, self._nominations, self._place = snapshot, nominations, place
        self._approvals: LatestUsed[str, _Approval] = LatestUsed(_KEPT)

    def lacking(self, profile: Profile, state: CycleState, pod: PodInfo, way: PostFilterResult) -> str:
        """Why the victims of `way` would go in vain; empty where they would not. Raises: PluginFailed."""
        for plugin, company in self._of(profile, state, pod):
            approval = self._approval(company)
            if pod.uid in approval.uids and approval.rows is self._snapshot.rows:
                approval.uids.discard(pod.uid)
                continue
            found = self._rehearse(_without(profile, plugin), pod, way, company)
            if len(found) < company.needed:
                approval.uids.clear()
                missing = company.needed - len(found)
                return (
                    f"preemption: {company.name} does not fit as a whole, {missing} more node(s) could not be cleared"
                )
            approval.uids, approval.rows = found, self._snapshot.rows
            plugin.room_is_made(pod, company)
        return ""

    def stuck(self, profile: Profile, state: CycleState, pod: PodInfo) -> None:
        """The pod found no way: what its company was seen to find holds no longer. Raises: PluginFailed."""
        for _, company in self._of(profile, state, pod):
            self._approval(company).uids.clear()

    def _of(self, profile: Profile, state: CycleState, pod: PodInfo) -> Iterable[tuple[PostFilter, Company]]:
        for plugin in profile.post_filters:
            try:
                company = plugin.company(state, pod, self._snapshot)
            except Exception as error:
                raise failed(plugin, Point.POST_FILTER, f"{type(error).__name__}: {error}") from error
            if company is not None:
                yield plugin, company

    def _approval(self, company: Company) -> _Approval:
        return self._approvals.get(company.name, lambda: _Approval(set(), np.zeros(0, dtype=np.int64)))

    def _rehearse(self, profile: Profile, pod: PodInfo, way: PostFilterResult, company: Company) -> set[str]:
        """The uids of those of the company that find nodes; no more are looked at than it takes to tell."""
        before = self._nominations.node_of(pod.uid)
        self._nominations.discard(pod.uid)
        stage = _Stage(self._snapshot)
        try:
            stage.put(pod, str(way.node_name), way.victims)
            return self._found(profile, company, stage)
        finally:
            stage.clear()
            self._nominations.put(pod, before)

    def _found(self, profile: Profile, company: Company, stage: "_Stage") -> set[str]:
        # Room is being made for these already, and nobody else may take it.
        found = {
            other.uid
            for other in company.pods
            if self._snapshot.row_of(self._nominations.node_of(other.uid)) is not None
        }
        hopeless: list[PodInfo] = []
        looking = [other for other in company.pods if other.uid not in found]
        for index, other in enumerate(looking):
            if not len(found) < company.needed <= len(found) + len(looking) - index:
                break
            if any(map(other.asks_the_same, hopeless)) or not self._put(profile, other, stage):
                hopeless.append(other)
            else:
                found.add(other.uid)
        return found

    def _put(self, profile: Profile, pod: PodInfo, stage: "_Stage") -> bool:
        """Place one pod where it would go; whether there is such a node."""
        try:
            where = self._place(profile, pod)
        except PluginFailed:
            return False
        if isinstance(where, str):
            stage.put(pod, where, ())
        elif not where.nominated or stage.holds(where.victims):
            return False
        else:
            stage.put(pod, where.nominated, where.victims)
        return True


class _Stage:
    """The snapshot with some pods placed, and some lifted for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._lifted: list[Placement] = []
        self._guests: set[str] = set()

    def put(self, pod: PodInfo, node_name: str, victims: Iterable[PodInfo]) -> None:
        """Place the pod there in place of the victims."""
        lifted = (self._snapshot.lift(victim.uid) for victim in victims)
        self._lifted += (placement for placement in lifted if placement is not None)
        self._snapshot.assume(pod, node_name)
        self._guests.add(pod.uid)

    def holds(self, pods: Iterable[PodInfo]) -> bool:
        """Whether one of the pods was placed here."""
        return any(pod.uid in self._guests for pod in pods)

    def clear(self) -> None:
        """All is as it was."""
        for uid in self._guests:
            self._snapshot.forget(uid)
        for placement in self._lifted:
            self._snapshot.put_back(placement)


def _without(profile: Profile, plugin: PostFilter) -> Profile:
    """The profile for one of a company by itself: less the plugin that says who belongs together."""
    return replace(
        profile,
        pre_filters=tuple(each for each in profile.pre_filters if each.name != plugin.name),
        post_filters=tuple(each for each in profile.post_filters if each.name != plugin.name),
    )
