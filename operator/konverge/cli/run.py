"""`konverge run`: flags and modules in, a running operator out."""

import sys
from typing import Literal

import click

from konverge.app import DEFAULT_LEASE, App, Settings
from konverge.cli.discovery import BUILT_IN, reconcilers_in
from konverge.host.logs import LogOptions
from konverge.host.modules import load_modules


@click.command()
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
    "--metrics-address", default="127.0.0.1:8080", show_default=True, help="Where /metrics is served; 0 for nowhere."
)
@click.option(
    "--probe-address",
    default="127.0.0.1:8081",
    show_default=True,
    help="Where /healthz and /readyz are served; 0 for nowhere.",
)
@click.option("--sync-timeout", default=120.0, show_default=True, help="Seconds until every cache must have listed.")
@click.option("--shutdown-budget", default=30.0, show_default=True, help="Seconds that running reconciles get to end.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def run(
    modules: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    *,
    leader_elect: bool,
    lease_name: str,
    lease_namespace: str,
    metrics_address: str,
    probe_address: str,
    sync_timeout: float,
    shutdown_budget: float,
    log_format: Literal["text", "json"],
    log_level: str,
) -> None:
    """Run an operator until it is told to stop.

    MODULE is a Python file or a dotted name with Reconciler subclasses, plain kopf handlers, or both; without one,
    Konverge's own operator runs (Database and SchedulingPolicy).
    """
    loaded = load_modules(modules or BUILT_IN)
    settings = Settings(
        kubeconfig=kubeconfig,
        context=context,
        namespaces=namespaces,
        leader_elect=leader_elect,
        lease_name=lease_name,
        lease_namespace=lease_namespace,
        metrics_address=metrics_address,
        probe_address=probe_address,
        sync_timeout=sync_timeout,
        shutdown_budget=shutdown_budget,
        logs=LogOptions(format=log_format, level=log_level),
    )
    sys.exit(App(settings, reconcilers_in(loaded.modules), loaded).run())
