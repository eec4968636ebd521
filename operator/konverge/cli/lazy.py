"""Groups of commands whose modules load when a command is called: neither `konverge cluster` nor `--help` loads the operator."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """Where a command is, and what the help of its group says of it."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for. `lazy` says where each is, by its name."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which they were given."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, loaded."""
        found = self._lazy.get(cmd_name)
        if found is None:
            return None
        command: click.Command = getattr(import_module(found.module), found.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in self._lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without loading them, and the group's own options."""
        named = [
            CompletionItem(name, help=each.summary) for name, each in self._lazy.items() if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]
