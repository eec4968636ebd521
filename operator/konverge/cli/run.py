"""`konverge run`: flags, environment, a file and modules in, a running operator out."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from konverge.app import DEFAULT_LEASE, App, Settings
from konverge.cache.informer import RESYNC
from konverge.cli.config import ConfiguredCommand
from konverge.cli.discovery import BUILT_IN, reconcilers_in
from konverge.host.logs import LogOptions
from konverge.host.modules import load_modules
from konverge.runtime.limits import RetryLimits

_POSITIVE = click.FloatRange(min=0, min_open=True)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=ConfiguredCommand)
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--kubeconfig", type=click.Path(), help="The kubeconfig file; default: KUBECONFIG, the pod's own, ~/.kube/config."
)
@click.option("--context", help="The context of the kubeconfig.")
@click.option(
    "--namespace", "-n", "namespaces", multiple=True, help="Watch this namespace only; may be given several times."
)
@click.option("--leader-elect", is_flag=True, help="Wait for the lease before doing anything; for several replicas.")
@click.option("--lease-name", default=DEFAULT_LEASE, show_default=True, help="The name of the lease.")
@click.option("--lease-namespace", default="", help="The namespace of the lease; default: the pod's or the context's.")
@click.option(
    "--share-scheduling",
    is_flag=True,
    help="With --leader-elect: all replicas place pods, each its share of them, and not only the leader.",
)
@click.option(
    "--metrics-address", default="127.0.0.1:8080", show_default=True, help="Where /metrics is served; 0 for nowhere."
)
@click.option(
    "--metrics-cert-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Serve /metrics over TLS with tls.crt and tls.key of this directory, also when they change.",
)
@click.option(
    "--metrics-auth",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether who reads /metrics must bear a token that the API server knows and allows to; auto: from other machines.",
)
@click.option(
    "--probe-address",
    default="127.0.0.1:8081",
    show_default=True,
    help="Where /healthz and /readyz are served; 0 for nowhere.",
)
@click.option(
    "--debug-address",
    default="0",
    show_default=True,
    help="Where /debug is served, for `konverge top`, `queue` and `explain`: a loopback address, or any with a token;"
    " 0 for nowhere.",
)
@click.option("--debug-token-file", type=_FILE, help="Answer /debug only to those who bear the token in this file.")
@click.option(
    "--webhook-address",
    default="0",
    show_default=True,
    help="Where admission webhooks are served, such as :9443, over TLS; 0 for nowhere.",
)
@click.option(
    "--webhook-cert-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory with tls.crt and tls.key of the webhooks; taken up anew when they change.",
)
@click.option(
    "--conversion-address",
    default="0",
    show_default=True,
    help="Where objects are converted between versions (/convert), such as :9444, over TLS; 0 for nowhere.",
)
@click.option(
    "--conversion-cert-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory with tls.crt and tls.key of the conversion webhook; taken up anew when they change.",
)
@click.option("--sync-timeout", default=120.0, show_default=True, help="Seconds until every cache must have listed.")
@click.option("--shutdown-budget", default=30.0, show_default=True, help="Seconds that running reconciles get to end.")
@click.option("--workers", type=click.IntRange(min=1), help="Objects that each controller reconciles at once.")
@click.option(
    "--resync",
    type=click.FloatRange(min=0),
    default=RESYNC,
    show_default=True,
    help="Seconds after which every object is reconciled again though nothing changed, give or take a tenth; 0: never.",
)
@click.option(
    "--watch-list/--no-watch-list",
    default=True,
    show_default=True,
    help="Take the first list of each cache as the beginning of its watch, where the server can do that.",
)
@click.option(
    "--retry-min-delay", type=_POSITIVE, default=0.005, show_default=True, help="Seconds until the first retry."
)
@click.option(
    "--retry-max-delay", type=_POSITIVE, default=1000.0, show_default=True, help="Seconds that a retry may wait."
)
@click.option("--retry-rate", type=_POSITIVE, default=10.0, show_default=True, help="Retries a second, a controller.")
@click.option(
    "--retry-burst", type=click.IntRange(min=1), default=100, show_default=True, help="Retries that may come at once."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-file", type=_FILE, help="Log to this file; SIGUSR1 opens it anew after a rotation.")
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run an operator until it is told to stop.

    MODULE is a Python file or a dotted name with Reconciler subclasses, plain kopf handlers, or both; without one,
    Konverge's own operator runs (Database and SchedulingPolicy). Every option can also be given as an environment
    variable (--log-level as KONVERGE_LOG_LEVEL), or in the file of --config.
    """
    command = ctx.command
    assert isinstance(command, ConfiguredCommand)
    loaded = load_modules(options["modules"] or BUILT_IN)
    app = App(
        settings_of(options),
        reconcilers_in(loaded.modules),
        loaded,
        config=options["config"],
        reread=lambda: settings_of(command.reparse(ctx)),
    )
    sys.exit(app.run())


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The settings that the command's parameters ask for. Raises: ConfigError."""
    ours = dict(options)
    for name in ("config", "modules"):
        del ours[name]
    logs = LogOptions(level=ours.pop("log_level"), format=ours.pop("log_format"), file=_text(ours.pop("log_file")))
    retries = RetryLimits(**{name: ours.pop(f"retry_{name}") for name in ("min_delay", "max_delay", "rate", "burst")})
    return Settings(**ours, logs=logs, retries=retries)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
