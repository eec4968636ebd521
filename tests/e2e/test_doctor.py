"""`konverge doctor` on a real API server: it finds what is missing, says what to do, and is content once that was done."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from konverge.testing import Cluster
from konverge.testing.processes import wait_for
from tests.e2e.kubectl import Kubectl
from tests.e2e.operator_process import OperatorProcess

MODULE = '''
import konverge as kv


class GlassSpec(kv.Spec):
    size: int = 1


class Glass(kv.CustomResource[GlassSpec, kv.Status], group="doctor.example.dev", version="v1", plural="glasses"):
    """Holds water."""


class GlassReconciler(kv.Reconciler[Glass], owns=[kv.ConfigMap]):
    async def reconcile(self, glass: Glass, ctx: kv.Context, /) -> kv.Result:
        if glass.spec.size > 9:
            raise kv.Terminal("TooBig", "no glass is so big")
        if glass.spec.size == 9:
            raise kv.RetryAfter(600, "NoWater", "the well is dry")
        await ctx.apply(kv.ConfigMap, glass.name, {"data": {"size": str(glass.spec.size)}})
        return kv.Result.done()
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "glass.py"
    path.write_text(MODULE)
    return path


def run(cluster: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
    env["KUBECONFIG"] = str(cluster.kubeconfig)
    command = [sys.executable, "-m", "konverge", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)


def examined(cluster: Cluster, kubectl: Kubectl, module: Path, *more: str) -> tuple[int, str]:
    done = run(cluster, "doctor", str(module), "--lease-namespace", kubectl.namespace, *more)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def glass(size: int) -> dict[str, Any]:
    return {
        "apiVersion": "doctor.example.dev/v1",
        "kind": "Glass",
        "metadata": {"name": f"of-{size}"},
        "spec": {"size": size},
    }


def test_it_says_what_to_do_and_is_content_once_it_was_done(
    cluster: Cluster, kubectl: Kubectl, module: Path, tmp_path: Path
) -> None:
    code, said = examined(cluster, kubectl, module, "--leader-elect")
    assert code == 1
    assert "PROBLEM  CRD          glasses.doctor.example.dev is not installed" in said
    assert "kubectl apply --server-side -f crds/" in said
    assert f"warning  lease        nobody has taken {kubectl.namespace}/konverge-leader" in said
    _, said = examined(cluster, kubectl, module)
    assert f"ok       lease        no lease {kubectl.namespace}/konverge-leader: fine for one replica" in said

    crds = tmp_path / "crds"
    assert run(cluster, "crds", str(module), "--dir", str(crds)).returncode == 0
    kubectl("apply", "--server-side", "-f", str(crds))
    cluster.wait_for_crds("glasses.doctor.example.dev")
    arguments = ("--leader-elect", "--lease-namespace", kubectl.namespace, str(module))
    with OperatorProcess(cluster, tmp_path / "log", *arguments):
        kubectl.apply(glass(1), glass(9), glass(10))
        kubectl.wait_ready("glass/of-1")
        assert wait_for(lambda: kubectl.condition("glass/of-10", "Stalled").get("status") == "True", 30)
        assert wait_for(lambda: kubectl.condition("glass/of-9", "Ready").get("reason") == "NoWater", 30)
        code, said = examined(cluster, kubectl, module)
    assert code == 0, said
    assert "ok       CRD          glasses.doctor.example.dev is installed, and as the models say" in said
    assert "ok       permissions  whoever asks here has all" in said
    assert f"leads, by {kubectl.namespace}/konverge-leader" in said
    stalled = f"{kubectl.namespace}/of-10 is stalled: no glass is so big"
    failing = f"1 not Ready: glass/{kubectl.namespace}/of-9 (NoWater)"
    assert f"warning  objects      glasses.doctor.example.dev: {stalled}; {failing}" in said
    code, said = examined(cluster, kubectl, module)
    assert f"{kubectl.namespace}/konverge-leader is free: its last leader has stopped" in said


def test_a_crd_that_is_not_what_the_models_say_is_a_warning(
    cluster: Cluster, kubectl: Kubectl, module: Path, tmp_path: Path
) -> None:
    crds = tmp_path / "crds"
    run(cluster, "crds", str(module), "--dir", str(crds))
    kubectl("apply", "--server-side", "-f", str(crds))
    module.write_text(MODULE.replace("size: int = 1", "size: int = 2"))
    _, said = examined(cluster, kubectl, module)
    assert "warning  CRD          glasses.doctor.example.dev is not what the models say" in said


def test_the_permissions_are_those_of_the_service_account(cluster: Cluster, kubectl: Kubectl, module: Path) -> None:
    account = f"{kubectl.namespace}/patient"
    kubectl("create", "serviceaccount", "patient")
    code, said = examined(cluster, kubectl, module, "--service-account", account)
    assert code == 1
    assert f"the ServiceAccount {account} may not get, list, watch, create, patch, delete configmaps" in said
    assert 'resources: ["configmaps"]' in said
    name = f"doctor-{kubectl.namespace}"
    roles = run(cluster, "rbac", str(module), "--name", name, "--no-leader-election")
    try:
        kubectl("apply", "-f", "-", input=roles.stdout)
        kubectl(
            "create",
            "clusterrolebinding",
            name,
            f"--clusterrole={name}",
            f"--serviceaccount={account.replace('/', ':')}",
        )
        named = account.replace("/", ":")
        assert wait_for(lambda: "has all" in examined(cluster, kubectl, module, "--service-account", named)[1], 30)
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found")


@pytest.mark.parametrize(
    ("ca", "problem"),
    [
        ("", "has no caBundle: the API server cannot trust it"),
        ("Y2E=", "goes to the Service {namespace}/nowhere, which is not there"),
    ],
)
def test_a_webhook_that_cannot_be_called_is_told_as_hard_as_it_fails(
    cluster: Cluster, kubectl: Kubectl, module: Path, ca: str, problem: str
) -> None:
    name = f"doctor-{kubectl.namespace}"
    client = {"service": {"namespace": kubectl.namespace, "name": "nowhere"}, **({"caBundle": ca} if ca else {})}
    webhooks = [
        {
            "name": f"{policy.lower()}.doctor.example.dev",
            "failurePolicy": policy,
            "clientConfig": client,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"nobody": "has-this"}},
            "rules": [
                {
                    "apiGroups": ["doctor.example.dev"],
                    "apiVersions": ["v1"],
                    "resources": ["*"],
                    "operations": ["CREATE"],
                }
            ],
        }
        for policy in ("Fail", "Ignore")
    ]
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": webhooks,
    }
    try:
        kubectl("create", "-f", "-", input=json.dumps(configuration))
        code, said = examined(cluster, kubectl, module)
    finally:
        kubectl("delete", "validatingwebhookconfiguration", name, "--ignore-not-found")
    assert code == 1
    expected = problem.format(namespace=kubectl.namespace)
    assert f"PROBLEM  webhooks     fail.doctor.example.dev {expected}" in said
    assert f"warning  webhooks     ignore.doctor.example.dev {expected}" in said


def test_a_leader_that_no_longer_renews_is_a_problem(cluster: Cluster, kubectl: Kubectl, module: Path) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "konverge-leader"},
        "spec": {
            "holderIdentity": "ghost",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "acquireTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    kubectl("create", "-f", "-", input=json.dumps(lease))
    code, said = examined(cluster, kubectl, module)
    assert code == 1
    assert f"ghost renewed {kubectl.namespace}/konverge-leader" in said


def test_an_account_without_a_namespace_is_refused(cluster: Cluster, module: Path) -> None:
    done = run(cluster, "doctor", str(module), "--service-account", "patient")
    assert (done.returncode, done.stderr) == (
        1,
        "konverge: --service-account 'patient': write NAMESPACE:NAME, or NAMESPACE/NAME\n",
    )
