"""A refusal in the API server's own words becomes the rule that would have allowed the call."""

from pathlib import Path

import pytest
import yaml

from konverge.cache.advice import explain, missing_rule, with_rule
from konverge.errors import ApiError
from konverge.model.resource import ResourceType
from konverge.ports import Scope

WEB = ResourceType("demo.dev", "v1", "Web", "webs")
WHO = 'User "system:serviceaccount:shop:op"'
IN_SHOP = ' in the namespace "shop"'


def forbidden(message: str) -> ApiError:
    return ApiError.of(403, "Forbidden", message)


@pytest.mark.parametrize(
    ("message", "where", "rule"),
    [
        (
            f'statefulsets.apps "a" is forbidden: {WHO} cannot patch resource "statefulsets" in API group "apps"{IN_SHOP}',
            "the ClusterRole, or of the Role in namespace shop",
            {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["patch"]},
        ),
        (
            f'secrets is forbidden: {WHO} cannot create resource "secrets" in API group ""{IN_SHOP}',
            "the ClusterRole, or of the Role in namespace shop",
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        ),
        (
            f'webs.demo.dev "a" is forbidden: {WHO} cannot patch resource "webs/status" in API group "demo.dev"{IN_SHOP}',
            "the ClusterRole, or of the Role in namespace shop",
            {"apiGroups": ["demo.dev"], "resources": ["webs/status"], "verbs": ["patch"]},
        ),
        (
            f'namespaces "a" is forbidden: {WHO} cannot delete resource "namespaces" in API group "" at the cluster scope',
            "the ClusterRole",
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["delete"]},
        ),
        (
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
            "the ClusterRole or Role",
            {"apiGroups": ["demo.dev"], "resources": ["webs/finalizers"], "verbs": ["update"]},
        ),
    ],
    ids=["a child", "the core group", "a subresource", "no namespace", "an owner reference"],
)
def test_the_rule_is_named_as_it_stands_in_a_role(message: str, where: str, rule: dict[str, list[str]]) -> None:
    head, _, lines = missing_rule(forbidden(message), WEB).partition("\n")
    assert head == f"Add to the rules of {where}:"
    assert yaml.safe_load(lines) == [rule]


@pytest.mark.parametrize(
    "error",
    [
        forbidden("exceeded quota: tenant, requested: pods=1, used: pods=5, limited: pods=5"),
        ApiError.of(409, "Conflict", 'cannot patch resource "webs" in API group "demo.dev"'),
        TimeoutError(),
    ],
    ids=["a quota", "another status", "no answer"],
)
def test_what_is_not_about_rbac_gets_no_rule(error: Exception) -> None:
    assert missing_rule(error, WEB) == ""
    assert with_rule(error, WEB, 1000) == (str(error) or "TimeoutError")


def test_a_long_message_is_cut_and_the_rule_is_not() -> None:
    error = forbidden(f'{"x" * 500}: {WHO} cannot get resource "pods" in API group ""')
    told = with_rule(error, WEB, 200)
    assert len(told) == 200
    assert told.endswith(missing_rule(error, WEB))


def test_a_crd_that_is_not_installed_is_written_first_where_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    apply = "kubectl apply --server-side -f crds/demo.dev_webs.yaml"
    missing = ApiError.of(404, "NotFound", "no")
    assert explain(missing, WEB, Scope()).endswith(
        f"Install its CustomResourceDefinition: konverge crds MODULE, then {apply}"
    )
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "demo.dev_webs.yaml").touch()
    assert explain(missing, WEB, Scope()).endswith(f"Install its CustomResourceDefinition: {apply}")
