"""The nodes that volumes can be reached from: node affinities and topologies flow in, predicates over nodes flow out."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from konverge.model.resource import Object
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.node_selector import Term, parse_terms
from konverge.scheduler.plugins.volume_objects import spec_of
from konverge.scheduler.snapshot import Snapshot

Place = tuple[Term, ...] | None
"""Any of the terms; None is everywhere."""


def place_of_volume(volume: Object) -> Place:
    """Where the volume is, by its node affinity. Requirements on a node's name are not looked at, as in kube-scheduler."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    if required is None:
        return None
    return tuple(replace(term, names=()) for term in parse_terms(required.get("nodeSelectorTerms") or ()))


def place_of_class(storage_class: Object) -> Place:
    """Where volumes of the class can be made, by its `allowedTopologies`."""
    topologies: list[Mapping[str, Any]] = storage_class.get("allowedTopologies") or []
    if not topologies:
        return None
    return parse_terms({"matchExpressions": _expressions(topology)} for topology in topologies)


def place_of_selector(selector: Mapping[str, Any] | None) -> Place:
    """The nodes that a label selector picks: None picks none, an empty one all."""
    if selector is None:
        return ()
    pairs = [{"key": key, "operator": "In", "values": [value]} for key, value in _labels(selector).items()]
    expressions = [*pairs, *(selector.get("matchExpressions") or ())]
    return parse_terms([{"matchExpressions": expressions}]) if expressions else None


def is_in(place: Place, node: NodeInfo) -> bool:
    """Whether the node is there."""
    return place is None or any(term.matches(node) for term in place)


def named_values(place: Place) -> tuple[tuple[str, str], ...] | None:
    """The values of one label that make up the place, each with the label; None for a place of another form."""
    if place is None or len(place) != 1 or place[0].names or len(place[0].labels) != 1:
        return None
    (label,) = place[0].labels
    return tuple((label.key, value) for value in label.values) if label.operator == "In" else None


def are_in_any(places: Iterable[Place], snapshot: Snapshot, rows: IntArray) -> BoolArray:
    """Which rows are in one of the places. Many that name the values of one label cost as one."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    other: list[Term] = []
    for place in places:
        if place is None:
            return np.ones(len(rows), dtype=np.bool_)
        for term in place:
            if len(term.labels) == 1 and term.labels[0].operator == "In" and not term.names:
                named[term.labels[0].key] |= term.labels[0].values
            else:
                other.append(term)
    result = np.zeros(len(rows), dtype=np.bool_)
    for key, values in named.items():
        result |= snapshot.label(key).judge_bool(rows, values.__contains__)
    for term in other:
        result |= term.matches_rows(snapshot, rows)
    return result


def _expressions(topology: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries: list[Mapping[str, Any]] = topology.get("matchLabelExpressions") or []
    return [{"key": entry["key"], "operator": "In", "values": entry.get("values")} for entry in entries]


def _labels(selector: Mapping[str, Any]) -> Mapping[str, str]:
    return selector.get("matchLabels") or {}
