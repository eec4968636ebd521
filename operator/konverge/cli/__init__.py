"""The command `konverge` (and `kubectl konverge`). Each subcommand stands in a module of its own and loads when it is called."""

import sys
from typing import Any, Final

import click

from konverge import __version__
from konverge.cli.lazy import Lazy, LazyGroup
from konverge.errors import KonvergeError
from konverge.host import collector

_COMMANDS: Final = {
    "run": Lazy("konverge.cli.run", "run", "Run an operator until it is told to stop."),
    "top": Lazy("konverge.cli.top", "top", "Show controllers with their queues, rates and times, and caches."),
    "queue": Lazy("konverge.cli.queue", "queue", "Show what is processed, ready and delayed in the work queues."),
    "explain": Lazy("konverge.cli.explain", "explain", "Tell all about one object, and why it is as it is."),
    "doctor": Lazy("konverge.cli.doctor", "doctor", "Check cluster, CRDs, permissions, webhooks and leases."),
    "demo": Lazy("konverge.cli.demo", "demo", "Show Konverge at work on a local Kubernetes."),
    "cluster": Lazy("konverge.cli.cluster", "cluster", "A real Kubernetes control plane on this machine."),
    "new": Lazy("konverge.cli.new", "new", "Make a project for an operator, with tests and manifests."),
    "crds": Lazy("konverge.cli.crds", "crds", "Write CustomResourceDefinitions from models; migrate stored objects."),
    "rbac": Lazy("konverge.cli.crds", "rbac", "Print the least roles that reconcilers need, or roles for people."),
    "webhooks": Lazy("konverge.cli.webhooks", "webhooks", "Print the manifests of admission webhooks."),
    "dashboard": Lazy("konverge.cli.dashboard", "dashboard", "Print a Grafana dashboard with every metric."),
    "policy": Lazy("konverge.cli.policy", "policy", "Make SchedulingPolicies, and try them."),
    "states": Lazy("konverge.cli.states", "states", "Print a kind's state machine as a Mermaid diagram."),
    "completion": Lazy("konverge.cli.completion", "completion", "Print the completion script of a shell."),
}


@click.group(
    cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
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
