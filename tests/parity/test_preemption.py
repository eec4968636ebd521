"""Preemption against the real kube-scheduler: the same pods have to go, from the same node, with the same words.

Random pods of different priority come to a small cluster one after the other, until it is full and beyond. Each is decided
on by both schedulers from the same state; then kube-scheduler's decision is carried out.
"""

import os
from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar

import pytest

from konverge.scheduler.diagnosis import Diagnosis
from konverge.testing import LocalCluster
from konverge.testing.processes import wait_for
from tests.parity.judging import compare
from tests.parity.side import Side, refusal
from tests.parity.tally import Tally, seeds

pytestmark = pytest.mark.e2e

PODS = 80
SEEDS = seeds(2)
CLASSES = {"p0": 0, "p1": 1, "p2": 2, "p5": 5, "p1000": 1000, "meek": 1000}
"""The values of PriorityClasses; pods of the last one preempt nobody."""
PROTECTED = {"app": "db"}
"""Pods with these labels are under a budget that allows no disruption."""


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalCluster]:
    """A cluster of our own with PriorityClasses."""
    with LocalCluster(f"pytest-preemption-{os.getpid()}", nodes=0, parity=True) as started:
        for name, value in CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            if name == "meek":
                body["preemptionPolicy"] = "Never"
            started.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        yield started


class Crowded(Side):
    """A cluster that is soon full."""

    nodes = 5
    rereads: ClassVar[tuple[str, ...]] = ("PodDisruptionBudget",)


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
        self.side.wire.request("POST", path, {"metadata": {"name": "db"}, "spec": spec})

    def pod(self, name: str) -> dict[str, Any]:
        """A pod of some priority."""
        raw = self.side.workload.pod(name, self.side.workload.profile())
        raw["spec"]["priorityClassName"] = self.chance.choice(list(CLASSES))
        return raw

    def told(self, name: str) -> list[str]:
        """What kube-scheduler's events say of why the pod found no node."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.side.namespace}/events"
        return [
            event["note"]
            for event in self.side.wire.items(path)
            if event["regarding"]["name"] == name and event["reason"] == "FailedScheduling"
        ]

    def start(self, name: str) -> None:
        """Wait until the pod runs, and give it a starting time of its own."""
        self.side.until(name, lambda pod: pod["status"]["phase"] == "Running")
        self.started += 1
        at = f"2026-01-01T00:{self.started // 60:02}:{self.started % 60:02}Z"
        self.side.wire.request("PATCH", f"{self.side.path}/{name}/status", {"status": {"startTime": at}})

    def decide(self, name: str, tally: Tally) -> None:
        """Let both decide on one more pod, and compare."""
        before = self.side.ours.where()
        created, ours = self.side.ask(self.pod(name))
        about = f"seed {self.side.seed}, {name}: {created['spec']}, ours: {ours}"
        if not isinstance(ours, Diagnosis):
            compare(self.side, self.side.decision(name), ours, tally, about)
            self.start(name)
            tally.outcomes["placed"] += 1
            return
        if not ours.nominated:
            assert refusal(self.side.decision(name)) == ours.message, about
            self.side.delete(name)
            tally.outcomes["refused"] += 1
            return
        # The victims stop at once, and the pod is tried again so soon that its condition may never be seen.
        node = self.side.until(name, lambda pod: pod["spec"].get("nodeName"))["spec"]["nodeName"]
        assert wait_for(lambda: ours.message in self.told(name), 10, poll=0.02), f"{self.told(name)}; {about}"
        assert before.keys() - self.side.ours.where().keys() == {victim.name for victim in ours.victims}, about
        assert node == ours.nominated, about
        self.start(name)
        tally.outcomes["preempted"] += 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_victims_are_those_of_kube_scheduler(empty: LocalCluster, seed: int, tally: Tally) -> None:
    with Crowded.furnished(empty, seed) as side:
        contest = Contest(side, seed)
        if seed % 2 == 0:
            contest.protect()
        for number in range(PODS):
            contest.decide(f"p{number}", tally)
    assert tally.outcomes["preempted"] >= 3, tally
    assert tally.outcomes["refused"] >= 3, tally
