"""`konverge completion`: the script with which a shell completes the command; and what kubectl asks for its plugin."""

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

_VARIABLE: Final = "_KONVERGE_COMPLETE"
_NO_FILES: Final = ":4"
"""The directive by which kubectl offers no file names besides."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL. For this session: source <(konverge completion bash)."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "konverge", _VARIABLE).source())


def kubectl() -> None:
    """What `kubectl konverge` could go on with: kubectl runs `kubectl_complete-konverge` with the words so far."""
    from konverge.cli import cli  # noqa: PLC0415 - that module knows this one by name

    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "konverge", _VARIABLE).get_completions(words, incomplete):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
