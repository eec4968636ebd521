"""A SchedulingPolicy as a person with kubectl meets it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, until

pytestmark = pytest.mark.usefixtures("operator")

ZONE = "topology.kubernetes.io/zone"


def prefer(zone: str) -> dict[str, Any]:
    """A profile under which that zone outweighs whatever else speaks for a node."""
    return {
        "plugins": {"score": {"enabled": [{"name": "NodeLabelPriority", "weight": 100}]}},
        "pluginConfig": [{"name": "NodeLabelPriority", "args": {"label": ZONE, "values": {zone: 100}}}],
    }


class Policy:
    """A policy, and pods for it, with the test's namespace as its name and schedulerName."""

    def __init__(self, kubectl: Kubectl, suffix: str = "") -> None:
        self.kubectl, self.scheduler_name = kubectl, kubectl.namespace
        self.name = kubectl.namespace + suffix
        self.target = f"schedulingpolicies.scheduling.konverge.dev/{self.name}"

    def apply(self, profile: dict[str, Any], **spec: Any) -> None:
        self.kubectl.apply(
            {
                "apiVersion": "scheduling.konverge.dev/v1alpha1",
                "kind": "SchedulingPolicy",
                "metadata": {"name": self.name},
                "spec": {"profile": {"schedulerName": self.scheduler_name, **profile}, **spec},
            }
        )

    def template(self, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
        container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}}
        return {"schedulerName": self.scheduler_name, "containers": [container], **spec}

    def pod(self, name: str, cpu: str = "100m", labels: dict[str, str] | None = None, **spec: Any) -> None:
        self.kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels or {}},
                "spec": self.template(cpu, **spec),
            }
        )

    def zone_of(self, pod: str) -> str:
        node = self.kubectl.get(f"pod/{pod}")["spec"]["nodeName"]
        return str(self.kubectl.get(f"node/{node}")["metadata"]["labels"][ZONE])

    def status(self) -> Any:
        return self.kubectl.get(self.target).get("status") or {}

    def reason(self, condition_type: str) -> tuple[str | None, str | None]:
        found = self.kubectl.condition(self.target, condition_type)
        return found.get("status"), found.get("reason")

    def wait_ready(self) -> None:
        self.kubectl.wait_ready(self.target)

    def delete(self) -> None:
        self.kubectl("delete", self.target, "--ignore-not-found", "--timeout=60s")


@pytest.fixture
def policy(kubectl: Kubectl) -> Iterator[Policy]:
    made = Policy(kubectl)
    yield made
    made.delete()


@pytest.fixture
def rival(kubectl: Kubectl) -> Iterator[Policy]:
    made = Policy(kubectl, "-rival")
    yield made
    made.delete()


def test_its_pods_run_on_the_nodes_that_it_prefers(policy: Policy) -> None:
    policy.apply(prefer("zone-b"))
    policy.wait_ready()
    for number in range(3):
        policy.pod(f"p{number}")
    policy.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")

    assert {policy.zone_of(f"p{number}") for number in range(3)} == {"zone-b"}
    until(lambda: policy.status().get("scheduled") == 3, "three pods in the status")
    assert policy.status()["lastScheduledTime"]
    header, row = policy.kubectl("get", policy.target).splitlines()
    assert header.split() == ["NAME", "PRIORITY", "PROFILE", "MATCHED", "PENDING", "READY", "REASON", "AGE"]
    assert row.split()[1:7] == ["0", policy.scheduler_name, "3", "0", "True", "Active"]


def test_an_edit_takes_effect_without_a_restart(policy: Policy) -> None:
    policy.apply(prefer("zone-b"))
    policy.wait_ready()
    policy.apply(prefer("zone-c"))
    policy.wait_ready()
    policy.pod("later")
    policy.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=60s")

    assert policy.zone_of("later") == "zone-c"


def test_an_edit_of_the_weights_moves_where_the_next_pods_go(policy: Policy) -> None:
    """The policy speaks for one zone and the pod itself for another: the weights decide."""

    def weigh(labels: int, affinity: int) -> dict[str, Any]:
        enabled = [
            {"name": "NodeLabelPriority", "weight": labels},
            {"name": "NodeAffinity", "weight": affinity},
        ]
        return prefer("zone-b") | {"plugins": {"score": {"enabled": enabled, "disabled": [{"name": "*"}]}}}

    def place(name: str) -> str:
        policy.pod(name, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}})
        policy.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        return policy.zone_of(name)

    expression = {"key": ZONE, "operator": "In", "values": ["zone-c"]}
    wish = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    policy.apply(weigh(labels=1, affinity=10))
    policy.wait_ready()
    assert [place("before-1"), place("before-2")] == ["zone-c", "zone-c"]

    policy.apply(weigh(labels=10, affinity=1))
    until(lambda: policy.status()["observedGeneration"] == 2, "the edit is taken over")
    assert [place("after-1"), place("after-2")] == ["zone-b", "zone-b"]


