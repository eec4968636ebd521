"""Admission as users meet it: the API server calls the hooks of a running operator, and copes when it cannot.

The configurations are those of `konverge webhooks`, pointed at the operator's port on the loopback interface, and kept to
the namespace of these tests.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from konverge.testing import Cluster, LocalCluster
from konverge.testing.loopback import free_ports
from tests.e2e.certificates import certify
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

ROOT = Path(__file__).parents[2]
GROUP = "admission.example.dev"
PROTECTION = "data.konverge.dev/deletion-protection"

OPERATOR = """
import re
import time
from typing import Literal

from pydantic import Field

from konverge import CustomResource, Problem, Reconciler, Result, Spec, Status, hook


class FilterSpec(Spec):
    pattern: str = Field(max_length=64)
    title: str | None = Field(default=None, max_length=64)
    mood: Literal["calm", "slow", "broken"] = "calm"


def problems(spec):
    if spec.mood == "slow":
        time.sleep(2)
    if spec.mood == "broken":
        raise RuntimeError("out of order")
    try:
        re.compile(spec.pattern)
    except re.error as error:
        yield Problem("spec.pattern", spec.pattern, f"must be a regular expression: {error}")
    if spec.pattern == ".*":
        yield Problem.warning("spec.pattern", "this takes everything")


class Filter(CustomResource[FilterSpec, Status], group="admission.example.dev", version="v1"):
    @hook(timeout=1)
    def validate(self, old, request):
        yield from problems(self.spec)

    def default(self, request):
        return {"spec": {"title": f"The {self.name}"}, "metadata": {"annotations": {"example.dev/by": request.user}}}


class Sieve(CustomResource[FilterSpec, Status], group="admission.example.dev", version="v1"):
    @hook(timeout=1, on_failure="Ignore")
    def validate(self, old, request):
        yield from problems(self.spec)


class FilterReconciler(Reconciler[Filter]):
    async def reconcile(self, obj, ctx, /):
        return Result.done()


class SieveReconciler(Reconciler[Sieve]):
    async def reconcile(self, obj, ctx, /):
        return Result.done()
"""

HANDLERS = """
import kopf


@kopf.on.validate("v1", "configmaps", id="guard")
async def guard(body, **_):
    if body.get("data", {}).get("bad"):
        raise kopf.AdmissionError("kopf says no", code=422)
