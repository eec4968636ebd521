"""Where a pod's claims can have their volumes: what decides about the claims flows in; for each node, reasons against it or
a plan flow out.

A bound claim needs a node that reaches its volume. One that waits for its first pod takes the smallest free volume that
the node reaches, or has one made, where its class can. The rules are those of kube-scheduler's volumeBinder and
FindMatchingVolume. `Matcher.judge` is the rule for one node, `judge_rows` the same for many.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from konverge.model.resource import Object
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_capacity import Room
from konverge.scheduler.plugins.volume_places import (
    Place,
    are_in_any,
    is_in,
)
from konverge.scheduler.snapshot import Snapshot

NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of the waiting claims on one node, or why none of it can be."""

    reasons: tuple[str, ...] = ()
    bindings: tuple[tuple[Object, Object], ...] = ()
    """Claims, each with the volume that it takes."""
    provisions: tuple[Object, ...] = ()
    """Claims whose volumes are to be made."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A volume that a claim could take, and where it is."""

    volume: Object
    place: Place

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self.volume["metadata"]["name"])


class Free(Protocol):
    """The volumes that a claim may choose from."""

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        ...

    def first(self, node: NodeInfo, taken: Container[str]) -> Candidate | None:
        """The smallest that the node reaches and that is not taken; of equal ones the first by name."""
        ...

    def rows(self, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """From which nodes one is reached."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """These, in the order in which they are taken."""

    volumes: tuple[Candidate, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(each.name for each in self.volumes)

    def first(self, node: NodeInfo, taken: Container[str]) -> Candidate | None:
        """The first that the node reaches and that is not taken."""
        return next((each for each in self.volumes if each.name not in taken and is_in(each.place, node)), None)

    def rows(self, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """From which nodes one is reached."""
        return are_in_any((each.place for each in self.volumes), snapshot, rows)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A claim that waits for its first pod."""

    claim: Object
    selected: str | None
    """The node for which its volume is being made already."""
    meant: Candidate | None = None
    """The volume that is promised to it: this or none."""
    free: Free = Listed()
    """Without that one of these."""
    can_provision: bool = False
    made_in: Place = None
    room: Room | None = None
    """None: its room need not be looked at."""

    @property
    def names(self) -> frozenset[str]:
        """The volumes that it may take."""
        return frozenset({self.meant.name}) if self.meant else self.free.names


@dataclass(frozen=True)
class Matcher:
    """The claims of one pod, ready to be held against nodes."""

    bound: tuple[Place | str, ...]
    """Where the volumes of the bound claims are, in order; the name of one that is not there."""
    waiting: tuple[Waiting, ...] = ()
    """Those whose volumes are being made already, then the others by the size that they ask for."""
    _apart: bool = field(init=False)
    """Whether no two claims may take the same volume."""

    def __post_init__(self) -> None:
        # To name all volumes that a claim may take is dear, and one claim has nobody to compete with.
        names = [each.names for each in self.waiting] if len(self.waiting) > 1 else []
        object.__setattr__(self, "_apart", len(frozenset().union(*names)) == sum(map(len, names)))

    def judge(self, node: NodeInfo) -> Plan:
        """The plan for one node."""
        against = self._bound_reason(node)
        reasons = (against,) if against else ()
        if any(each.selected not in {None, node.name} for each in self.waiting):
            return Plan((*reasons, BIND_CONFLICT))
        taken: dict[str, Object] = {}
        bindings: list[tuple[Object, Object]] = []
        to_make = [each for each in self.waiting if each.selected is not None]
        for each in self.waiting:
            if each.selected is not None:
                continue
            found = _found(each, node, taken)
            if found is None:
                to_make.append(each)
            else:
                taken[found.name] = found.volume
                bindings.append((each.claim, found.volume))
        against = next(filter(None, (_provision_reason(each, node) for each in to_make)), "")
        reasons = tuple(sorted(filter(None, (*reasons, against)), key=_ORDER.index))
        return Plan(reasons) if reasons else Plan((), tuple(bindings), tuple(each.claim for each in to_make))

    def judge_rows(self, snapshot: Snapshot, rows: IntArray) -> Mapping[str, BoolArray] | None:
        """The reasons against many nodes; None where claims compete for volumes, so that each node is a case of its own."""
        if not self._apart:
            return None
        reasons = {reason: np.zeros(len(rows), dtype=np.bool_) for reason in _ORDER}
        good = np.ones(len(rows), dtype=np.bool_)
        for place in self.bound:
            if isinstance(place, str):
                reasons[NO_VOLUME] |= good
                break
            reached = are_in_any([place], snapshot, rows)
            reasons[NODE_CONFLICT] |= good & ~reached
            good &= reached
        selected = {each.selected for each in self.waiting} - {None}
        elsewhere = np.zeros(len(rows), dtype=np.bool_)
        for name in selected:
            row = snapshot.row_of(str(name))
            elsewhere |= np.ones(len(rows), dtype=np.bool_) if row is None else rows != row
        reasons[BIND_CONFLICT] |= elsewhere
        good = ~elsewhere
        for each in self.waiting:
            need = good & ~_match_rows(each, snapshot, rows)
            if not each.can_provision:
                reasons[BIND_CONFLICT] |= need
                good &= ~need
                continue
            outside = need & ~are_in_any([each.made_in], snapshot, rows)
            reasons[BIND_CONFLICT] |= outside
            good &= ~outside
            if each.room is not None:
                full = need & ~outside & ~are_in_any(each.room, snapshot, rows)
                reasons[NO_SPACE] |= full
                good &= ~full
        return reasons

    def _bound_reason(self, node: NodeInfo) -> str:
        for place in self.bound:
            if isinstance(place, str):
                return NO_VOLUME
            if not is_in(place, node):
                return NODE_CONFLICT
        return ""


_ORDER: Final = (NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, NO_VOLUME)
"""In which several reasons of one node are told."""


def _found(waiting: Waiting, node: NodeInfo, taken: Mapping[str, Object]) -> Candidate | None:
    """The volume that the claim takes on the node."""
    if waiting.meant is not None and waiting.meant.name not in taken:
        return waiting.meant if is_in(waiting.meant.place, node) else None
    return waiting.free.first(node, taken)


def _match_rows(waiting: Waiting, snapshot: Snapshot, rows: IntArray) -> BoolArray:
    """On which nodes the claim finds a volume."""
    if waiting.meant is not None:
        return are_in_any([waiting.meant.place], snapshot, rows)
    return waiting.free.rows(snapshot, rows)


def _provision_reason(waiting: Waiting, node: NodeInfo) -> str:
    """Why the claim's volume cannot be made for the node; empty where it can."""
    if not waiting.can_provision or not is_in(waiting.made_in, node):
        return BIND_CONFLICT
    if waiting.room is not None and not any(is_in(place, node) for place in waiting.room):
        return NO_SPACE
    return ""
