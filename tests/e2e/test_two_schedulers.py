"""kube-scheduler and ours in one cluster, on a node with room for one pod."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from konverge.testing.kubescheduler import PARITY
from tests.e2e.kubectl import Kubectl, until

pytestmark = pytest.mark.usefixtures("operator")

SLOT = "test.konverge.dev/slot"
KUBE = "default-scheduler"


def policy(name: str, scheduler_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.konverge.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"profile": {"schedulerName": scheduler_name}},
    }


class Slot:
    """A node with room for one pod, and the pods that want it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl, self.name = kubectl, f"slot-{kubectl.namespace}"

    def make(self) -> None:
        room = {"cpu": "4", "memory": "8Gi", "pods": "1"}
        taint = {"key": SLOT, "value": self.name, "effect": "NoSchedule"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {SLOT: self.name}},
            "spec": {"taints": [taint]},
            "status": {"capacity": room, "allocatable": room},
        }
        self.kubectl.apply(node)
        self.kubectl.wait_ready(f"node/{self.name}")

    def policy(self, scheduler_name: str) -> None:
        self.kubectl.apply(policy(self.name, scheduler_name))
        self.kubectl.wait_ready(f"schedulingpolicies.scheduling.konverge.dev/{self.name}")

    def remove(self) -> None:
        self.kubectl("delete", "pods", "--all", "--timeout=60s")
        self.kubectl("delete", f"node/{self.name}", "--timeout=60s")
        target = f"schedulingpolicies.scheduling.konverge.dev/{self.name}"
        self.kubectl("delete", target, "--ignore-not-found", "--timeout=60s")

    def wanted_by(self, pod: str, scheduler_name: str) -> dict[str, Any]:
        """A pod that can go nowhere else."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod},
            "spec": {
                "schedulerName": scheduler_name,
                "nodeSelector": {SLOT: self.name},
                "tolerations": [{"key": SLOT, "operator": "Exists"}],
                "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}],
            },
        }

    def holder(self) -> str:
        """The pod that has the place; empty for none. Raises: AssertionError when two have it."""
        pods = [raw["metadata"]["name"] for raw in self.kubectl.list("pods") if raw["spec"].get("nodeName")]
        assert len(pods) <= 1, f"{pods} share a place for one"
        return pods[0] if pods else ""

    def is_held_by(self, pod: str) -> bool:
        return self.holder() == pod

    def is_told_of_the_full_node(self, pod: str) -> bool:
        return "Too many pods" in self.kubectl.condition(f"pod/{pod}", "PodScheduled").get("message", "")


@pytest.fixture
def slot(kubectl: Kubectl) -> Iterator[Slot]:
    made = Slot(kubectl)
    made.make()
    yield made
    made.remove()


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "kube-scheduler-first"])
def test_each_counts_what_the_other_placed_and_retries_when_it_goes(slot: Slot, *, ours_first: bool) -> None:
    ours = slot.name
    slot.policy(ours)
    first, second = (ours, KUBE) if ours_first else (KUBE, ours)

    slot.kubectl.apply(slot.wanted_by("first", first))
    until(lambda: slot.holder() == "first", "the first pod on the node")
    slot.kubectl.apply(slot.wanted_by("second", second))
    until(lambda: slot.is_told_of_the_full_node("second"), "the second pod is told that the node is full")
    assert slot.holder() == "first"

    slot.kubectl("delete", "pod/first", "--timeout=60s")
    until(lambda: slot.holder() == "second", "the second pod on the node, once the first is gone")


def test_a_race_for_the_last_place_ends_in_one_bind_and_a_clean_retry(slot: Slot) -> None:
    """Both schedulers want to place the same pods: each of them tries every pod, and the server decides."""
    slot.policy(PARITY)
    for number in range(5):
        one, other = f"one-{number}", f"other-{number}"
        slot.kubectl.apply(slot.wanted_by(one, PARITY), slot.wanted_by(other, PARITY))
        until(slot.holder, "one of the pods on the node")
        placed = slot.holder()
        waiting = other if placed == one else one
        until(partial(slot.is_told_of_the_full_node, waiting), "the other one is told that the node is full")
        assert slot.holder() == placed

        slot.kubectl("delete", f"pod/{placed}", "--timeout=60s")
        until(partial(slot.is_held_by, waiting), "the other one on the node, once the first is gone")
        slot.kubectl("delete", f"pod/{waiting}", "--timeout=60s")
    bound = slot.kubectl.list("events", "--field-selector=reason=Scheduled")
    assert {event["involvedObject"]["name"] for event in bound} == {
        f"{name}-{number}" for name in ("one", "other") for number in range(5)
    }
