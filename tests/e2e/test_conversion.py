"""Several versions of a resource on the real API server, which asks a running operator to convert."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge.errors import ApiError, Invalid
from konverge.model.conversion import ANNOTATION
from konverge.model.crd import crd_of
from konverge.testing import Cluster
from konverge.testing.certificates import issue
from konverge.testing.loopback import free_ports
from tests.e2e.kubectl import until
from tests.e2e.operator_process import OperatorProcess
from tests.unit.model.versions import Site

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/{Site.resource.name}"
MODULE = str(Path(__file__).with_name("sites.py"))
OLD = {"image": "a", "count": 500, "colour": "red", "ports": [{"name": "web", "port": 80}]}
"""More replicas than v1 allows, and a colour that v1 does not know."""


class Sites:
    """Sites in one namespace, in any version; and their CRD."""

    def __init__(self, cluster: Cluster, namespace: str, url: str, authority: bytes) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._config = {"url": url, "caBundle": base64.b64encode(authority).decode()}
        self.operator: OperatorProcess

    def crd(self, stored: str) -> dict[str, Any]:
        """The CRD with another storage version, and the webhook by its address."""
        crd = crd_of(Site)
        for version in crd["spec"]["versions"]:
            version["storage"] = version["name"] == stored
        crd["spec"]["conversion"]["webhook"]["clientConfig"] = self._config
        return crd

    def store(self, version: str) -> None:
        """Store new objects in `version`, once the server knows."""
        self.cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(self.crd(version)))
        self.cluster.wait_for_crds(Site.resource.name)
        until(lambda: version in self.stored, f"{version} is among the stored versions")

    @property
    def stored(self) -> list[str]:
        found: list[str] = self.cluster.request("GET", CRD)["status"]["storedVersions"]
        return found

    def _path(self, version: str, name: str = "") -> str:
        path = f"/apis/{Site.resource.group}/{version}/namespaces/{self.namespace}/sites"
        return f"{path}/{name}" if name else path

    def create(self, name: str, version: str, spec: dict[str, Any]) -> Any:
        body = {"apiVersion": f"{Site.resource.group}/{version}", "kind": "Site", "metadata": {"name": name}}
        return self.cluster.request("POST", self._path(version), {**body, "spec": spec})

    def get(self, name: str, version: str) -> Any:
        return self.cluster.request("GET", self._path(version, name))

    def edit(self, name: str, version: str, change: Callable[[dict[str, Any]], None]) -> Any:
        """Read, change the spec and write back, again where somebody else wrote in between."""
        while True:
            obj = self.get(name, version)
            change(obj["spec"])
            try:
                return self.cluster.request("PUT", self._path(version, name), obj)
            except ApiError as error:
                if error.reason != "Conflict":
                    raise

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess' name for it
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, input=input)


@pytest.fixture(scope="module")
def sites(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Two sites that are stored in v1alpha1, and an operator that reads v1, which is stored since."""
    directory = tmp_path_factory.mktemp("conversion")
    files = issue(directory)
    shutil.copy(files.certificate("kube-apiserver"), directory / "tls.crt")
    shutil.copy(files.key("kube-apiserver"), directory / "tls.key")
    [port] = free_ports(1)
    namespace = cluster.create_namespace("sites")
    found = Sites(cluster, namespace, f"https://127.0.0.1:{port}/convert", files.authority.read_bytes())
    found.store("v1alpha1")
    until(lambda: found.kubectl("get", "sites.v1alpha1.conversion.example.dev") == "", "v1alpha1 is served")
    found.create("first", "v1alpha1", OLD)
    found.create("second", "v1alpha1", {**OLD, "count": 5})
    found.store("v1")
    flags = ["--conversion-address", f"127.0.0.1:{port}", "--conversion-cert-dir", str(directory)]
    with OperatorProcess(cluster, directory / "log", MODULE, *flags) as operator:
        found.operator = operator
        yield found
        cluster.request("DELETE", CRD)  # the server converts what it deletes
        until(lambda: Site.resource.name not in cluster.kubectl("get", "crd", "-o", "name"), "the CRD is gone")
    cluster.delete_namespace(namespace)


