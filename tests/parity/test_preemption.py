"""Preemption against the real kube-scheduler: the same pods have to go, from the same node, with the same words.

Random pods of different priority come to a small cluster one after the other, until it is full and beyond. Each is decided
on by both schedulers from the same state; then kube-scheduler's decision is carried out.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.podinfo import PodInfo
from konverge.testing import LocalCluster
from konverge.testing.components import PARITY
from konverge.testing.processes import wait_for
from tests.parity.test_scheduler import Side, refusal

pytestmark = pytest.mark.e2e

PODS = 50
SEEDS = range(1, 1 + int(os.environ.get("KONVERGE_PARITY_SEEDS", "2")))
CLASSES = {"p0": 0, "p1": 1, "p2": 2, "p5": 5, "p1000": 1000, "meek": 1000}
"""The values of PriorityClasses; pods of the last one preempt nobody."""
PROTECTED = {"app": "db"}
"""Pods with these labels are under a budget that allows no disruption."""


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalCluster]:
    """A cluster of our own with PriorityClasses."""
    with LocalCluster(f"pytest-preemption-{os.getpid()}", nodes=0) as started:
        for name, value in CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            if name == "meek":
                body["preemptionPolicy"] = "Never"
            started.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        yield started


class Crowded(Side):
    """A cluster that is soon full."""

    nodes = 5


class Contest:
    """One seed: what is asked of both, and how kube-scheduler's decision is carried out."""

    def __init__(self, side: Side, seed: int) -> None:
        self.side, self.chance = side, Random(seed)
        self.started = 0
        """Starting seconds, another for each pod, so that no two nodes are equally good to preempt on."""

    def protect(self) -> None:
        """Put some pods under a budget that allows no disruption, whatever runs."""
        path = f"/apis/policy/v1/namespaces/{self.side.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 1000, "selector": {"matchLabels": PROTECTED}}
        self.side.cluster.request("POST", path, {"metadata": {"name": "db"}, "spec": spec})

    def pod(self, name: str) -> dict[str, Any]:
        """A pod of some priority."""
        raw = self.side.workload.pod(name, PARITY)
        raw["spec"]["priorityClassName"] = self.chance.choice(list(CLASSES))
        return raw

    def running(self) -> dict[str, dict[str, Any]]:
        """The pods that are on nodes, by name."""
        pods = self.side.cluster.request("GET", self.side.path)["items"]
        return {raw["metadata"]["name"]: raw for raw in pods if raw["spec"].get("nodeName")}

    def told(self, name: str) -> list[str]:
        """What kube-scheduler's events say of why the pod found no node."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.side.namespace}/events"
        return [
            event["note"]
            for event in self.side.cluster.request("GET", path)["items"]
            if event["regarding"]["name"] == name and event["reason"] == "FailedScheduling"
        ]

    def start(self, name: str) -> None:
        """Wait until the pod runs, and give it a starting time of its own."""
        path = f"{self.side.path}/{name}"
        assert wait_for(lambda: self.side.cluster.request("GET", path)["status"]["phase"] == "Running", 20)
        self.started += 1
        at = f"2026-01-01T00:{self.started // 60:02}:{self.started % 60:02}Z"
        self.side.cluster.kubectl(
            "patch", "pod", name, f"--namespace={self.side.namespace}", "--subresource=status", "--type=merge",
            f'--patch={{"status":{{"startTime":"{at}"}}}}',
        )  # fmt: skip

    def decide(self, name: str) -> str:
        """Let both decide on one more pod, and compare; what became of it."""
        snapshot, profile, before = self.side.snapshot(), self.side.profile(), self.running()
        created = self.side.create(self.pod(name))
        ours = Cycle(snapshot, self.chance).rank(profile, PodInfo(created))
        theirs = self.side.decision(name)
        about = f"seed {self.side.seed}, pod {name}: {created['spec']}, ours: {ours}"
        if not isinstance(ours, Diagnosis):
            assert theirs["spec"].get("nodeName") in ours.best, about
            self.start(name)
            return "placed"
        if not ours.nominated:
            assert refusal(theirs) == ours.message, about
            self.side.delete(name)
            return "refused"
        # The victims stop at once, and the pod is tried again so soon that its condition may never be seen.
        assert wait_for(lambda: name in self.running(), 30), about
        assert wait_for(lambda: ours.message in self.told(name), 10), f"{self.told(name)}; {about}"
        after = self.running()
        assert before.keys() - after.keys() == {victim.name for victim in ours.victims}, about
        assert after[name]["spec"]["nodeName"] == ours.nominated, about
        self.start(name)
        return "preempted"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_victims_are_those_of_kube_scheduler(empty: LocalCluster, seed: int) -> None:
    side = Crowded(empty, seed)
    side.furnish()
    contest = Contest(side, seed)
    if seed % 2 == 0:
        contest.protect()
    outcomes: Counter[str] = Counter()
    try:
        for number in range(PODS):
            outcomes[contest.decide(f"p{number}")] += 1
    finally:
        side.clear()
    assert outcomes["preempted"] >= 3, outcomes
    assert outcomes["refused"] >= 3, outcomes
