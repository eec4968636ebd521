"""`konverge explain`: what it prints of what it was told."""

import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from konverge.cli.explain import rendered
from konverge.cli.story import Told
from konverge.model.resource import ResourceType

GADGET = ResourceType("test.konverge.dev", "v1", "Gadget", "gadgets")


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def summary(**parts: Any) -> dict[str, Any]:
    return {
        "uid": "u",
        "resourceVersion": "12",
        "generation": 3,
        "observedGeneration": 2,
        "created": ago(7200),
        "deleting": None,
        "finalizers": [],
        "owner": None,
        "phase": None,
        "phaseSince": None,
        "conditions": [],
        "health": "InProgress",
        "why": "RollingOut: 1 of 2",
        **parts,
    }


def known(**parts: Any) -> dict[str, Any]:
    return {
        "kind": "Gadget",
        "resource": "gadgets.test.konverge.dev",
        "namespace": "team",
        "name": "one",
        "object": summary(),
        "queue": {"controller": "gadget", "state": "idle", "failures": 0},
        "last": None,
        "children": [],
        "events": [],
        **parts,
    }


def printed(told: Told | None, operator: Mapping[str, Any] | None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False)
    for part in rendered(told, operator, "one"):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_the_object_is_told_from_what_the_server_has() -> None:
    condition = {"type": "Ready", "status": "Unknown", "reason": "RollingOut", "message": "[1] of 2"}
    obj = summary(
        phase="Starting",
        phaseSince=ago(30),
        conditions=[{**condition, "lastTransitionTime": ago(90)}],
        finalizers=["a/b"],
        owner="Shop/main",
    )
    children = [
        {"kind": "StatefulSet", "name": "one", "health": "InProgress", "why": "0 of 1", "depth": 0},
        {"kind": "Pod", "name": "one-0", "health": "Failed", "why": "CrashLoopBackOff", "depth": 1},
    ]
    events = [{"ago": 12.0, "type": "Warning", "reason": "NoRoute", "message": "no route", "times": 4}]
    out = printed(Told(GADGET, "team", obj, children, events, ("secrets",)), None)
    assert out.startswith("Gadget team/one (gadgets.test.konverge.dev)\n")
    assert "Health:      InProgress: RollingOut: 1 of 2\n" in out
    assert re.search(r"Phase:       Starting, since 30\.\ds ago\n", out)
    assert "Generation:  3 (observed: 2)\n" in out
    assert "Created:     2h0m ago\n" in out
    assert "Finalizers:  a/b\n" in out
    assert "Owner:       Shop/main\n" in out
    assert re.search(r"\n  Ready +Unknown +RollingOut +1m30s ago +\[1\] of 2", out)
    assert re.search(r"\n  StatefulSet +one +InProgress +0 of 1", out)
    assert re.search(r"\n    Pod +one-0 +Failed +CrashLoopBackOff", out)
    assert "not allowed to list: secrets" in out
    assert re.search(r"\n  12\.0s ago +Warning +NoRoute +4 +no route", out)
    assert "Operator" not in out


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"state": "idle", "failures": 0}, "not queued: nothing to do until something changes (controller gadget)"),
        ({"state": "ready", "priority": 0, "failures": 0}, "ready, waits for a free worker"),
        ({"state": "processing", "seconds": 75.0, "failures": 0}, "is being reconciled for 1m15s"),
        (
            {"state": "delayed", "dueIn": 8.0, "failures": 5},
            "will be reconciled in 8.0s, after 5 failures in a row (controller gadget)",
        ),
    ],
)
def test_the_queue_is_told_as_what_happens_next(queue: dict[str, Any], said: str) -> None:
    assert f"Queue:       {said}" in printed(None, known(queue={"controller": "gadget", **queue}))


def test_the_last_reconcile_is_told_with_its_verdict_and_its_id() -> None:
    last = {
        "at": ago(20),
        "seconds": 0.012,
        "result": "error",
        "reason": "ReconcileError",
        "message": "no route",
        "reconcileID": "f00d",
    }
    out = printed(None, known(last=last))
    assert re.search(r"Last: +error 20\.\ds ago after 12ms; ReconcileError: no route \(reconcileID f00d\)", out)
    assert "no reconcile that it remembers" in printed(None, known())


def test_a_cache_that_is_behind_is_told() -> None:
    told = Told(GADGET, "team", summary(resourceVersion="15"))
    assert "Cache:       has version 12, the server had 15" in printed(told, known())
    assert "Cache:       up to date (version 12)" in printed(None, known())
    assert "Cache:       the object is not in it" in printed(told, known(object=None))


def test_without_the_server_the_operators_view_is_told() -> None:
    children = [{"kind": "ConfigMap", "namespace": "team", "name": "one", "health": "Current", "why": ""}]
    events = [
        {"ago": 1.0, "type": "Normal", "reason": "Late", "message": "later", "times": 1},
        {"ago": 9.0, "type": "Normal", "reason": "Early", "message": "earlier", "times": 1},
    ]
    out = printed(None, known(children=children, events=events))
    assert "Health:      InProgress: RollingOut: 1 of 2" in out
    assert re.search(r"\n  ConfigMap +one +Current", out)
    assert out.index("Early") < out.index("Late")


def test_an_object_that_is_going_says_since_when() -> None:
    assert "Deleting:    asked for 1m0s ago" in printed(Told(GADGET, "team", summary(deleting=ago(60.5))), None)


REFUSAL = "secrets is forbidden. Add to the rules of the ClusterRole:\n- apiGroups: ['']\n  verbs: [create]"


def test_a_message_of_several_lines_is_told_in_full_once_and_below_its_beginning() -> None:
    conditions = [
        {"type": kind, "status": status, "reason": "Forbidden", "message": REFUSAL, "lastTransitionTime": ago(90)}
        for kind, status in (("Ready", "False"), ("Reconciling", "True"))
    ]
    events = [{"ago": 1.0, "type": "Warning", "reason": "Forbidden", "message": REFUSAL, "times": 3}]
    last = {
        "at": ago(20),
        "seconds": 0.012,
        "result": "error",
        "reason": "Forbidden",
        "message": REFUSAL,
        "reconcileID": "f00d",
    }
    obj = summary(why=f"Forbidden: {REFUSAL}", conditions=conditions)
    out = printed(Told(GADGET, "team", obj, [], events), known(last=last))
    first, *others = [line for line in out.splitlines() if "secrets is forbidden" in line]
    beginning = "secrets is forbidden. Add to the rules of the ClusterRole:"
    assert first == f"  Health:      InProgress: Forbidden: {beginning}"
    assert len(others) == 4
    assert [line for line in out.splitlines() if "apiGroups" in line or "verbs" in line] == [
        "               - apiGroups: ['']",
        "                 verbs: [create]",
    ]


def test_a_child_in_another_namespace_is_told_with_it() -> None:
    children = [
        {"kind": "Secret", "namespace": namespace, "name": "one", "health": "Current", "why": ""}
        for namespace in ("bank", "shop")
    ]
    out = printed(Told(GADGET, "", summary(), children), None)
    assert re.findall(r"Secret +(\S+)", out) == ["bank/one", "shop/one"]
    assert re.findall(r"Secret +(\S+)", printed(Told(GADGET, "shop", summary(), children[1:]), None)) == ["one"]
