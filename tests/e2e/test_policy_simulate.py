"""`konverge explain pod/NAME` and `konverge policy simulate` on a real cluster: what they tell, and that they write nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.scheduler import Registry
from konverge.testing import Cluster
from konverge.testing.loopback import free_ports
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import Limited, allow, dismiss
from tests.e2e.operator_process import OperatorProcess

pytestmark = pytest.mark.usefixtures("crds")


def konverge(cluster: Cluster | Limited, *arguments: str) -> str:
    """What the command prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
    env["KUBECONFIG"] = str(cluster.kubeconfig)
    command = [sys.executable, "-m", "konverge", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.konverge.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"profile": {"schedulerName": name}, **spec},
    }


def pod(name: str, scheduler: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


@pytest.fixture
def address(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Where an operator serves /debug."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with OperatorProcess(cluster, tmp_path / "explained.log", "--debug-address", address):
        yield address


@pytest.fixture
def name(kubectl: Kubectl) -> Iterator[str]:
    """The name of a policy, and its schedulerName."""
    kubectl.apply(policy(kubectl.namespace))
    yield kubectl.namespace
    kubectl("delete", f"schedulingpolicies.scheduling.konverge.dev/{kubectl.namespace}", "--timeout=60s")


@pytest.fixture
def reader(kubectl: Kubectl, tmp_path: Path) -> Iterator[Limited]:
    """Somebody who may list what schedulers read, and nothing else."""
    reads = {("", "nodes"), ("", "pods"), ("", "namespaces"), *((r.group, r.plural) for r in Registry.default().reads)}
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": ["list"]} for group, resource in sorted(reads)]
    yield allow(kubectl, "reader", rules, tmp_path / "reader.kubeconfig")
    dismiss(kubectl, "reader")


def told(kubectl: Kubectl, address: str, pod: str) -> str:
    """What `konverge explain` prints of the pod, with single spaces."""
    out = konverge(kubectl.cluster, "explain", f"pod/{pod}", "-n", kubectl.namespace, "--debug-address", address)
    return "\n".join(" ".join(line.split()) for line in out.splitlines())


def versions(kubectl: Kubectl) -> dict[str, str]:
    """The version of each pod of the test, with where it is."""
    return {
        raw["metadata"]["name"]: f"{raw['metadata']['resourceVersion']} {raw['spec'].get('nodeName')}"
        for raw in kubectl.list("pods")
    }


def test_a_pod_that_fits_and_one_that_does_not_are_explained(kubectl: Kubectl, address: str, name: str) -> None:
    kubectl.apply(pod("fits", name, "100m"), pod("huge", name, "1000"))
    kubectl.wait_ready("pod/fits")
    until(lambda: kubectl.condition("pod/huge", "PodScheduled"), "the verdict on the pod that does not fit")

    fits = told(kubectl, address, "fits")
    on = kubectl.get("pod/fits")["spec"]["nodeName"]
    assert f"Policy: {name} (schedulerName {name}; {name}: has the pod)" in fits
    assert f"Queue: on node {on}, waits no longer" in fits
    assert "If it waited: fits " in fits
    assert "NodeResourcesFit x1" in fits

    huge = told(kubectl, address, "huge")
    assert kubectl.condition("pod/huge", "PodScheduled")["message"] in huge
    assert "turned away by NodeResourcesFit" in huge
    assert "Insufficient cpu (NodeResourcesFit, final)" in huge
    assert "Best nodes" not in huge


def test_a_simulation_writes_nothing_and_says_what_comes(
    kubectl: Kubectl, cluster: Cluster, reader: Limited, tmp_path: Path
) -> None:
    scheduler = kubectl.namespace
    file, dump = tmp_path / "policy.yaml", tmp_path / "cluster.json"
    file.write_text(yaml.safe_dump(policy(scheduler)))
    kubectl.apply(pod("fits", scheduler, "100m"), pod("huge", scheduler, "1000"))
    before = versions(kubectl)

    out = json.loads(konverge(reader, "policy", "simulate", str(file), "--json", "--dump", str(dump)))

    placed = {each["pod"]: bool(each["node"]) for each in out["outcomes"]}
    assert placed == {f"{scheduler}/fits": True, f"{scheduler}/huge": False}
    assert versions(kubectl) == before
    assert kubectl.list("events") == []
    assert json.loads(konverge(reader, "policy", "simulate", str(file), "--json", "--snapshot", str(dump))) == out


def test_what_was_simulated_is_what_the_operator_does(kubectl: Kubectl, address: str, tmp_path: Path) -> None:
    scheduler = kubectl.namespace
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(policy(scheduler)))
    kubectl.apply(pod("fits", scheduler, "100m"), pod("huge", scheduler, "1000"))
    outcomes = json.loads(konverge(kubectl.cluster, "policy", "simulate", str(file), "--json"))["outcomes"]
    kubectl.apply(policy(scheduler))
    try:
        kubectl.wait_ready("pod/fits")
        until(lambda: kubectl.condition("pod/huge", "PodScheduled"), "the verdict on the pod that does not fit")
    finally:
        kubectl("delete", f"schedulingpolicies.scheduling.konverge.dev/{scheduler}", "--timeout=60s")
    said = {each["pod"]: each["message"] for each in outcomes}
    assert kubectl.condition("pod/huge", "PodScheduled")["message"] == said[f"{scheduler}/huge"]
