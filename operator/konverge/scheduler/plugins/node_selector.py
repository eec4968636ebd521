"""Node selector terms: the requirements of a pod on its node's labels and name, for one node and for many.

A term's requirements are ANDed. An empty term matches nothing; neither does one that cannot be parsed, while another
valid term beside it still can.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.snapshot import Snapshot

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one label (or field): `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: frozenset[str]

    def accepts(self, value: str | None) -> bool:
        """Whether a node whose label has that value (None: lacks it) meets the requirement."""
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number, (bound,) = _integer(value), map(_integer, self.values)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True)
class Term:
    """All of `labels` and all of `names`, which are on the node's name."""

    labels: tuple[Requirement, ...]
    names: tuple[Requirement, ...]

    def matches(self, node: NodeInfo) -> bool:
        """Whether `node` meets every requirement."""
        return all(own.accepts(node.labels.get(own.key)) for own in self.labels) and all(
            own.accepts(node.name) for own in self.names
        )

    def matches_rows(self, snapshot: Snapshot, rows: IntArray) -> BoolArray:
        """The same for many nodes."""
        result = np.ones(len(rows), dtype=np.bool_)
        for own in self.labels:
            result &= snapshot.label(own.key).judge_bool(rows, own.accepts)
        for own in self.names:
            (name,) = own.values
            row = snapshot.row_of(name)
            same = np.zeros(len(rows), dtype=np.bool_) if row is None else rows == row
            result &= same if own.operator == "In" else ~same
        return result

    @property
    def node_names(self) -> frozenset[str] | None:
        """The nodes that the term names, None if it names none."""
        named = [own.values for own in self.names if own.operator == "In"]
        return frozenset.intersection(*named) if named else None


def parse_terms(terms: Iterable[Mapping[str, Any]]) -> tuple[Term, ...]:
    """The terms that can match anything, in order."""
    return tuple(term for term in map(_parse_term, terms) if term is not None)


def _parse_term(raw: Mapping[str, Any]) -> Term | None:
    labels = [_parse_label(entry) for entry in raw.get("matchExpressions") or ()]
    names = [_parse_name(entry) for entry in raw.get("matchFields") or ()]
    if not (labels or names) or None in labels or None in names:
        return None
    return Term(tuple(filter(None, labels)), tuple(filter(None, names)))


def _parse_label(raw: Mapping[str, Any]) -> Requirement | None:
    operator, values = raw.get("operator"), raw.get("values") or []
    counts = {"In": values, "NotIn": values, "Exists": not values, "DoesNotExist": not values}
    fits = counts.get(str(operator))
    if operator in {"Gt", "Lt"}:
        fits = len(values) == 1 and _integer(values[0]) is not None
    if not fits or not all(map(_VALUE.fullmatch, values)):
        return None
    return Requirement(raw["key"], str(operator), frozenset(values))


def _parse_name(raw: Mapping[str, Any]) -> Requirement | None:
    operator, values = raw.get("operator"), raw.get("values") or []
    if raw.get("key") != _NAME_FIELD or operator not in {"In", "NotIn"} or len(values) != 1:
        return None
    return Requirement(_NAME_FIELD, operator, frozenset(values))


def _integer(text: str | None) -> int | None:
    """The int64 that `text` is, if it is one."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