def migrate(sites: Sites) -> subprocess.CompletedProcess[str]:
    command = [*(sys.executable, "-m", "konverge", "crds", Site.__module__), "--migrate"]
    command += ["--kubeconfig", str(sites.cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_operator_starts_on_objects_that_only_it_can_convert(sites: Sites) -> None:
    until(lambda: sites.get("second", "v1").get("status", {}).get("readyReplicas") == 5, "it reported on `second`")
    assert sites.get("second", "v1alpha1")["status"]["readyReplicas"] == 5


def test_kubectl_gets_each_version(sites: Sites) -> None:
    new = json.loads(sites.kubectl("get", "sites.v1.conversion.example.dev", "first", "-o", "json"))
    assert new["spec"] == {"image": "a", "replicas": 500, "ports": [{"name": "web", "number": 80, "tls": False}]}
    old = json.loads(sites.kubectl("get", "sites.v1alpha1.conversion.example.dev", "first", "-o", "json"))
    assert old["spec"] == OLD
    remembered = json.loads(old["metadata"]["annotations"][ANNOTATION])
    assert remembered == {"v1": [{"path": ["spec", "ports", {"name": "web"}, "tls"], "value": False}]}
    assert list(json.loads(new["metadata"]["annotations"][ANNOTATION])) == ["v1alpha1"]


@pytest.mark.parametrize(
    ("version", "other", "spec"),
    [
        ("v1alpha1", "v1", OLD),
        ("v1alpha1", "v1", {"image": "b", "count": 0}),
        ("v1", "v1alpha1", {"image": "c", "patience": "90s", "tags": ["x", "y"], "replicas": 3}),
        (
            "v1",
            "v1alpha1",
            {"image": "d", "ports": [{"name": "a", "number": 1, "tls": True}, {"name": "b", "number": 2}]},
        ),
    ],
)
def test_a_round_trip_loses_nothing(sites: Sites, version: str, other: str, spec: dict[str, Any]) -> None:
    name = f"trip-{spec['image']}"
    written = sites.create(name, version, spec)["spec"]
    sites.edit(name, other, lambda there: there.update(image="edited"))
    assert sites.get(name, version)["spec"] == {**written, "image": "edited"}


@pytest.mark.parametrize("how", [["--server-side"], []])
def test_applying_the_old_version_again_changes_nothing(sites: Sites, how: list[str]) -> None:
    name = f"applied{len(how)}"
    spec = json.dumps({
        "apiVersion": "conversion.example.dev/v1alpha1", "kind": "Site", "metadata": {"name": name}, "spec": OLD,
    })  # fmt: skip
    sites.kubectl("apply", *how, "-f", "-", input=spec)
    until(lambda: sites.get(name, "v1")["status"]["observedGeneration"] == 1, "the operator has looked at it")
    before = sites.get(name, "v1")
    sites.kubectl("apply", *how, "-f", "-", input=spec)
    assert sites.kubectl("diff", *how, "-f", "-", input=spec) == ""
    assert sites.get(name, "v1") == before
    assert ANNOTATION in before["metadata"]["annotations"]


def test_a_deprecated_version_warns_and_is_not_the_default(sites: Sites) -> None:
    assert sites.kubectl("get", "site", "first", "-o", "jsonpath={.apiVersion}") == "conversion.example.dev/v1"
    versions = {each["name"]: each for each in sites.cluster.request("GET", CRD)["spec"]["versions"]}
    assert versions["v1alpha1"]["deprecationWarning"] == "use conversion.example.dev/v1"


def test_an_old_value_out_of_todays_bounds_can_stay_while_the_rest_is_edited(sites: Sites) -> None:
    assert sites.edit("first", "v1", lambda spec: spec.update(image="new"))["spec"]["replicas"] == 500
    with pytest.raises(Invalid, match=r"spec.replicas: Invalid value: 501: .* less than or equal to 10"):
        sites.edit("first", "v1", lambda spec: spec.update(replicas=501))
    assert sites.get("first", "v1alpha1")["spec"] == {**OLD, "image": "new"}


def test_migration_rewrites_what_is_stored_and_trims_the_list(sites: Sites) -> None:
    sites.store("v1alpha1")
    sites.create("stored-old", "v1", {"image": "x", "replicas": 2, "tags": ["kept"]})
    sites.store("v1")
    assert sorted(sites.stored) == ["v1", "v1alpha1"]
    before = sites.get("stored-old", "v1")
    done = migrate(sites)
    assert done.returncode == 0, done.stderr
    assert "objects are stored as v1, storedVersions is trimmed" in done.stdout
    assert sites.stored == ["v1"]
    after = sites.get("stored-old", "v1")
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])
    again = migrate(sites)
    assert (again.returncode, again.stdout) == (0, "sites.conversion.example.dev: everything is stored as v1\n")

    # What is stored in v1 needs no webhook any more: the proof that nothing else is in etcd.
    sites.operator.stop()
    names = json.loads(sites.kubectl("get", "sites.v1.conversion.example.dev", "-o", "json"))["items"]
    assert {"first", "stored-old"} <= {each["metadata"]["name"] for each in names}
    with pytest.raises(ApiError, match=r"conversion webhook for conversion.example.dev/v1, Kind=Site failed"):
        sites.get("first", "v1alpha1")
    sites.operator.start()
    assert sites.get("first", "v1alpha1")["spec"]["colour"] == "red"
