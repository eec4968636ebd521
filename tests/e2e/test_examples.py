"""Every file in examples/ runs as it stands, and so does the example on the page about testing."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from yaml import safe_load

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import allow, dismiss, generated
from tests.e2e.operator_process import OperatorProcess, refusals

EXAMPLES = Path(__file__).parents[2] / "examples"
WEB, DEPENDENTS = EXAMPLES / "web.py", EXAMPLES / "dependents.py"
TENANT, MANIFESTS = EXAMPLES / "tenant.py", EXAMPLES / "manifests" / "tenant"
SECRET_COPY = EXAMPLES / "secret_copy.py"
TESTING = Path(__file__).parents[2] / "docs" / "testing.md"
TARGET, SITE = "webs.demo.dev/shop", "sites.demo.dev/home"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the Pod Security standard of that name wants of a container."""
COLLECTION = 120.0
"""Seconds: the garbage collector looks for new kinds every 30 s, and knows none of their objects before."""


def install_crds(cluster: Cluster, example: Path, directory: Path, name: str) -> None:
    """As the README and docs/testing.md say it."""
    command = [sys.executable, "-m", "konverge", "crds", str(example), "--dir", str(directory / "crds")]
    subprocess.run(command, check=True)
    cluster.kubectl("apply", "--server-side", "-f", str(directory / "crds"))
    cluster.wait_for_crds(name)


def test_web_is_a_whole_operator_in_under_forty_lines(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    assert len(WEB.read_text().splitlines()) < 40
    install_crds(cluster, WEB, tmp_path, "webs.demo.dev")

    with OperatorProcess(cluster, tmp_path / "log", str(WEB)) as operator:
        kubectl.apply(
            {
                "apiVersion": "demo.dev/v1",
                "kind": "Web",
                "metadata": {"name": "shop"},
                "spec": {"image": "registry.k8s.io/pause:3.10", "replicas": 2, "port": 8080},
            }
        )
        kubectl.wait_ready(TARGET)
        assert kubectl.get(TARGET)["status"]["readyReplicas"] == 2
        assert kubectl.get("service/shop")["spec"]["ports"][0]["targetPort"] == 8080

        kubectl.edit(TARGET, replicas=1)
        kubectl.wait_ready(TARGET)
        assert kubectl.get("deployment/shop")["spec"]["replicas"] == 1
        kubectl("delete", "service/shop")
        until(lambda: kubectl.get("service/shop"), "the Service again")
        kubectl("delete", TARGET)
        until(lambda: kubectl.get("deployment/shop") is None, "the Deployment's collection", within=COLLECTION)
        assert operator.alive


def test_dependents_are_declared_in_under_sixty_lines(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    assert len(DEPENDENTS.read_text().splitlines()) < 60
    install_crds(cluster, DEPENDENTS, tmp_path, "sites.demo.dev")

    with OperatorProcess(cluster, tmp_path / "log", str(DEPENDENTS)) as operator:
        kubectl.apply(
            {
                "apiVersion": "demo.dev/v1",
                "kind": "Site",
                "metadata": {"name": "home"},
                "spec": {"html": "<h1>Hello</h1>", "replicas": 2},
            }
        )
        kubectl.wait_ready(SITE)
        assert kubectl.get(SITE)["status"]["available"] == 2
        made = [kubectl.get(f"{kind}/home")["metadata"] for kind in ("configmap", "deployment", "service", "pdb")]
        assert all(each["ownerReferences"][0]["kind"] == "Site" for each in made)
        reasons = [
            event["reason"] for event in kubectl.list("events.events.k8s.io") if "Site" in str(event["regarding"])
        ]
        assert reasons.count("Created") == 4

        kubectl.edit(SITE, replicas=1)
        until(lambda: kubectl.get("pdb/home") is None, "the budget's deletion")
        kubectl.wait_ready(SITE)
        assert kubectl.get("deployment/home")["spec"]["replicas"] == 1
        kubectl("delete", "configmap/home")
        until(lambda: kubectl.get("configmap/home"), "the page again")
        kubectl("delete", SITE)
        until(lambda: kubectl.get("deployment/home") is None, "the Deployment's collection", within=COLLECTION)
        assert operator.alive


def test_a_tenant_lives_on_the_rules_that_come_with_it(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "demo.dev_tenants.yaml"))
    cluster.wait_for_crds("tenants.demo.dev")
    role = safe_load((MANIFESTS / "role.yaml").read_text())
    limited = allow(kubectl, "tenants", role["rules"], tmp_path / "kubeconfig")
    name = f"{kubectl.namespace}-tenant"
    target = f"tenants.demo.dev/{name}"
    metadata = {"name": name}
    try:
        with OperatorProcess(limited, tmp_path / "log", str(TENANT)) as operator:
            kubectl.apply({"apiVersion": "demo.dev/v1", "kind": "Tenant", "metadata": metadata, "spec": {"pods": 3}})
            kubectl.wait_ready(target)
            inside = Kubectl(cluster, name)
            assert inside.get("resourcequota/tenant")["spec"]["hard"]["pods"] == "3"

            pod = {"name": "one", "image": "registry.k8s.io/pause:3.10", "securityContext": RESTRICTED}
            pod["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
            spec = {"automountServiceAccountToken": False, "containers": [pod]}
            inside.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec})
            until(lambda: kubectl.get(target)["status"]["pods"] == 1, "the pod in the status")

            kubectl("delete", target)
            until(lambda: kubectl.get(f"namespace/{name}") is None, "the namespace's end")
            assert refusals(operator) == []
    finally:
        dismiss(kubectl, "tenants")
        kubectl("delete", target, "--ignore-not-found", "--wait=false")


