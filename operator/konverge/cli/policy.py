"""`konverge policy`: commands about SchedulingPolicies, each in a module of its own."""

from typing import Final

import click

from konverge.cli.lazy import Lazy, LazyGroup

_COMMANDS: Final = {
    "import": Lazy("konverge.cli.policy_import", "import_", "Make policies from a KubeSchedulerConfiguration."),
    "simulate": Lazy("konverge.cli.policy_simulate", "simulate", "Show where policies would place the pods that wait."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def policy() -> None:
    """Make SchedulingPolicies, and try them."""
