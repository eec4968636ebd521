"""The command starts fast: its help and its completion load no subcommand, and say what the subcommands say."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from konverge.cli import cli
from konverge.cli.completion import kubectl
from konverge.cli.lazy import LazyGroup

HEAVY = ("kopf", "kubernetes", "aiohttp", "pydantic", "numpy", "rich", "konverge.app", "konverge.runtime")


def groups() -> list[LazyGroup]:
    """All groups, from the top."""
    found = [cli]
    for group in found:
        context = click.Context(group)
        below = [group.get_command(context, name) for name in group.list_commands(context)]
        found += [each for each in below if isinstance(each, LazyGroup)]
    return found


def loaded_by(*arguments: str, environment: str = "") -> str:
    code = (
        f"import os, sys; os.environ.update({environment or '{}'}); sys.argv = ['konverge', *{list(arguments)!r}]\n"
        "from konverge.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    return done.stderr.strip()


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("policy", "--help"), ("completion", "bash")])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments) == "[]"


def test_completing_a_command_loads_nothing_heavy() -> None:
    asked = {"_KONVERGE_COMPLETE": "bash_complete", "COMP_WORDS": "konverge do", "COMP_CWORD": "1"}
    assert loaded_by(environment=repr(asked)) == "[]"


def test_every_command_loads_and_has_a_summary_of_one_line() -> None:
    for group in groups():
        help_text = CliRunner().invoke(group, ["--help"], terminal_width=110).output
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            assert command is not None
            assert command.name == name
            (line,) = [line for line in help_text.splitlines() if line.startswith(f"  {name} ")]
            assert line.rstrip().endswith(".")
            assert "..." not in line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_KONVERGE_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], "states\tPrint a kind's state machine as a Mermaid diagram.\n:4\n"),
        (["completion", "z"], "zsh\n:4\n"),
    ],
)
def test_kubectl_is_told_how_its_plugin_goes_on(
    words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-konverge", *words])
    kubectl()
    assert capsys.readouterr().out == expected
