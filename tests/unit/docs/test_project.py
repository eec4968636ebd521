"""The page about a project: what it makes, and that its Applications point to what is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[3] / "docs" / "project.md").read_text()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page's first command makes; it prints what the page shows."""
    where = tmp_path_factory.mktemp("project")
    (block,) = re.findall(r"```console\n\$ konverge (new .*)\n((?:.*\n)*?)```", PAGE)
    command = [sys.executable, "-m", "konverge", *block[0].split()]
    done = subprocess.run(command, cwd=where, check=True, capture_output=True, text=True)
    assert done.stdout == block[1]
    return where / "greeter"


def test_the_table_names_what_is_there(project: Path) -> None:
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]* \|$", PAGE, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 8
    assert [name for name in named if not (project / name).exists()] == []


def test_the_named_make_targets_exist(project: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (project / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make\s([a-z0-9]+)`", PAGE)) <= targets


def test_the_applications_point_to_manifests_of_the_project(project: Path) -> None:
    (text,) = re.findall(r"```yaml title=\"applications.yaml\"\n(.*?)```", PAGE, re.DOTALL)
    operator, resources = yaml.safe_load_all(text)
    assert (project / operator["spec"]["source"]["path"] / "kustomization.yaml").is_file()
    namespace = yaml.safe_load((project / "config" / "namespace.yaml").read_text())["metadata"]["name"]
    assert operator["spec"]["destination"]["namespace"] == namespace
    (sample,) = (project / resources["spec"]["source"]["path"]).glob("*.yaml")
    kind = yaml.safe_load(sample.read_text())
    group = kind["apiVersion"].partition("/")[0]
    assert f"resource.customizations.health.{group}_{kind['kind']}`" in PAGE
