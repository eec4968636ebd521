"""The volumes that claims could take, put in order: by what a claim asks of one, by where they are, and by size.

In flow the volumes as plugins read them, each again when it changed; out flow, for a claim, the volume that is promised to
it, or those that it may choose from: on one node, or on which of many nodes there is one.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.handle import Lister
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_matching import Candidate
from konverge.scheduler.plugins.volume_objects import (
    asked_of,
    attributes_class_of,
    can_hold,
    capacity_of,
    class_of,
    is_available,
    is_meant_for,
    mode_of,
    modes_of,
    promised_to,
)
from konverge.scheduler.plugins.volume_places import Place, are_in_any, is_in, named_values, place_of_volume
from konverge.scheduler.snapshot import Snapshot

Bytes = int | Fraction
"""Fractions are exact and slow to compare; hardly a size is one."""


class _Kind(NamedTuple):
    """What a claim asks of a volume besides its size."""

    storage_class: str
    mode: str
    attributes_class: str
    access: frozenset[str]


class _Entry(NamedTuple):
    """A volume on a rack; the order is the one in which claims take them."""

    size: Bytes
    name: str
    candidate: Candidate


class _Rack:
    """Volumes of one kind, by place; in each the smallest first."""

    def __init__(self) -> None:
        self._pools: dict[Place, list[_Entry]] = {}
        self._named: defaultdict[str, defaultdict[str, set[Place]]] = defaultdict(lambda: defaultdict(set))
        self._largest: defaultdict[str, dict[str, Bytes]] = defaultdict(dict)
        self._other: dict[Place, None] = {}

    def __iter__(self) -> Iterator[_Entry]:
        for pool in self._pools.values():
            yield from pool

    def add(self, entry: _Entry) -> None:
        """Put a volume in."""
        place = entry.candidate.place
        pool = self._pools.setdefault(place, [])
        insort(pool, entry, key=_order)
        if len(pool) == 1:
            self._open(place)
        self._measure(place)

    def remove(self, entry: _Entry) -> None:
        """Take it out."""
        place = entry.candidate.place
        pool = self._pools[place]
        del pool[bisect_left(pool, _order(entry), key=_order)]
        if not pool:
            del self._pools[place]
            self._close(place)
        self._measure(place)

    def on(self, node: NodeInfo, asked: Bytes, taken: Container[str]) -> Iterator[_Entry]:
        """Of each place that the node is in, the smallest volume of that size that is not taken."""
        for place in self._places_of(node):
            pool = self._pools[place]
            for index in range(bisect_left(pool, asked, key=_size), len(pool)):
                if pool[index].name not in taken:
                    yield pool[index]
                    break

    def rows(self, asked: Bytes, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """From which nodes a volume of that size is reached."""
        result = are_in_any((place for place in self._other if self._pools[place][-1].size >= asked), snapshot, rows)
        for key, largest in self._largest.items():
            values = {value for value, size in largest.items() if size >= asked}
            result |= snapshot.label(key).judge_bool(rows, values.__contains__)
        return result

    def _places_of(self, node: NodeInfo) -> Iterator[Place]:
        seen: set[Place] = set()
        for key, by_value in self._named.items():
            places = by_value.get(node.labels.get(key, ""), set()) if key in node.labels else set()
            yield from places - seen
            seen |= places
        yield from (place for place in self._other if is_in(place, node))

    def _open(self, place: Place) -> None:
        named = named_values(place)
        if named is None:
            self._other[place] = None
        for key, value in named or ():
            self._named[key][value].add(place)

    def _close(self, place: Place) -> None:
        self._other.pop(place, None)
        for key, value in named_values(place) or ():
            self._named[key][value].discard(place)
            if not self._named[key][value]:
                del self._named[key][value]

    def _measure(self, place: Place) -> None:
        for key, value in named_values(place) or ():
            if places := self._named[key].get(value):
                self._largest[key][value] = max(self._pools[each][-1].size for each in places)
            else:
                self._largest[key].pop(value, None)


class Shelf:
    """See the module."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._mark = -1
        self._racks: dict[_Kind, _Rack] = {}
        self._free: dict[str, tuple[_Kind, _Entry]] = {}
        self._promised: dict[str, tuple[meta.Key, Candidate]] = {}
        self._promises: defaultdict[meta.Key, dict[str, Candidate]] = defaultdict(dict)

    def meant_for(self, claim: Object) -> Candidate | None:
        """The volume that is promised to the claim and can hold what it asks for."""
        self._read()
        candidates = self._promises.get(meta.key_of(claim)) or {}
        fitting = (candidates[name] for name in sorted(candidates))
        return next((c for c in fitting if is_meant_for(c.volume, claim) and can_hold(c.volume, claim)), None)

    def free_for(self, claim: Object) -> "Choice":
        """The volumes that nobody has and that can hold what the claim asks for. Not for a claim with a selector."""
        self._read()
        access = modes_of(claim)
        wanted = class_of(claim), mode_of(claim), attributes_class_of(claim)
        racks = (rack for kind, rack in self._racks.items() if kind[:3] == wanted and access <= kind.access)
        return Choice(tuple(racks), _bytes(asked_of(claim)))

    def _read(self) -> None:
        changed = self._lister.changed(PersistentVolume, self._mark)
        if changed is None:
            there = {meta.key_of(volume).name for volume in self._lister.list(PersistentVolume)}
            names = {*self._free, *self._promised, *there}
        else:
            names = {key.name for key in changed}
        for name in names:
            self._drop(name)
            volume = self._lister.get(PersistentVolume, name)
            if volume is not None:
                self._put(volume)
        self._mark = self._lister.version(PersistentVolume)

    def _drop(self, name: str) -> None:
        if name in self._free:
            kind, entry = self._free.pop(name)
            self._racks[kind].remove(entry)
        elif name in self._promised:
            claim, _ = self._promised.pop(name)
            del self._promises[claim][name]
            if not self._promises[claim]:
                del self._promises[claim]

    def _put(self, volume: Object) -> None:
        claim, name = promised_to(volume), meta.key_of(volume).name
        if claim is not None:
            candidate = Candidate(volume, place_of_volume(volume))
            self._promised[name] = claim, candidate
            self._promises[claim][name] = candidate
        elif is_available(volume):
            kind = _Kind(class_of(volume), mode_of(volume), attributes_class_of(volume), modes_of(volume))
            entry = _Entry(_bytes(capacity_of(volume)), name, Candidate(volume, place_of_volume(volume)))
            self._free[name] = kind, entry
            self._racks.setdefault(kind, _Rack()).add(entry)


@dataclass(frozen=True, slots=True)
class Choice:
    """The volumes on some racks that are large enough; see `volume_matching.Free`."""

    racks: tuple[_Rack, ...]
    asked: Bytes

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(entry.name for rack in self.racks for entry in rack if entry.size >= self.asked)

    def first(self, node: NodeInfo, taken: Container[str]) -> Candidate | None:
        """The smallest that the node reaches and that is not taken."""
        found = (entry for rack in self.racks for entry in rack.on(node, self.asked, taken))
        smallest = min(found, key=_order, default=None)
        return smallest and smallest.candidate

    def rows(self, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """From which nodes one is reached."""
        result = np.zeros(len(rows), dtype=np.bool_)
        for rack in self.racks:
            result |= rack.rows(self.asked, snapshot, rows)
        return result


def _order(entry: _Entry) -> tuple[Bytes, str]:
    return entry.size, entry.name


def _size(entry: _Entry) -> Bytes:
    return entry.size


def _bytes(size: Fraction) -> Bytes:
    return size.numerator if size.denominator == 1 else size
