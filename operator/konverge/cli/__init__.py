"""The command `konverge` (and `kubectl konverge`). Each subcommand stands in a module of its own and loads when it is called."""

import sys
from importlib import import_module
from typing import Any, Final

import click

from konverge import __version__
from konverge.errors import KonvergeError
from konverge.host import collector

_COMMANDS: Final = {
    "run": ("konverge.cli.run", "run"),
    "top": ("konverge.cli.top", "top"),
    "queue": ("konverge.cli.queue", "queue"),
    "explain": ("konverge.cli.explain", "explain"),
    "demo": ("konverge.cli.demo", "demo"),
    "cluster": ("konverge.cli.cluster", "cluster"),
    "new": ("konverge.cli.new", "new"),
    "crds": ("konverge.cli.crds", "crds"),
    "rbac": ("konverge.cli.crds", "rbac"),
    "webhooks": ("konverge.cli.webhooks", "webhooks"),
    "states": ("konverge.cli.states", "states"),
}


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it is asked for: `konverge cluster` need not load the operator."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="konverge")
def cli() -> None:
    """Operators for Kubernetes in Python: run them, make their CRDs, and try them on a local cluster."""


def main(args: list[str] | None = None, **extra: Any) -> None:
    """Run the command; an error of ours is one line on stderr and exit code 1, not a traceback."""
    collector.relax()  # already while a command's modules load: that is a tenth of the start
    try:
        cli.main(args, prog_name="konverge", **extra)
    except KonvergeError as error:
        click.echo(f"konverge: {error}", err=True)
        sys.exit(1)
