"""The page about debugging: its tables are those that the command prints, and what it names exists."""

import re

import pytest
from click.testing import CliRunner

from konverge.cli import cli
from konverge.cli.top import CACHES, CONTROLLERS
from tests.unit.docs.test_pages import DOCS

PAGES = [page.name for page in DOCS.glob("*.md")]
COMMAND = re.compile(r"(?:`|\$ |\()konverge ([a-z]+)")


def test_both_tables_of_top_are_shown() -> None:
    lines = [re.split(r" {2,}", line) for line in (DOCS / "debugging.md").read_text().splitlines()]
    assert [*CONTROLLERS] in lines
    assert [*CACHES] in lines


@pytest.mark.parametrize("command", ["doctor", "completion", "cluster status", "states"])
def test_a_command_that_is_easily_missed_is_told_of(command: str) -> None:
    assert [page for page in PAGES if f"konverge {command}" in (DOCS / page).read_text()]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_that_a_page_names_exist(page: str) -> None:
    for name in COMMAND.findall((DOCS / page).read_text()):
        result = CliRunner().invoke(cli, [name, "--help"])
        assert result.exit_code == 0, f"{page} names `konverge {name}`, which there is not"
