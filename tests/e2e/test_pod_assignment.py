"""The API server asks the operator about new pods of a namespace that opted in, and a policy gets those that it matches."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from konverge.controllers.scheduling_policy.assign import ASSIGN
from konverge.testing import Cluster, LocalCluster
from konverge.testing.loopback import free_ports
from tests.e2e.certificates import certify
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

MODULE = "konverge.controllers.scheduling_policy"
PATH = "assign/pods"


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[str]:
    """A namespace that opted in; its name is also that of the policy and its schedulerName."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("the API server of this cluster cannot reach a port of this machine's loopback interface")
    name = cluster.create_namespace()
    cluster.kubectl("label", "namespace", name, f"{ASSIGN}=enabled")
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, crds: None, here: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator with its hook, the hook's configuration, and a policy for pods with app=web."""
    directory = tmp_path_factory.mktemp("assignment")
    certificates = directory / "certificates"
    certificates.mkdir()
    bundle = certify(certificates)
    (port,) = free_ports(1)
    flags = ("--webhook-address", f"127.0.0.1:{port}", "--webhook-cert-dir", str(certificates))
    command = (sys.executable, "-m", "konverge", "webhooks", MODULE, "--name", here)
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (manifest,) = yaml.safe_load_all(printed)
    for webhook in manifest["webhooks"]:
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/{PATH}", "caBundle": bundle}
    kubectl = Kubectl(cluster, here)
    with OperatorProcess(cluster, directory / "log", MODULE, *flags) as running:
        kubectl.apply(manifest, policy(here))
        kubectl.wait_ready(f"schedulingpolicy/{here}")
        try:
            until(lambda: scheduler_of(kubectl, "probe", app="web") == here, "the hook is called")
            yield running
        finally:
            cluster.kubectl("delete", "mutatingwebhookconfiguration", here)
            cluster.kubectl("delete", "schedulingpolicy", here, "--timeout=60s")


@pytest.fixture
def kubectl(cluster: Cluster, operator: OperatorProcess, here: str) -> Kubectl:
    """kubectl in that namespace, while the hook is served."""
    return Kubectl(cluster, here)


def policy(name: str) -> dict[str, object]:
    """A policy for pods with app=web; both its name and its schedulerName are `name`."""
    return {
        "apiVersion": "scheduling.konverge.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "profile": {"schedulerName": name}},
    }


def scheduler_of(kubectl: Kubectl, name: str, scheduler: str = "", **labels: str) -> str:
    """Make the pod, and have the schedulerName that it got; the pod is gone afterwards."""
    kubectl.apply(pod(name, scheduler, **labels))
    found = str(kubectl.get(f"pod/{name}")["spec"]["schedulerName"])
    kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=true")
    return found


def pod(name: str, scheduler: str = "", **labels: str) -> dict[str, object]:
    spec = {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec | ({"schedulerName": scheduler} if scheduler else {}),
    }


def test_a_pod_that_the_policy_matches_gets_its_name_and_is_placed_by_it(kubectl: Kubectl, here: str) -> None:
    kubectl.apply(pod("web", app="web"))
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")

    assert kubectl.get("pod/web")["spec"]["schedulerName"] == here
    until(lambda: (kubectl.get(f"schedulingpolicy/{here}")["status"]).get("scheduled") == 1, "the pod in the counts")


def test_other_pods_stay_with_kube_scheduler(kubectl: Kubectl) -> None:
    assert scheduler_of(kubectl, "db", app="db") == "default-scheduler"
    assert scheduler_of(kubectl, "own", scheduler="mine", app="web") == "mine"
    assert scheduler_of(kubectl, "out", app="web", **{ASSIGN: "disabled"}) == "default-scheduler"


def test_pods_of_namespaces_that_did_not_opt_in_are_none_of_its_business(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    assert scheduler_of(Kubectl(cluster, namespace), "web", app="web") == "default-scheduler"


def test_a_deployments_pods_get_the_name_too(kubectl: Kubectl, here: str) -> None:
    template = pod("unused", app="web", tier="front")
    labels = {"app": "web", "tier": "front"}
    kubectl.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        }
    )
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")

    pods = kubectl.list("pods", "--selector=tier=front")
    assert [each["spec"]["schedulerName"] for each in pods] == [here, here]


def test_while_nobody_answers_pods_are_made_all_the_same(
    kubectl: Kubectl, operator: OperatorProcess, here: str
) -> None:
    operator.stop()
    try:
        assert scheduler_of(kubectl, "late", app="web") == "default-scheduler"
    finally:
        operator.start()
    until(lambda: scheduler_of(kubectl, "again", app="web") == here, "the hook is called again")


def test_the_committed_configuration_is_what_the_server_takes(cluster: Cluster, kubectl: Kubectl, here: str) -> None:
    text = (kubectl.get(f"mutatingwebhookconfiguration/{here}"))["webhooks"][0]
    assert (text["failurePolicy"], text["timeoutSeconds"]) == ("Ignore", 5)
    assert "kube-system" in json.dumps(text["namespaceSelector"])
