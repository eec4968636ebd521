"""Preemption by the operator's scheduler, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, until
from tests.e2e.test_scheduling_policy import Policy

pytestmark = pytest.mark.usefixtures("operator")

STOPPING = "example.com/stopping"
"""A finalizer that stands for the time that containers take to stop."""


@pytest.fixture
def policy(kubectl: Kubectl) -> Iterator[Policy]:
    made = Policy(kubectl)
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": kubectl.namespace}}
    kubectl.apply({**urgent, "value": 1000})
    yield made
    kubectl("delete", "priorityclass", kubectl.namespace)
    made.delete()


def own_node(kubectl: Kubectl) -> dict[str, Any]:
    """What keeps a pod to one node, of which it can take the half and more."""
    name = kubectl.list("nodes")[0]["metadata"]["name"]
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def most_of(kubectl: Kubectl) -> str:
    cpu = kubectl.list("nodes")[0]["status"]["allocatable"]["cpu"]
    millicores = int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
    return f"{millicores * 6 // 10}m"


def test_a_more_important_pod_gets_the_node_of_another_once_that_is_gone(policy: Policy) -> None:
    kubectl = policy.kubectl
    policy.apply({})
    policy.wait_ready()
    where, cpu = own_node(kubectl), most_of(kubectl)
    policy.pod("old", cpu, **where)
    kubectl("wait", "--for=condition=Ready", "pod/old", "--timeout=60s")
    kubectl("patch", "pod", "old", "--type=merge", f'--patch={{"metadata":{{"finalizers":["{STOPPING}"]}}}}')

    policy.pod("new", cpu, priorityClassName=kubectl.namespace, **where)
    until(lambda: kubectl.get("pod/new")["status"].get("nominatedNodeName"), "a nominated node")
    until(lambda: kubectl.get("pod/old")["metadata"].get("deletionTimestamp"), "the victim to be deleted")
    target = kubectl.condition("pod/old", "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert kubectl.get("pod/new")["spec"].get("nodeName") is None
    until(lambda: "Preempted" in kubectl("events", "--for=pod/old"), "the event Preempted")

    kubectl("patch", "pod", "old", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=60s")


def test_a_nomination_that_came_to_nothing_is_taken_away(policy: Policy) -> None:
    kubectl = policy.kubectl
    policy.apply({})
    policy.wait_ready()
    policy.pod("hopeless", "999", priorityClassName=kubectl.namespace)
    until(lambda: kubectl.condition("pod/hopeless", "PodScheduled").get("reason") == "Unschedulable", "a refusal")
    nominated = '--patch={"status":{"nominatedNodeName":"nowhere"}}'
    kubectl("patch", "pod", "hopeless", "--subresource=status", "--type=merge", nominated)
    kubectl("label", "pod", "hopeless", "try=again")
    until(lambda: not kubectl.get("pod/hopeless")["status"].get("nominatedNodeName"), "no nominated node")
    assert "Preemption is not helpful" in kubectl.condition("pod/hopeless", "PodScheduled")["message"]
