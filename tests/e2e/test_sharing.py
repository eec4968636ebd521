"""Two replicas that share the placing of pods, under the shipped permissions; one is killed, the other takes its share over."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import Limited
from tests.e2e.operator_process import OperatorProcess, refusals

pytestmark = pytest.mark.usefixtures("crds")

HOME = "konverge-system"
REGISTER = "configmap/sharing-scheduler"
POOL = "test.konverge.dev/pool"
TAKEOVER = 60.0
"""Seconds: a lease runs out after 15, and the caches of the other are warm."""
PLACES = 8
"""Pods for which each of the three nodes has room."""


class Replicas:
    """Both, and a pool of nodes that is theirs."""

    def __init__(self, kubectl: Kubectl, first: OperatorProcess, second: OperatorProcess) -> None:
        self.kubectl, self.both, self.name = kubectl, (first, second), kubectl.namespace
        self.home = Kubectl(kubectl.cluster, HOME)

    def furnish(self) -> None:
        """Three nodes with little room, and a policy for the test's own schedulerName."""
        room = {"cpu": "100", "memory": "100Gi", "pods": str(PLACES)}
        taint = {"key": POOL, "value": self.name, "effect": "NoSchedule"}
        for number in range(3):
            self.kubectl.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"{self.name}-{number}", "labels": {POOL: self.name}},
                    "spec": {"taints": [taint]},
                    "status": {"capacity": room, "allocatable": room},
                }
            )
            self.kubectl.wait_ready(f"node/{self.name}-{number}")
        policy = {
            "apiVersion": "scheduling.konverge.dev/v1alpha1",
            "kind": "SchedulingPolicy",
            "metadata": {"name": self.name},
            "spec": {"profile": {"schedulerName": self.name}},
        }
        self.kubectl.apply(policy)
        self.kubectl.wait_ready(self.policy)

    @property
    def policy(self) -> str:
        return f"schedulingpolicies.scheduling.konverge.dev/{self.name}"

    def remove(self) -> None:
        self.kubectl("delete", "pods", "--all", "--timeout=60s")
        self.kubectl("delete", self.policy, "--timeout=60s")
        self.kubectl("delete", *(f"node/{self.name}-{number}" for number in range(3)), "--timeout=60s")

    def pods(self, *names: str) -> None:
        spec = {
            "schedulerName": self.name,
            "nodeSelector": {POOL: self.name},
            "tolerations": [{"key": POOL, "operator": "Exists"}],
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}],
        }
        made = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in names]
        self.kubectl.apply(*made)

    def placed(self) -> int:
        """How many pods have a node. Raises: AssertionError when a node has more than it has room for."""
        counts = Counter(raw["spec"].get("nodeName") for raw in self.kubectl.list("pods"))
        counts.pop(None, None)
        assert max(counts.values(), default=0) <= PLACES, counts
        return sum(counts.values())

    def bound_by(self, replica: OperatorProcess) -> int:
        series = f'scheduler_schedule_attempts_total{{profile="{self.name}",result="scheduled"}}'
        return int(replica.metric(series))

    def status(self) -> dict[str, Any]:
        return dict(self.kubectl.get(self.policy)["status"])

    def bookings(self) -> int:
        """How many the register holds."""
        data = (self.home.get(REGISTER) or {}).get("data") or {}
        return sum(len(json.loads(text)["pods"]) for text in data.values())


def knows_the_other(replica: OperatorProcess) -> bool:
    known = [line for line in replica.said().splitlines() if "the members of sharing-scheduler: " in line]
    return bool(known) and ", " in known[-1]


@pytest.fixture
def replicas(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> Iterator[Replicas]:
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    cluster.kubectl("apply", "--server-side", "-k", "config/rbac")
    token = cluster.kubectl("create", "token", "konverge", f"--namespace={HOME}", "--duration=1h").strip()
    limited = Limited(cluster, tmp_path / "kubeconfig", token)
    flags = ("--leader-elect", "--lease-name", "sharing", "--lease-namespace", HOME, "--share-scheduling")
    with (
        OperatorProcess(limited, tmp_path / "first", *flags) as first,
        OperatorProcess(limited, tmp_path / "second", *flags) as second,
    ):
        made = Replicas(kubectl, first, second)
        made.furnish()
        yield made
        made.remove()


def test_both_place_pods_and_the_one_that_is_left_places_all(replicas: Replicas) -> None:
    first, second = replicas.both
    until(lambda: any(each.leads for each in replicas.both), "a leader")
    until(lambda: all(map(knows_the_other, replicas.both)), "both among the members")

    # More than there is room for, all at once: both decide on the same last places.
    replicas.pods(*(f"early-{number}" for number in range(3 * PLACES + 6)))
    until(lambda: replicas.placed() == 3 * PLACES, "a full pool")
    assert replicas.bound_by(first) + replicas.bound_by(second) == 3 * PLACES
    assert min(replicas.bound_by(first), replicas.bound_by(second)) > 0

    # The leader tells of all pods, also of those that the other one looked at.
    until(lambda: replicas.status().get("unschedulable") == 6, "the count of those that do not fit")
    assert replicas.status()["scheduled"] == 3 * PLACES
    assert any("Too many pods" in each["reason"] for each in replicas.status()["topReasons"])

    leader, other = sorted(replicas.both, key=lambda each: each.leads, reverse=True)
    leader.kill()
    replicas.kubectl("delete", "pods", "--all", "--timeout=60s")
    replicas.pods(*(f"late-{number}" for number in range(3 * PLACES)))
    until(lambda: replicas.placed() == 3 * PLACES, "the share of the dead one placed as well", within=TAKEOVER)
    until(lambda: replicas.bookings() == 0, "the bookings of the dead one taken out", within=TAKEOVER)
    assert refusals(other) == []
