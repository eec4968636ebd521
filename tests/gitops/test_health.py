"""The health scripts, in Argo CD's own Lua: every row of the status contract, for every resource."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from yaml import safe_load

from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.model.custom import CustomResource
from tests.gitops.program import Program
from tests.gitops.repository import ROOT
from tests.oracles.kstatus import Health, compute

HEALTH = ROOT / "config" / "argocd" / "health"
KINDS = resource_classes(BUILT_IN)

CONTRACT = {
    "created": ("Progressing", Health.IN_PROGRESS),
    "working": ("Progressing", Health.IN_PROGRESS),
    "failing": ("Progressing", Health.IN_PROGRESS),
    "failed": ("Degraded", Health.FAILED),
    "done": ("Healthy", Health.CURRENT),
    "edited": ("Progressing", Health.IN_PROGRESS),
    "suspended": ("Suspended", Health.CURRENT),
}
"""Each state of the status contract, with Argo CD's word for it and kstatus's."""


def directory_of(kind: type[CustomResource[Any, Any]]) -> Path:
    return HEALTH / kind.resource.group / kind.resource.kind


def cases(kind: type[CustomResource[Any, Any]]) -> Iterator[tuple[Path, dict[str, str]]]:
    """What health_test.yaml lists: an object's file, and what shall be said of it."""
    for test in safe_load((directory_of(kind) / "health_test.yaml").read_text())["tests"]:
        yield directory_of(kind) / test["inputPath"], test["healthStatus"]


each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)


@each_kind
def test_the_script_says_what_its_cases_say(program: Program, kind: type[CustomResource[Any, Any]]) -> None:
    files, expected = zip(*cases(kind), strict=True)
    said = program.run("lua-health", str(directory_of(kind) / "health.lua"), *map(str, files))
    assert dict(zip(files, json.loads(said), strict=True)) == dict(zip(files, expected, strict=True))


@each_kind
def test_the_cases_have_every_row_of_the_status_contract(kind: type[CustomResource[Any, Any]]) -> None:
    listed = {file.stem: (health["status"], compute(safe_load(file.read_text()))) for file, health in cases(kind)}
    assert {name: listed[name] for name in CONTRACT} == CONTRACT
    assert {file.name for file in (directory_of(kind) / "testdata").iterdir()} == {f"{name}.yaml" for name in listed}


@each_kind
def test_the_cases_are_objects_of_their_kind(kind: type[CustomResource[Any, Any]]) -> None:
    for file, _ in cases(kind):
        obj = safe_load(file.read_text())
        assert (obj["apiVersion"], obj["kind"]) == (kind.resource.api_version, kind.resource.kind)
        kind.parse({**obj, "metadata": {**obj["metadata"], "uid": "1", "resourceVersion": "1"}})


def test_all_kinds_have_the_same_script_for_the_contract_is_the_framework_s() -> None:
    assert len({(directory_of(kind) / "health.lua").read_text() for kind in KINDS}) == 1


def test_what_no_script_may_say_is_an_error(program: Program, tmp_path: Path) -> None:
    """The sandbox is the real one: a script that works only outside of it must not pass here."""
    script = tmp_path / "health.lua"
    script.write_text('return { status = string.upper("healthy") }')
    [said] = json.loads(program.run("lua-health", str(script), str(next(cases(KINDS[0]))[0])))
    assert "error" in said


@each_kind
def test_argocd_cm_holds_the_script_under_the_key_of_its_kind(
    program: Program, kind: type[CustomResource[Any, Any]]
) -> None:
    [settings] = [obj for obj in program.build(ROOT / "config" / "argocd") if obj["kind"] == "ConfigMap"]
    key = f"resource.customizations.health.{kind.resource.group}_{kind.resource.kind}"
    assert settings["data"][key] == (directory_of(kind) / "health.lua").read_text()
    assert len(settings["data"]) == len(KINDS)
