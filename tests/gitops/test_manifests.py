"""config/argocd and config/flux, as far as they can be judged without a cluster."""

from pathlib import Path
from typing import Any

import pytest
from yaml import safe_load_all

from tests.gitops.manifests import annotations_of, options_of, wave_of
from tests.gitops.program import Program
from tests.gitops.repository import PUBLISHED_URL, ROOT, Repository

CONFIG = ROOT / "config"
BASES = ["default", *(f"overlays/{path.name}" for path in sorted((CONFIG / "overlays").glob("*")))]
CUSTOM = {"Database", "SchedulingPolicy"}
WAVES = {
    "Namespace": -3,
    "CustomResourceDefinition": -2,
    "ServiceAccount": -1,
    "ClusterRole": -1,
    "ClusterRoleBinding": -1,
    "Role": -1,
    "RoleBinding": -1,
    "ValidatingWebhookConfiguration": 1,
    "MutatingWebhookConfiguration": 1,
}
"""When each kind is applied; all others in wave 0, with the operator."""


def only(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


def is_allowed(argocd: list[dict[str, Any]], obj: dict[str, Any]) -> bool:
    """Whether the AppProject lets an Application have that object."""
    [project] = only(argocd, "AppProject")
    if namespace := obj["metadata"].get("namespace"):
        return namespace in {each["namespace"] for each in project["spec"]["destinations"]}
    kind = {"group": obj["apiVersion"].rpartition("/")[0], "kind": obj["kind"]}
    return kind in project["spec"]["clusterResourceWhitelist"]


@pytest.fixture(scope="module")
def argocd(program: Program) -> list[dict[str, Any]]:
    return program.build(CONFIG / "argocd")


@pytest.fixture(scope="module")
def flux(program: Program) -> list[dict[str, Any]]:
    return program.build(CONFIG / "flux")


# Argo CD


def test_the_applications_keep_to_their_project(program: Program, argocd: list[dict[str, Any]]) -> None:
    [project] = only(argocd, "AppProject")
    assert project["spec"]["sourceRepos"] == [PUBLISHED_URL]
    for application in only(argocd, "Application"):
        spec = application["spec"]
        assert spec["project"] == project["metadata"]["name"]
        assert spec["source"]["repoURL"] == PUBLISHED_URL
        assert spec["destination"] in project["spec"]["destinations"]
        built = program.build(ROOT / spec["source"]["path"])
        assert [obj["kind"] for obj in built if not is_allowed(argocd, obj)] == []


def test_the_applications_apply_and_compare_on_the_server(argocd: list[dict[str, Any]]) -> None:
    applications = only(argocd, "Application")
    assert len(applications) == 2
    for application in applications:
        assert "ServerSideApply=true" in application["spec"]["syncPolicy"]["syncOptions"]
        compared = annotations_of(application)["argocd.argoproj.io/compare-options"]
        assert compared.split(",") == ["ServerSideDiff=true", "IncludeMutationWebhook=true"]


@pytest.mark.parametrize("base", BASES)
def test_every_kind_has_its_wave_and_its_place_in_the_project(
    program: Program, argocd: list[dict[str, Any]], tmp_path: Path, base: str
) -> None:
    """Also of an overlay, which somebody may name in place of config/default."""
    repository = Repository(tmp_path / "repository")
    repository.edit("config/argocd/operator/kustomization.yaml", "../../default", f"../../{base}")
    built = program.build(repository.directory / "config" / "argocd" / "operator")
    assert {(obj["kind"], wave_of(obj)) for obj in built} == {(obj["kind"], WAVES.get(obj["kind"], 0)) for obj in built}
    assert [obj["kind"] for obj in built if not is_allowed(argocd, obj)] == []


def test_webhooks_come_last_and_resources_after_the_operator(program: Program, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    default = repository.directory / "config" / "default" / "kustomization.yaml"
    default.write_text(f"{default.read_text()}components:\n- ../webhook\n")
    built = program.build(repository.directory / "config" / "argocd" / "operator")
    assert {wave_of(obj) for obj in built if obj["kind"].endswith("WebhookConfiguration")} == {1}
    resources = program.build(repository.directory / "config" / "argocd" / "resources")
    assert {wave_of(obj) for obj in resources} == {2}


def test_no_crd_would_go_without_a_persons_consent(program: Program) -> None:
    crds = only(program.build(CONFIG / "argocd" / "operator"), "CustomResourceDefinition")
    assert {obj["spec"]["names"]["kind"] for obj in crds} == CUSTOM
    assert [options_of(crd) for crd in crds] == [{"Prune=confirm", "Delete=confirm"}] * len(crds)


def test_resources_may_come_before_their_crds(program: Program) -> None:
    resources = program.build(CONFIG / "argocd" / "resources")
    assert {obj["kind"] for obj in resources} >= CUSTOM
    assert all("SkipDryRunOnMissingResource=true" in options_of(obj) for obj in resources)


# Flux


def test_flux_waits_for_the_operator_and_then_for_the_resources(flux: list[dict[str, Any]]) -> None:
    """`wait` has every object that was applied judged by kstatus."""
    operator, resources = only(flux, "Kustomization")
    assert [each["apiVersion"] for each in (operator, resources)] == ["kustomize.toolkit.fluxcd.io/v1"] * 2
    assert [each["spec"]["wait"] for each in (operator, resources)] == [True, True]
    assert resources["spec"]["dependsOn"] == [{"name": operator["metadata"]["name"]}]
    assert {each["metadata"]["namespace"] for each in flux} == {"flux-system"}


def test_flux_takes_what_there_is_from_the_repository(program: Program, flux: list[dict[str, Any]]) -> None:
    [source] = only(flux, "GitRepository")
    assert source["spec"]["url"] == PUBLISHED_URL
    built: set[str] = set()
    for each in only(flux, "Kustomization"):
        assert each["spec"]["sourceRef"] == {"kind": "GitRepository", "name": source["metadata"]["name"]}
        built |= {obj["kind"] for obj in program.build(ROOT / each["spec"]["path"])}
    assert built >= {"CustomResourceDefinition", "Deployment", *CUSTOM}


def test_flux_prunes_no_crd(flux: list[dict[str, Any]]) -> None:
    operator, _ = only(flux, "Kustomization")
    [patch] = operator["spec"]["patches"]
    assert patch["target"] == {"kind": "CustomResourceDefinition"}
    [patched] = safe_load_all(patch["patch"])
    assert annotations_of(patched) == {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