"""


class Served:
    """An operator with hooks, and its configurations in the cluster, while the block runs."""

    def __init__(self, cluster: Cluster, directory: Path, namespace: str, *targets: str) -> None:
        self.kubectl = Kubectl(cluster, namespace)
        self.certificates = directory / "certificates"
        self.certificates.mkdir()
        self.bundle = certify(self.certificates)
        port, debug = free_ports(2)
        self.url, self.debug = f"https://127.0.0.1:{port}", f"127.0.0.1:{debug}"
        flags = ("--webhook-address", f"127.0.0.1:{port}", "--webhook-cert-dir", str(self.certificates))
        more = ("--debug-address", self.debug, "-n", namespace)
        self.operator = OperatorProcess(cluster, directory / "log", *targets, *flags, *more)
        self._targets = targets

    def configurations(self) -> list[dict[str, Any]]:
        """What `konverge webhooks` prints, pointed at the operator."""
        command = (sys.executable, "-m", "konverge", "webhooks", *self._targets, "--name", self.kubectl.namespace)
        manifests = list(yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        for webhook in (webhook for manifest in manifests for webhook in manifest["webhooks"]):
            self.point(webhook, webhook["clientConfig"]["service"]["path"])
        return manifests

    def point(self, webhook: dict[str, Any], path: str) -> None:
        """Send a webhook's requests about objects of the tests' namespace to the operator."""
        webhook["clientConfig"] = {"url": self.url + path, "caBundle": self.bundle}
        here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.kubectl.namespace]}
        webhook["namespaceSelector"] = {
            "matchExpressions": [*webhook.get("namespaceSelector", {}).get("matchExpressions", []), here]
        }

    def make(self, kind: str, name: str, /, **spec: Any) -> None:
        """Apply one of the operator's own objects."""
        self.kubectl.apply(
            {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": {"pattern": "a+", **spec}}
        )

    def refusal(self, kind: str, name: str, /, **spec: Any) -> str:
        """What a user reads who tries to."""
        return self.kubectl.refusal(lambda: self.make(kind, name, **spec))


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[str]:
    """The namespace of these tests."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("the API server of this cluster cannot reach a port of this machine's loopback interface")
    name = cluster.create_namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def served(cluster: Cluster, crds: None, here: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The operator above and that of Databases, with all their hooks registered and called."""
    directory = tmp_path_factory.mktemp("admission")
    module = directory / "filters.py"
    module.write_text(OPERATOR)
    subprocess.run(
        (sys.executable, "-m", "konverge", "crds", str(module), "--dir", str(directory / "crds")), check=True
    )
    cluster.kubectl("apply", "--server-side", "-f", str(directory / "crds"))
    cluster.wait_for_crds(f"filters.{GROUP}", f"sieves.{GROUP}")
    serving = Served(cluster, directory, here, str(module), "konverge.controllers.database")
    serving.make("Filter", "legacy", pattern="(")  # from before there was a hook
    with serving.operator:
        serving.kubectl.apply(*serving.configurations())
        for kind in ("Filter", "Sieve"):
            until(lambda kind=kind: refused(serving, kind), f"the hook of {kind} is called")  # type: ignore[misc]
        yield serving
    for kind in ("validating", "mutating"):
        cluster.kubectl("delete", f"{kind}webhookconfiguration", here)


def refused(served: Served, kind: str) -> bool:
    """Whether the API server has taken notice of the configuration."""
    try:
        served.refusal(kind, "probe", pattern="(")
    except AssertionError:
        served.kubectl("delete", kind.lower(), "probe")
        return False
    return True


def test_a_refusal_names_the_field_the_value_and_the_rule_as_the_servers_own_do(served: Served) -> None:
    ours = served.refusal("Filter", "bad", pattern="a(b")
    assert (
        'The Filter "bad" is invalid: spec.pattern: Invalid value: "a(b": must be a regular expression: '
        "missing ), unterminated subpattern at position 1"
    ) in ours
    schemas = served.refusal("Filter", "bad", pattern="a" * 65)
    assert 'The Filter "bad" is invalid: spec.pattern: Too long' in schemas


def test_defaults_are_filled_in_where_a_person_said_nothing(served: Served) -> None:
    served.make("Filter", "plain")
    served.make("Filter", "titled", title="My own")
    plain, titled = served.kubectl.get("filter/plain"), served.kubectl.get("filter/titled")
    assert plain["spec"]["title"] == "The plain"
    assert titled["spec"]["title"] == "My own"
    assert plain["metadata"]["annotations"]["example.dev/by"] == "konverge-admin"


def test_an_update_is_judged_by_what_it_makes_worse(served: Served) -> None:
    served.kubectl.edit("filter/legacy", title="Renamed")
    assert served.kubectl.get("filter/legacy")["spec"] == {"pattern": "(", "title": "Renamed", "mood": "calm"}
    refusal = served.kubectl.refusal(lambda: served.kubectl.edit("filter/legacy", pattern="(("))
    assert 'Invalid value: "((": must be a regular expression' in refusal
    served.kubectl.edit("filter/legacy", pattern="()")


def test_a_warning_reaches_who_wrote_the_object_which_is_taken(served: Served) -> None:
    broad = {"apiVersion": f"{GROUP}/v1", "kind": "Filter", "metadata": {"name": "broad"}, "spec": {"pattern": ".*"}}
    apply = ("apply", "--warnings-as-errors", "-f", "-")
    said = served.kubectl.refusal(lambda: served.kubectl(*apply, input=json.dumps(broad)))
    assert "Warning: spec.pattern: this takes everything" in said
    assert "1 warning received" in said
    assert served.kubectl.get("filter/broad")["spec"]["pattern"] == ".*"
    served.kubectl.edit("filter/broad", title="Renamed")
    narrow = {**broad, "spec": {"pattern": "a+"}}
    served.kubectl(*apply, input=json.dumps(narrow))


def test_a_protected_database_stays_until_it_is_no_longer_protected(served: Served) -> None:
    database = yaml.safe_load((ROOT / "config/samples/database.yaml").read_text())
    database["metadata"] = {"name": "kept", "annotations": {PROTECTION: "true"}}
    served.kubectl.apply(database)
    refusal = served.kubectl.refusal(lambda: served.kubectl("delete", "database", "kept", "--wait=false"))
    assert 'databases.data.konverge.dev "kept" is forbidden' in refusal
    assert f"metadata.annotations[{PROTECTION}]: Forbidden: the Database is protected; remove the annotation" in refusal
    served.kubectl("annotate", "database", "kept", f"{PROTECTION}-")
    served.kubectl("delete", "database", "kept", "--timeout=60s")


@pytest.mark.parametrize(("mood", "why"), [("slow", "context deadline exceeded"), ("broken", "an error on the server")])
def test_no_answer_in_time_and_a_hook_that_raises_are_left_to_the_failure_policy(
    served: Served, mood: str, why: str
) -> None:
    refusal = served.refusal("Filter", "unlucky", mood=mood)
    assert f'failed calling webhook "validate.filters.{GROUP}"' in refusal
    assert why in refusal
    served.make("Sieve", f"lucky-{mood}", mood=mood)


def test_the_declared_timeout_is_what_the_server_waits(served: Served) -> None:
    assert f"{served.url}/validate/filters.{GROUP}?timeout=1s" in served.refusal("Filter", "unlucky", mood="slow")


def test_a_certificate_that_is_replaced_is_served_without_a_restart(served: Served) -> None:
    old, served.bundle = served.bundle, certify(served.certificates)
    assert old != served.bundle
    served.kubectl.apply(*served.configurations())
    until(lambda: "is invalid: spec.pattern" in served.refusal("Filter", "bad", pattern="("), "the new pair is trusted")
    assert served.operator.alive


def test_what_was_answered_is_measured(served: Served) -> None:
    with urlopen(f"http://{served.debug}/debug/metrics", timeout=10) as page:
        said = page.read().decode()
    path = f'webhook="/validate/filters.{GROUP}"'
    assert f'controller_runtime_webhook_requests_total{{code="200",{path}}}' in said
    assert f'controller_runtime_webhook_requests_total{{code="500",{path}}}' in said
    assert f"controller_runtime_webhook_latency_seconds_count{{{path}}}" in said
    assert f"controller_runtime_webhook_requests_in_flight{{{path}}} 0.0" in said


def test_while_nobody_serves_the_failure_policies_hold_and_what_needs_no_hook_passes(served: Served) -> None:
    served.make("Filter", "steady")
    served.operator.stop()
    try:
        assert "connection refused" in served.refusal("Filter", "late")
        assert "connection refused" in served.kubectl.refusal(lambda: served.kubectl.edit("filter/steady", title="New"))
        served.make("Sieve", "late", pattern="(")
        served.kubectl("label", "filter", "steady", "changed=yes")  # the spec stays: nobody asks
        served.kubectl("delete", "filter", "steady", "--timeout=60s")
        database = yaml.safe_load((ROOT / "config/samples/database.yaml").read_text())
        served.kubectl.apply({**database, "metadata": {"name": "loose"}})
        served.kubectl("delete", "database", "loose", "--timeout=60s")
    finally:
        served.operator.start()


def test_kopf_handlers_for_admission_are_served_beside_by_one_server_only(
    cluster: Cluster, here: str, tmp_path: Path
) -> None:
    """A leader runs kopf twice; a second server on the port would know none of them."""
    handlers = tmp_path / "handlers.py"
    handlers.write_text(HANDLERS)
    beside = Served(cluster, tmp_path, here, str(handlers))
    webhook: dict[str, Any] = {
        "name": "guard.example.dev",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    beside.point(webhook, "/guard")
    kind = "ValidatingWebhookConfiguration"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{here}-guard"},
        "webhooks": [webhook],
    }
    operator = OperatorProcess(
        cluster,
        tmp_path / "leader",
        *(str(handlers), "--leader-elect", "--lease-name", "guard", "--lease-namespace", here, "-n", here),
        *("--webhook-address", beside.url.removeprefix("https://"), "--webhook-cert-dir", str(beside.certificates)),
    )
    with operator:
        until(lambda: "handlers are active" in operator.log.read_text(), "a leader")
        beside.kubectl.apply(configuration)
        try:
            until(lambda: "kopf says no" in outcome(beside.kubectl, "first"), "kopf's handler is called")
            assert "kopf says no" in outcome(beside.kubectl, "second")
        finally:
            cluster.kubectl("delete", kind, f"{here}-guard")
    # Connections are kept, so refusals alone would not show a second one.
    assert operator.log.read_text().count("serving webhooks on") == 1


def outcome(kubectl: Kubectl, name: str) -> str:
    """What kubectl says to a ConfigMap that kopf's handler refuses; empty when it went through."""
    try:
        return kubectl.refusal(lambda: kubectl("create", "configmap", name, "--from-literal=bad=yes"))
    except AssertionError:
        kubectl("delete", "configmap", name)
        return ""


def test_the_manifests_in_config_are_what_the_server_takes(cluster: Cluster, here: str, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    up = Path(*[".."] * (len(overlay.resolve().parts) - 1))
    config = up / ROOT.relative_to("/") / "config"
    (overlay / "kustomization.yaml").write_text(
        json.dumps({"resources": [str(config / "manager")], "components": [str(config / "webhook")]})
    )
    manifests = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(overlay))))
    kinds = {manifest["kind"]: manifest for manifest in manifests}
    container = kinds["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert "--webhook-cert-dir=/etc/konverge/webhook" in container["args"]
    configuration = kinds["ValidatingWebhookConfiguration"]
    assert "caBundle" not in json.dumps(configuration)
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=json.dumps(configuration))
