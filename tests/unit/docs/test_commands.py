"""The commands that the pages show: konverge's can be parsed, make's targets exist, and so do the paths that are named."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from konverge.cli import cli
from tests.tutorial import blocks, commands

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN = re.compile(r"^(?:config|examples|docs|bench)/[\w./-]+$")


def words_of(page: Path) -> Iterator[list[str]]:
    """Each command of the page's console blocks as its words; what is joined by pipes and && is several."""
    for block in blocks(page.read_text()):
        for command, _ in commands(block) if block.language == "console" else ():
            lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;")
            lexer.whitespace_split = True
            words: list[str] = []
            for token in [*lexer, ";"]:
                if not set(token) <= set("|&;"):
                    words.append(token)
                    continue
                while words and re.match(r"\w+=", words[0]):
                    words = words[1:]  # VARIABLE=value before the command
                if words:
                    yield words
                words = []


SHOWN = [words for page in PAGES for words in words_of(page)]


def parsed(words: list[str]) -> None:
    """Have click read a command line as far as it is read without running anything. Raises: click.UsageError."""
    command: click.Command = cli
    context = click.Context(cli)
    rest = words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            raise click.UsageError(f"no command {rest[0]}")
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context)
    command.make_parser(context).parse_args(list(rest))


@pytest.mark.parametrize("words", [words for words in SHOWN if words[0] == "konverge"], ids=" ".join)
def test_what_is_asked_of_konverge_can_be_parsed(words: list[str]) -> None:
    parsed(words[1:])


def test_targets_and_paths_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {words[1] for words in SHOWN if words[0] == "make" and len(words) > 1} <= targets
    named = {word for words in SHOWN for word in words if OWN.match(word)}
    assert named >= {"config/argocd", "examples/web.py"}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_a_wrong_option_would_be_seen() -> None:
    with pytest.raises(click.UsageError, match="No such option"):
        parsed(["run", "--leader-elects"])
    with pytest.raises(click.UsageError, match="no command"):
        parsed(["walk"])
