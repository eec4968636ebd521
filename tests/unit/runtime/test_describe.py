"""What an object says of itself, for `explain`."""

from typing import Any

import pytest

from konverge.runtime.describe import health_of, summarize, summarize_child


def thing(kind: str = "Gadget", group: str = "test.konverge.dev/v1", **parts: Any) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "team", "uid": "u", "generation": 2, **parts.pop("metadata", {})}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **parts}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def custom(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    return thing(status={"observedGeneration": 2, "conditions": list(conditions), **status})


WAITING = {"name": "db", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}


@pytest.mark.parametrize(
    ("obj", "status", "why"),
    [
        (custom(condition("Ready", "True")), "Current", ""),
        (custom(condition("Ready", "Unknown", "RollingOut", "1 of 2")), "InProgress", "RollingOut: 1 of 2"),
        (custom(condition("Ready", "False"), condition("Stalled", "True", "NoSpace", "x")), "Failed", "NoSpace: x"),
        (thing(status={"observedGeneration": 1}), "InProgress", "generation 2"),
        (thing(), "InProgress", "no status"),
        (thing("ConfigMap", "v1", data={}), "Current", ""),
        (
            thing("Pod", "v1", status={"phase": "Running", "containerStatuses": [WAITING]}),
            "Failed",
            "container db: CrashLoopBackOff: back-off 10s",
        ),
        (thing("Pod", "v1", status={"phase": "Failed", "reason": "Evicted"}), "Failed", "Evicted"),
        (thing("PersistentVolumeClaim", "v1", status={"phase": "Lost"}), "Failed", "phase Lost"),
        (thing("PersistentVolumeClaim", "v1", status={"phase": "Pending"}), "InProgress", "Pending"),
        (
            thing("Job", "batch/v1", status={"conditions": [condition("Failed", "True", "DeadlineExceeded")]}),
            "Failed",
            "DeadlineExceeded",
        ),
        (
            thing(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "c/d"]}),
            "Terminating",
            "waits for the finalizers a/b, c/d",
        ),
    ],
)
def test_health_is_kstatus_in_its_words_and_says_why(obj: dict[str, Any], status: str, why: str) -> None:
    health = health_of(obj)
    assert health.status == status
    assert why in health.why
    assert bool(health.why) == (status != "Current")


def test_a_summary_tells_of_status_and_metadata_and_of_nothing_secret() -> None:
    secret = thing(
        "Secret",
        "v1",
        data={"password": "aHVudGVyMg=="},
        metadata={"ownerReferences": [{"kind": "Gadget", "name": "owner", "controller": True}]},
    )
    summary = summarize(secret)
    assert summary["owner"] == "Gadget/owner"
    assert summary["health"] == "Current"
    assert "aHVudGVyMg==" not in repr(summary)
    assert summarize_child(secret) == {
        "kind": "Secret",
        "namespace": "team",
        "name": "one",
        "health": "Current",
        "why": "",
    }


def test_a_summary_has_the_phase_and_both_generations() -> None:
    summary = summarize(custom(condition("Ready", "True"), phase="Running", phaseSince="2026-01-01T00:00:00Z"))
    assert (summary["generation"], summary["observedGeneration"]) == (2, 2)
    assert (summary["phase"], summary["phaseSince"]) == ("Running", "2026-01-01T00:00:00Z")
    assert [each["type"] for each in summary["conditions"]] == ["Ready"]
