"""The status contract on a real API server: kubectl, kstatus's rules and server-side diffs see what they should."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from yaml import safe_load

from konverge.errors import ClusterError
from konverge.model.render import render
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.test_examples import TENANT, install_crds
from tests.oracles.kstatus import Health, compute

SAMPLES = Path(__file__).parents[2] / "config" / "samples"


@pytest.fixture
def tenant(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A Tenant as a person would apply it, called like the test's namespace; what was made of it goes afterwards."""
    install_crds(cluster, TENANT, tmp_path, "tenants.demo.dev")
    name = f"{kubectl.namespace}-tenant"
    yield {"apiVersion": "demo.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": {"pods": 3}}
    kubectl("delete", f"tenants.demo.dev/{name}", "--ignore-not-found")


def target(manifest: dict[str, Any]) -> str:
    return f"tenants.demo.dev/{manifest['metadata']['name']}"


def is_ready_for_kubectl(kubectl: Kubectl, name: str) -> bool:
    """Whether `kubectl wait` has nothing to wait for."""
    try:
        kubectl("wait", "--for=condition=Ready", name, "--timeout=1s")
    except ClusterError as error:
        if "timed out waiting for the condition" not in str(error):
            raise
        return False
    return True


def test_what_nobody_looked_at_yet_is_in_progress(kubectl: Kubectl, tenant: dict[str, Any]) -> None:
    """Replay 21: the API server itself writes the CRD's default status."""
    kubectl.apply(tenant)
    created = kubectl.get(target(tenant))
    assert created["status"]["observedGeneration"] == -1
    assert "conditions" not in created["status"]
    assert compute(created) is Health.IN_PROGRESS
    assert not is_ready_for_kubectl(kubectl, target(tenant))


def test_kubectl_wait_honours_the_generation(
    cluster: Cluster, kubectl: Kubectl, tenant: dict[str, Any], tmp_path: Path
) -> None:
    """Replay 25: the operator is paused, so that the edit stays unobserved."""
    name = target(tenant)
    with OperatorProcess(cluster, tmp_path / "log", str(TENANT)) as operator:
        kubectl.apply(tenant)
        kubectl.wait_ready(name)
        assert compute(kubectl.get(name)) is Health.CURRENT

        operator.pause()
        try:
            kubectl.edit(name, pods=4)
            assert kubectl.condition(name, "Ready")["status"] == "True"
            assert compute(kubectl.get(name)) is Health.IN_PROGRESS
            assert not is_ready_for_kubectl(kubectl, name)
        finally:
            operator.resume()
        kubectl.wait_ready(name)
        assert compute(kubectl.get(name)) is Health.CURRENT


def test_what_fails_and_is_tried_again_is_in_progress(
    cluster: Cluster, kubectl: Kubectl, tenant: dict[str, Any], tmp_path: Path
) -> None:
    """A namespace that somebody else made: not taken over, and not given up either, for it may go."""
    name = tenant["metadata"]["name"]
    kubectl("create", "namespace", name)
    with OperatorProcess(cluster, tmp_path / "log", str(TENANT)):
        kubectl.apply(tenant)
        until(lambda: kubectl.condition(target(tenant), "Ready").get("status") == "False", "the failure")
        assert kubectl.condition(target(tenant), "Reconciling")["status"] == "True"
        assert compute(kubectl.get(target(tenant))) is Health.IN_PROGRESS
        kubectl("delete", f"namespace/{name}")
        kubectl.wait_ready(target(tenant))
        assert compute(kubectl.get(target(tenant))) is Health.CURRENT


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.yaml") if path.stem != "kustomization"))
def test_what_was_just_applied_shows_no_drift(crds: None, kubectl: Kubectl, sample: str) -> None:
    """Replay 20: the schema's defaults are no difference in a server-side diff, which is what Argo CD is told to use."""
    manifest = safe_load((SAMPLES / sample).read_text())
    manifest["metadata"].pop("namespace", None)
    text = render(manifest)
    kubectl("apply", "--server-side", "-f", "-", input=text)
    try:
        assert kubectl("diff", "--server-side", "-f", "-", input=text) == ""
        changed = render({**manifest, "metadata": {**manifest["metadata"], "labels": {"changed": "yes"}}})
        with pytest.raises(ClusterError, match="ended with 1"):  # a diff that can see something
            kubectl("diff", "--server-side", "-f", "-", input=changed)
    finally:
        kubectl("delete", "-f", "-", "--wait=false", input=text)
