"""`konverge new` makes a project that is right as it comes: typed, linted, tested, its generated files up to date."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from konverge.cli.new import MAX_KIND, MAX_NAME, checked, make, new
from konverge.errors import ConfigError


def run(project: Path, *command: str) -> str:
    """A Python tool in the project, as after `pip install --editable .`. Raises: AssertionError with what it said."""
    environment = {**os.environ, "PYTHONPATH": str(project / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def made(path: Path, name: str, kind: str) -> Path:
    result = CliRunner().invoke(new, [name, "--kind", kind, "--group", "acme.dev", "--dir", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"made {path}: {kind} ({kind.lower()}s.acme.dev), package {name}")
    return path


def lint(project: Path) -> None:
    run(project, "ruff", "check", "--no-cache", ".")
    run(project, "ruff", "format", "--no-cache", "--check", ".")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("new") / "project", "greeter", "Greeting")


class TestWhatItMakes:
    def test_is_linted_and_formatted(self, project: Path) -> None:
        lint(project)

    def test_is_so_with_the_longest_names_too(self, tmp_path: Path) -> None:
        lint(made(tmp_path / "long", "n" * MAX_NAME, "K" * MAX_KIND))

    def test_is_typed(self, project: Path, tmp_path: Path) -> None:
        assert "no issues found" in run(project, "mypy", "--strict", f"--cache-dir={tmp_path}")

    def test_has_tests_that_pass(self, project: Path) -> None:
        said = run(project, "pytest", "-q", "-p", "no:cacheprovider", "-m", "not e2e")
        assert "8 passed, 1 deselected" in said

    def test_has_generated_files_that_are_up_to_date(self, project: Path) -> None:
        [package] = [path.name for path in (project / "src").iterdir()]
        makefile = (project / "Makefile").read_text()
        commands = [line.split("/konverge ")[1] for line in makefile.splitlines() if line.endswith("--check")]
        assert len(commands) == 3
        for command in commands:
            run(project, "konverge", *command.split())
        assert package in commands[0]

    def test_has_manifests_that_speak_of_one_operator(self, project: Path) -> None:
        config = project / "config"
        named = yaml.safe_load((config / "kustomization.yaml").read_text())["resources"]
        assert all((config / each).exists() for each in named)
        found = [doc for path in config.rglob("*.yaml") for doc in yaml.safe_load_all(path.read_text())]
        homes = {doc["metadata"]["namespace"] for doc in found if "namespace" in doc.get("metadata", {})}
        assert len(homes) == 1
        roles = {doc["metadata"]["name"] for doc in found if doc["kind"] in {"Role", "ClusterRole"}}
        assert {doc["roleRef"]["name"] for doc in found if "roleRef" in doc} <= roles


def test_a_kind_is_guessed_from_the_name(tmp_path: Path) -> None:
    result = CliRunner().invoke(new, ["web-sites", "--dir", str(tmp_path / "web")], catch_exceptions=False)
    assert "WebSite (websites.demo.dev), package web_sites" in result.output


@pytest.mark.parametrize("there", ["a file in it", "a file"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    project = tmp_path / "project"
    kept = project if there == "a file" else project / "notes.txt"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not an empty directory; nothing is overwritten"):
        make(project, checked("greeter", "acme.dev", "Greeting"))
    assert kept.read_text() == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]


@pytest.mark.parametrize(
    ("name", "group", "kind", "why"),
    [
        ("Greeter", "acme.dev", "Greeting", "name 'Greeter': must be lower-case letters"),
        ("1st", "acme.dev", "Greeting", "begin with a letter"),
        ("x-", "acme.dev", "Greeting", "end with a letter"),
        ("x" * 41, "acme.dev", "Greeting", "at most 40 characters"),
        ("../x", "acme.dev", "Greeting", "must be lower-case letters"),
        ("json", "acme.dev", "Greeting", "the package json would hide a part of Python"),
        ("class", "acme.dev", "Greeting", "would hide a part of Python"),
        ("yaml", "acme.dev", "Greeting", "the package yaml would hide what pyyaml installs"),
        ("greeter", "acme.dev", "greeting", "kind 'greeting': must be CamelCase"),
        ("greeter", "acme.dev", "Greeting-1", "must be CamelCase"),
        ("greeter", "acme.dev", "ConfigMap", "imports something of that name"),
        ("greeter", "acme.dev", "None", "imports something of that name"),
        ("greeter", "acme", "Greeting", "group 'acme': must be a domain of yours"),
        ("greeter", "apps.k8s.io", "Greeting", "not below k8s.io"),
        ("greeter", "Acme.dev", "Greeting", "in lower case"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(name: str, group: str, kind: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        checked(name, group, kind)
