"""The tutorial shows the example as it is; tests/e2e/test_tutorial.py runs every block of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tutorial import Block, blocks, commands

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorial.md"


def test_its_files_are_the_example_and_its_tests() -> None:
    shown = {block.title: block.text for block in blocks(PAGE.read_text()) if block.title.endswith(".py")}
    tests = (ROOT / "examples" / "test_tenant.py").read_text()
    assert shown == {
        "tenant.py": (ROOT / "examples" / "tenant.py").read_text(),
        "test_tenant.py": tests.replace("from examples.tenant import", "from tenant import"),
    }


def test_its_manifests_are_what_the_code_says() -> None:
    example, manifests = ROOT / "examples" / "tenant.py", ROOT / "examples" / "manifests" / "tenant"
    for command in (
        ["crds", str(example), "--dir", str(manifests), "--check"],
        [
            "rbac",
            str(example),
            "--name",
            "tenants",
            "--no-leader-election",
            "--output",
            str(manifests / "role.yaml"),
            "--check",
        ],
    ):
        subprocess.run([sys.executable, "-m", "konverge", *command], check=True)


def test_the_example_is_under_forty_lines() -> None:
    assert len((ROOT / "examples" / "tenant.py").read_text().splitlines()) < 40


def test_every_block_is_a_file_or_commands() -> None:
    assert {block.language for block in blocks(PAGE.read_text()) if not block.title} == {"console"}


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_a_block_that_nobody_would_run_is_an_error() -> None:
    with pytest.raises(ValueError, match="not understood"):
        blocks("```\nlost\n```\n")


def test_a_command_goes_with_its_output() -> None:
    assert list(commands(Block("console", "", "$ a\n1\n2\n$ b\n"))) == [("a", "1\n2\n"), ("b", "")]