def test_a_secret_copy_lives_on_the_rules_that_are_generated(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    install_crds(cluster, SECRET_COPY, tmp_path, "secretcopies.demo.dev")
    [role] = generated(str(SECRET_COPY), "--name", "copies", "--no-leader-election")
    limited = allow(kubectl, "copies", role["rules"], tmp_path / "kubeconfig")
    name = f"{kubectl.namespace}-copy"
    target, copied = f"secretcopies.demo.dev/{name}", f"secret/{name}"
    kubectl("create", "namespace", name)
    elsewhere = Kubectl(cluster, name)
    source = {"namespace": kubectl.namespace, "name": name}
    copy = {"apiVersion": "demo.dev/v1", "kind": "SecretCopy", "metadata": {"name": name}}
    try:
        with OperatorProcess(limited, tmp_path / "log", str(SECRET_COPY)) as operator:
            itself = {**copy, "spec": {"source": source, "namespaces": [name, kubectl.namespace]}}
            assert "a Secret is no copy of itself" in kubectl.refusal(lambda: kubectl.apply(itself))

            kubectl.apply({**copy, "spec": {"source": source, "namespaces": [name]}})
            until(lambda: kubectl.condition(target, "Ready").get("reason") == "NoSource", "what it waits for")
            kubectl("create", "secret", "generic", name, "--from-literal=token=one")
            kubectl.wait_ready(target)
            assert elsewhere.get(copied)["data"] == kubectl.get(copied)["data"]

            kubectl("patch", copied, "--patch", '{"stringData": {"token": "two"}}')
            until(lambda: elsewhere.get(copied)["data"] == kubectl.get(copied)["data"], "the new token in the copy")
            elsewhere("delete", copied)
            until(lambda: elsewhere.get(copied), "the copy again")
            kubectl("delete", target)
            until(lambda: elsewhere.get(copied) is None, "the copy's collection", within=COLLECTION)
            assert kubectl.get(copied)
            assert refusals(operator) == []
    finally:
        dismiss(kubectl, "copies")
        kubectl("delete", target, "--ignore-not-found", "--wait=false")
        kubectl("delete", f"namespace/{name}", "--wait=false")


def test_the_page_about_testing_tests_on_a_real_control_plane(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TESTING.read_text(), re.DOTALL)
    (tmp_path / "note.py").write_text(blocks[0])
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "konverge", "crds", "note.py"], check=True)
    [shown] = [block for block in blocks if "OperatorProcess" in block]
    page: dict[str, Any] = {"__name__": "docs.testing"}
    exec(compile(shown, str(TESTING), "exec"), page)
    page["test_with_the_operator"](cluster, namespace, tmp_path)
