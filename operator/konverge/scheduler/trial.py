"""What would be if other pods were on a node: pods are taken off it and put on it, the filters asked, and all is as before.

In flow a pod with what its attempt noted; out flow verdicts on single nodes. Filters with a `signature` read nothing of
the cluster but the node, so a copy of it is enough for them. Others read the snapshot: for these it is changed in place,
their prefilter runs anew before each verdict, and everything is put back at the end. Nothing yields meanwhile.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from konverge.ports import Random
from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import (
    SUCCESS,
    BatchVerdict,
    Code,
    CycleState,
    Filter,
    Point,
    PreFilter,
    Trial,
    Verdict,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.limits import Limits
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.occupants import Occupants
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.snapshot import Placement, Snapshot
from konverge.scheduler.watch import failed, misplaced


class Refusal(NamedTuple):
    """A filter that turns the pod away, and what it says."""

    plugin: Filter
    verdict: Verdict


class PodTrials:
    """All trials of one attempt; see `konverge.scheduler.framework.Trials`."""

    def __init__(
        self,
        profile: Profile,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        nominations: Nominations,
        random: Random,
        occupants: Occupants,
    ) -> None:
        self.pod, self.state, self._snapshot, self._random = pod, state, snapshot, random
        self._occupants = occupants
        self.filters = [plugin for plugin in profile.filters if plugin.name not in state.skipped]
        self.elsewhere = {
            plugin for plugin in self.filters if not plugin.node_only and plugin.signature(state, pod) is None
        }
        self._nominated = nominations.beside(pod)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster; within a trial perhaps as it is in the trial."""
        return self._snapshot

    @property
    def random(self) -> Random:
        """Chance."""
        return self._random

    @property
    def occupants(self) -> Occupants:
        """The pods on nodes by importance."""
        return self._occupants

    @property
    def nominated(self) -> Mapping[str, Sequence[PodInfo]]:
        """By node, the other pods nominated to it to which the pod must leave their room."""
        return self._nominated

    def limits(self, rows: IntArray) -> Sequence[Limits | BatchVerdict] | None:
        """What each filter says of `rows`: as sums over the pods there, or whatever pods leave. None where one cannot."""
        found: list[Limits | BatchVerdict] = []
        for plugin in self.filters:
            try:
                said = self._said(plugin, rows)
            except Exception:  # noqa: BLE001 - a trial on a node says which plugin failed, and on which nodes it does not
                return None
            if said is None:
                return None
            found.append(said)
        return found

    def _said(self, plugin: Filter, rows: IntArray) -> Limits | BatchVerdict | None:
        if plugin.node_only:
            return plugin.filter_batch(self.state, self.pod, self._snapshot, rows)
        return plugin.limits(self.state, self.pod, self._snapshot, rows)

    @contextmanager
    def on(self, node: NodeInfo) -> Iterator["NodeTrial"]:
        """Try things on this node; afterwards they have not happened."""
        trial = _InPlace(self, node) if self.elsewhere else _OnCopy(self, node)
        try:
            yield trial
        finally:
            trial.end()


class NodeTrial(Trial):
    """What both ways have in common. A filter that reads nothing of the pods on the node is asked once."""

    def __init__(self, trials: PodTrials, node: NodeInfo) -> None:
        self._trials = trials
        self.node = node
        self._constant: dict[Filter, Verdict] = {}

    def verdict(self) -> Verdict:
        """What the filters say with the pods nominated to the node, and without them.

        The pod must leave them their room, and must not count on their coming. Raises: PluginFailed.
        """
        refusal = self.crowded() or self.refusal()
        return refusal.verdict if refusal else SUCCESS

    def crowded(self) -> Refusal | None:
        """Who refuses the node once the pods nominated to it are there. Raises: PluginFailed."""
        others = self._trials.nominated.get(self.node.name, ())
        for other in others:
            self.add(other)
        refusal = self.refusal() if others else None
        for other in others:
            self.remove(other)
        return refusal

    def refusal(self) -> Refusal | None:
        """Who refuses the node as it is now. Raises: PluginFailed."""
        for plugin in self._trials.filters:
            try:
                verdict = self._ask(plugin)
            except Exception as error:
                raise failed(plugin, Point.FILTER, f"{type(error).__name__}: {error}") from error
            if verdict is SUCCESS or verdict.code is Code.SUCCESS:
                continue
            if verdict.rejected:
                return Refusal(plugin, verdict)
            raise misplaced(plugin, Point.FILTER, verdict)
        return None

    def end(self) -> None:
        """Put back what was changed."""

    def _ask(self, plugin: Filter) -> Verdict:
        trials = self._trials
        if not plugin.node_only:
            return plugin.filter(trials.state, trials.pod, self.node)
        verdict = self._constant.get(plugin)
        if verdict is None:
            verdict = self._constant[plugin] = plugin.filter(trials.state, trials.pod, self.node)
        return verdict


class _OnCopy(NodeTrial):
    def __init__(self, trials: PodTrials, node: NodeInfo) -> None:
        lean = copy.copy(node)
        lean.pods, lean.requested = dict(node.pods), dict(node.requested)
        super().__init__(trials, lean)

    def add(self, pod: PodInfo) -> None:
        self.node.add(pod)

    def remove(self, pod: PodInfo) -> None:
        self.node.remove(pod.uid)


class _InPlace(NodeTrial):
    def __init__(self, trials: PodTrials, node: NodeInfo) -> None:
        super().__init__(trials, node)
        self._snapshot = trials.snapshot
        row = self._snapshot.row_of(node.name)
        self._rows = np.array([row], dtype=np.int64)
        self._lifted: dict[str, Placement] = {}
        self._guests: set[str] = set()

    def add(self, pod: PodInfo) -> None:
        placement = self._lifted.pop(pod.uid, None)
        if placement is not None:
            self._snapshot.put_back(placement)
        else:
            self._guests.add(pod.uid)
            self._snapshot.assume(pod, self.node.name)

    def remove(self, pod: PodInfo) -> None:
        placement = self._snapshot.lift(pod.uid)
        if pod.uid in self._guests:
            self._guests.remove(pod.uid)
        elif placement is not None:
            self._lifted[pod.uid] = placement

    def end(self) -> None:
        for uid in self._guests:
            self._snapshot.forget(uid)
        for placement in self._lifted.values():
            self._snapshot.put_back(placement)

    def _ask(self, plugin: Filter) -> Verdict:
        """A filter that reads more than the node looks at the cluster first, as it is in the trial."""
        trials = self._trials
        if plugin not in trials.elsewhere:
            return super()._ask(plugin)
        state = trials.state.copy()
        if isinstance(plugin, PreFilter):
            first = plugin.pre_filter(state, trials.pod, self._snapshot).verdict
            if first.code is not Code.SUCCESS:
                return SUCCESS if first.code is Code.SKIP else first
        answer = plugin.filter_batch(state, trials.pod, self._snapshot, self._rows)
        reasons = tuple(reason for reason, mask in answer.reasons.items() if mask[0])
        if not reasons:
            return SUCCESS
        final = answer.unresolvable is not None and bool(answer.unresolvable[0])
        return unresolvable(*reasons) if final else unschedulable(*reasons)
