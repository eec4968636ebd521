"""Which new pods the admission hook gives to which policy, and which it leaves to kube-scheduler."""

from typing import Any

import pytest

from konverge.controllers.scheduling_policy.assign import ASSIGN, assign
from tests.unit.controllers.policies import manifest

ACCEPTED = [{"type": "Accepted", "status": "True"}]
WEB = {"matchLabels": {"app": "web"}}


def accepted(name: str, **spec: Any) -> dict[str, Any]:
    """A policy that the operator has accepted, with its name as schedulerName."""
    return manifest(name, scheduler_name=name, **spec) | {"status": {"conditions": ACCEPTED}}


def pod(labels: dict[str, str] | None = None, owner: str = "ReplicaSet", **spec: Any) -> dict[str, Any]:
    """A new pod as the hook sees it: with the server's defaults and without a name or uid."""
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}]
    metadata = {"generateName": "web-", "labels": labels or {"app": "web"}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": [], **spec}}


def given(raw: dict[str, Any], *policies: dict[str, Any], **namespace: str) -> str | None:
    """The schedulerName that the pod gets; None: it stays as it is."""
    operations = assign(raw, namespace, policies)
    if not operations:
        return None
    (operation,) = operations
    assert (operation["op"], operation["path"]) == ("add", "/spec/schedulerName")
    return str(operation["value"])


def test_a_pod_that_a_policys_selectors_match_is_its_own() -> None:
    assert given(pod(), accepted("a", podSelector=WEB)) == "a"
    assert given(pod({"app": "db"}), accepted("a", podSelector=WEB)) is None
    assert given(pod(), accepted("a", namespaceSelector={"matchLabels": {"team": "x"}}), team="x") == "a"
    assert given(pod(), accepted("a", namespaceSelector={"matchLabels": {"team": "x"}}), team="y") is None


def test_of_several_the_one_that_the_scheduler_would_ask_first_has_it() -> None:
    policies = [
        accepted("b", podSelector=WEB),
        accepted("a", podSelector=WEB),
        accepted("c", podSelector={"matchLabels": {"app": "web", "tier": "front"}}),
    ]
    assert given(pod(), *policies) == "a"
    assert given(pod({"app": "web", "tier": "front"}), *policies) == "c"
    assert given(pod(), *policies, accepted("z", podSelector=WEB, priority=1)) == "z"


@pytest.mark.parametrize(
    "raw",
    [
        pod(schedulerName="another"),
        pod(nodeName="n1"),
        pod(owner="DaemonSet"),
        pod({"app": "web", ASSIGN: "disabled"}),
    ],
    ids=["chose-a-scheduler", "has-a-node", "of-a-daemonset", "opted-out"],
)
def test_a_pod_that_is_spoken_for_stays(raw: dict[str, Any]) -> None:
    assert given(raw, accepted("a", podSelector=WEB)) is None


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"podSelector": {}},
        {"podSelector": WEB, "suspend": True, "stopPolicy": "Hold"},
        {"podSelector": WEB, "canaryPercent": 99},
        {"podSelector": WEB, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=["no-selector", "empty-selector", "suspended", "canary", "being-deleted"],
)
def test_a_policy_that_might_leave_the_pod_waiting_or_take_all_gets_none(spec: dict[str, Any]) -> None:
    assert given(pod(), accepted("a", **spec)) is None


def test_a_policy_that_is_not_accepted_gets_none() -> None:
    assert given(pod(), manifest("a", podSelector=WEB)) is None
    refused = manifest("a", podSelector=WEB) | {"status": {"conditions": [{"type": "Accepted", "status": "False"}]}}
    assert given(pod(), refused) is None
