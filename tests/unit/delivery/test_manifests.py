"""What config/ and crds/ say, read as a reviewer reads them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
OWN_NAMESPACE = "konverge-system"
FOLDERS = ("crd", "rbac", "manager", "default", "samples", "webhook", "certmanager", "network-policy", "prometheus")


def manifests(path: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path.rglob("*.yaml")) if path.is_dir() else [path]:
        yield from (each for each in yaml.safe_load_all(file.read_text()) if isinstance(each, dict))


def kustomizations() -> list[Path]:
    return [path for name in (*FOLDERS, "metrics", "overlays") for path in (CONFIG / name).rglob("kustomization.yaml")]


CRDS = [each for each in manifests(ROOT / "crds") if each["kind"] == "CustomResourceDefinition"]
WEBHOOKS = [
    pytest.param(manifest["kind"], webhook, id=webhook["name"])
    for manifest in manifests(CONFIG / "webhook" / "manifests.yaml")
    for webhook in manifest["webhooks"]
]


def test_the_tree_is_the_one_that_kubebuilder_made_familiar() -> None:
    assert [name for name in FOLDERS if not (CONFIG / name / "kustomization.yaml").is_file()] == []
    overlays = {path.parent.name for path in (CONFIG / "overlays").glob("*/kustomization.yaml")}
    assert overlays == {"kind", "dev", "prod"}


def test_the_page_about_deployment_names_what_there_is() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    folders = set(re.findall(r"`(config/[a-z/-]+)`", page))
    assert folders >= {f"config/{name}" for name in ("default", "overlays/dev", "overlays/kind", "overlays/prod")}
    assert [name for name in folders if not (ROOT / name).is_dir()] == []
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", page)) <= targets


@pytest.mark.parametrize("path", kustomizations(), ids=lambda path: str(path.parent.relative_to(CONFIG)))
def test_a_kustomization_names_every_file_beside_it_and_no_other(path: Path) -> None:
    said = yaml.safe_load(path.read_text())
    named = {entry for field in ("resources", "components") for entry in said.get(field, [])}
    named |= {patch["path"] for patch in said.get("patches", []) if "path" in patch}
    named |= {file for generator in said.get("configMapGenerator", []) for file in generator["files"]}
    beside = {file.name for file in path.parent.iterdir() if file.is_file()} - {path.name}
    assert {name for name in named if not name.startswith("..")} == beside
    assert [name for name in named if not (path.parent / name).exists()] == []


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["metadata"]["name"])
class TestACrd:
    def test_has_a_status_of_its_own(self, crd: dict[str, Any]) -> None:
        assert all("status" in version["subresources"] for version in crd["spec"]["versions"])

    def test_shows_ready_reason_and_age(self, crd: dict[str, Any]) -> None:
        for version in crd["spec"]["versions"]:
            names = [column["name"] for column in version["additionalPrinterColumns"]]
            assert names[-1] == "Age"
            assert {"Ready", "Reason"} <= set(names)

    def test_has_a_short_name_and_our_category_only(self, crd: dict[str, Any]) -> None:
        assert crd["spec"]["names"]["shortNames"]
        assert crd["spec"]["names"]["categories"] == ["konverge"]


class TestTheOperatorsPod:
    def pod(self) -> dict[str, Any]:
        [deployment] = manifests(CONFIG / "manager" / "deployment.yaml")
        spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
        return spec

    def test_writes_to_memory_only_and_can_gain_nothing(self) -> None:
        [container] = self.pod()["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {volume["emptyDir"]["medium"] for volume in self.pod()["volumes"]} == {"Memory"}

    def test_stops_within_its_grace_period(self) -> None:
        from konverge.app import Settings  # noqa: PLC0415 - only this test needs the operator

        assert self.pod()["terminationGracePeriodSeconds"] > Settings().shutdown_budget

    def test_shows_its_metrics_to_nobody_else_by_default(self) -> None:
        [container] = self.pod()["containers"]
        assert "--metrics-address=127.0.0.1:8080" in container["args"]


def test_the_namespace_enforces_what_its_pods_keep() -> None:
    [namespace] = manifests(CONFIG / "manager" / "namespace.yaml")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("folder", ["rbac", "metrics"])
def test_no_rule_gives_more_than_it_says(folder: str) -> None:
    """Webhook configurations, CRDs and roles are not the operator's to change."""
    rules = [
        rule for role in manifests(CONFIG / folder) if role.get("kind", "").endswith("Role") for rule in role["rules"]
    ]
    assert rules
    for rule in rules:
        words = {word for values in rule.values() for word in values}
        assert not any("*" in word for word in words)
        assert not words & {"escalate", "bind", "impersonate"}
        assert not set(rule.get("apiGroups", [])) & {
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "rbac.authorization.k8s.io",
        }


@pytest.mark.parametrize(("kind", "webhook"), WEBHOOKS)
class TestAWebhook:
    def test_is_short_and_has_no_side_effects(self, kind: str, webhook: dict[str, Any]) -> None:
        assert 0 < webhook["timeoutSeconds"] <= 5
        assert webhook["sideEffects"] == "None"

    def test_leaves_our_own_namespace_alone(self, kind: str, webhook: dict[str, Any]) -> None:
        """Else an operator that is down could keep itself from coming back."""
        [own] = [
            each
            for each in webhook["namespaceSelector"]["matchExpressions"]
            if each["key"] == "kubernetes.io/metadata.name" and each["operator"] == "NotIn"
        ]
        assert OWN_NAMESPACE in own["values"]

    def test_that_changes_objects_fails_open(self, kind: str, webhook: dict[str, Any]) -> None:
        assert webhook["failurePolicy"] == "Ignore" or kind == "ValidatingWebhookConfiguration"

    def test_is_asked_only_about_what_it_decides(self, kind: str, webhook: dict[str, Any]) -> None:
        rules = webhook["rules"]
        assert not any("*" in value for rule in rules for field, value in rule.items() if field != "scope")
        assert webhook["matchConditions"]
