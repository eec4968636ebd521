"""The README says what is: its operator is the example that the tests run, its links lead somewhere, its commands exist."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from konverge.cli import cli

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "ARCHITECTURE.md")


def test_the_operator_is_the_example_but_for_its_docstring() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    example = (ROOT / "examples" / "web.py").read_text()
    assert blocks == [example.split("\n\n", 1)[1]]
    assert len(example.splitlines()) < 40


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    missing = [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
    assert missing == []


def test_the_named_commands_exist() -> None:
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"konverge (?:crds|run|demo|cluster|rbac|states)\b", text))
    assert named
    for command in named:
        result = CliRunner().invoke(cli, [command.split()[1], "--help"])
        assert result.exit_code == 0, result.output


def test_the_named_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z0-9-]+)", (ROOT / "README.md").read_text()))
    assert named <= targets


def test_operator_is_a_source_root_and_never_a_package() -> None:
    """With an operator/__init__.py, `import operator` would find this folder, and `import collections` would fail."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert (ROOT / "operator" / "konverge" / "__init__.py").exists()


def test_no_module_is_too_long() -> None:
    long = [path for path in (ROOT / "operator").rglob("*.py") if len(path.read_text().splitlines()) > 500]
    assert long == []