def test_a_wrong_plugin_name_is_told_with_the_known_ones(policy: Policy) -> None:
    policy.apply({"plugins": {"score": {"enabled": [{"name": "NodeLabelPriorty"}]}}})
    until(lambda: policy.reason("Accepted") == ("False", "UnknownPlugin"), "Accepted=False")

    message = policy.kubectl.condition(policy.target, "Accepted")["message"]
    assert "'NodeLabelPriorty'" in message
    assert "NodeLabelPriority, NodeName, NodePorts" in message
    assert policy.reason("Ready") == ("False", "UnknownPlugin")
    assert policy.reason("Stalled")[0] == "True"

    policy.apply(prefer("zone-a"))
    policy.wait_ready()
    assert policy.reason("Accepted") == ("True", "Valid")


def test_a_pod_that_fits_nowhere_is_told_why_in_kube_schedulers_words(policy: Policy) -> None:
    policy.apply({})
    policy.wait_ready()
    policy.pod("huge", cpu="999")
    until(lambda: policy.status().get("unschedulable") == 1, "an unschedulable pod in the status")

    count = len(policy.kubectl.list("nodes"))
    words = f"0/{count} nodes are available: {count} Insufficient cpu."
    condition = policy.kubectl.condition("pod/huge", "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert words in condition["message"]
    until(lambda: words in policy.kubectl("events", "--for=pod/huge"), "the event FailedScheduling")
    assert policy.status()["topReasons"] == [{"reason": "Insufficient cpu", "count": 1}]


def test_suspended_its_pods_wait(policy: Policy) -> None:
    policy.apply({}, suspend=True)
    policy.wait_ready()
    assert policy.reason("Active") == ("False", "Suspended")
    policy.pod("waits")
    policy.apply({}, suspend=False)

    policy.kubectl("wait", "--for=condition=Ready", "pod/waits", "--timeout=60s")


def test_suspended_with_hold_and_drain_its_pods_are_evicted_and_wait(policy: Policy) -> None:
    policy.apply({})
    policy.wait_ready()
    labels = {"app": "web"}
    policy.pod("alone")
    policy.kubectl.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": policy.template()},
            },
        }
    )
    until(lambda: policy.status().get("scheduled") == 3, "three pods in the status")
    policy.kubectl.edit(policy.target, suspend=True, stopPolicy="HoldAndDrain")
    until(
        lambda: (policy.status().get("scheduled"), policy.status().get("pending")) == (1, 2), "two new pods that wait"
    )

    assert policy.reason("Active") == ("False", "Suspended")
    waiting = [pod["metadata"]["name"] for pod in policy.kubectl.list("pods", "--selector=app=web")]
    held = f"held by SchedulingPolicy {policy.name}, which is suspended"
    until(lambda: held in policy.kubectl("events", f"--for=pod/{waiting[0]}"), "an event on a pod that waits")
    policy.kubectl.edit(policy.target, suspend=False)
    until(lambda: policy.status().get("scheduled") == 3, "all have a node again")


def test_policies_share_a_scheduler_name_by_their_selectors(policy: Policy, rival: Policy) -> None:
    policy.apply(prefer("zone-a"), podSelector={"matchLabels": {"tier": "back"}})
    rival.apply(prefer("zone-b"), podSelector={"matchLabels": {"tier": "front"}})
    for each in (policy, rival):
        each.wait_ready()
    policy.pod("back", labels={"tier": "back"})
    policy.pod("front", labels={"tier": "front"})
    policy.pod("neither")
    policy.kubectl("wait", "--for=condition=Ready", "pod/back", "pod/front", "--timeout=60s")

    assert (policy.zone_of("back"), policy.zone_of("front")) == ("zone-a", "zone-b")
    until(lambda: [each.status().get("matched") for each in (policy, rival)] == [1, 1], "each counts its own")
    told = f"no SchedulingPolicy matches this pod: its schedulerName {policy.scheduler_name} is that of"
    until(lambda: told in policy.kubectl("events", "--for=pod/neither"), "an event on the pod that none matches")
    rival.delete()


def test_of_two_for_one_scheduler_name_the_higher_priority_holds_it(policy: Policy, rival: Policy) -> None:
    policy.apply(prefer("zone-a"))
    policy.wait_ready()
    rival.apply(prefer("zone-b"), priority=10)
    rival.wait_ready()
    until(lambda: policy.reason("Accepted") == ("False", "Conflict"), "a Conflict")
    policy.pod("first")
    policy.kubectl("wait", "--for=condition=Ready", "pod/first", "--timeout=60s")
    assert policy.zone_of("first") == "zone-b"

    rival.delete()
    policy.wait_ready()


def test_fields_that_are_not_honoured_are_refused_by_name(policy: Policy) -> None:
    said = policy.kubectl.refusal(lambda: policy.apply({}, spot={"horizon": "15m"}))

    assert re.search(r'unknown field "(spec\.)?spot"', said)


def test_the_default_schedulers_name_is_refused(policy: Policy) -> None:
    policy.scheduler_name = "default-scheduler"

    assert "choose another schedulerName" in policy.kubectl.refusal(lambda: policy.apply({}))
