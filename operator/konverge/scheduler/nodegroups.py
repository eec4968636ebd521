"""Nodes of which the plugins say the same: what each filter says of each node flows in, groups of nodes flow out. Pure."""

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.cycle import Judgement
from konverge.scheduler.snapshot import Snapshot

NAMED: Final = 10
"""So many nodes of a group are named."""

ROOM_KEPT: Final = "room is kept for more important pods that are nominated to the node"
"""What turns a pod away from a node that all filters pass."""


class _Column(NamedTuple):
    """One thing that a plugin says, and of which rows; without a reason: that no pod need leave, it would not help."""

    plugin: str
    reason: str
    rows: BoolArray


def node_groups(snapshot: Snapshot, judged: Judgement, fitting: Collection[str]) -> list[dict[str, Any]]:
    """The groups, those that fit first, then the largest first: `count`, `nodes` (the first names), `fits`, and `answers`.

    An answer is what one plugin has against the nodes: `plugin`, `reasons`, and whether it is `final`: pods that leave
    would change nothing. `fitting` names the nodes that the pod can go to.
    """
    rows = snapshot.rows
    columns = list(_columns(rows, judged))
    fits = np.array([node.name in fitting for node in snapshot.nodes(rows)], dtype=np.bool_)
    turned_away = np.zeros(len(rows), dtype=np.bool_)
    for column in columns:
        turned_away |= column.rows
    columns.append(_Column("", ROOM_KEPT, ~turned_away & ~fits))
    table = np.stack([fits, *(column.rows for column in columns)], axis=1)
    kinds, kind_of = np.unique(table, axis=0, return_inverse=True)
    kind_of = kind_of.reshape(-1)
    groups = [_group(snapshot, rows[kind_of == number], columns, kind) for number, kind in enumerate(kinds)]
    return sorted(groups, key=lambda group: (not group["fits"], -group["count"], group["nodes"]))


def _group(snapshot: Snapshot, rows: IntArray, columns: list[_Column], kind: BoolArray) -> dict[str, Any]:
    said: dict[str, list[str]] = {}
    final: set[str] = set()
    for column, holds in zip(columns, kind[1:].tolist(), strict=True):
        if not holds:
            continue
        if column.reason:
            said.setdefault(column.plugin, []).append(column.reason)
        else:
            final.add(column.plugin)
    return {
        "count": len(rows),
        "nodes": sorted(node.name for node in snapshot.nodes(rows))[:NAMED],
        "fits": bool(kind[0]),
        "answers": [
            {"plugin": plugin, "reasons": reasons, "final": plugin in final} for plugin, reasons in said.items()
        ],
    }


def _columns(rows: IntArray, judged: Judgement) -> Iterator[_Column]:
    """What is said, over all the `rows` of the snapshot."""
    diagnosis = judged.diagnosis
    inside = np.isin(rows, judged.rows)
    for reason in (*diagnosis.whole, *diagnosis.reasons):
        yield _Column(", ".join(sorted(diagnosis.plugins)), reason, ~inside)
    for plugin, verdict in judged.verdicts:
        for reason, mask in verdict.reasons.items():
            yield _Column(plugin.label(), reason, _spread(inside, mask))
        if verdict.unresolvable is not None:
            yield _Column(plugin.label(), "", _spread(inside, verdict.unresolvable))


def _spread(inside: BoolArray, mask: BoolArray) -> BoolArray:
    """A mask over the judged rows as one over all rows; both are in order."""
    result = np.zeros(len(inside), dtype=np.bool_)
    result[inside] = mask
    return result
