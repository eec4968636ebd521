"""`konverge doctor`: modules and a cluster flow in, what is well and what is not flows out, with what to do about it."""

import asyncio
import re
import sys
from collections.abc import Sequence
from random import Random
from typing import Final

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from konverge.app import DEFAULT_LEASE
from konverge.cli.checks import Finding, Patient, examine
from konverge.cli.crds import declaration_of
from konverge.cli.discovery import BUILT_IN, reconciler_classes
from konverge.cli.text import console
from konverge.errors import ConfigError
from konverge.kube.connect import connect
from konverge.model.meta import Key
from konverge.runtime.clock import SystemClock

MARKS: Final = {"ok": ("ok     ", "green"), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--kubeconfig", type=click.Path(), help="As for `konverge run`.")
@click.option("--context", help="The context of the kubeconfig.")
@click.option(
    "--service-account",
    default="",
    metavar="NAMESPACE:NAME",
    help="Whose permissions to check, also as NAMESPACE/NAME; default: your own. Asking for another's needs"
    " `create subjectaccessreviews`.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether the operator runs with --leader-elect, so that there must be a lease; default: there may be one.",
)
@click.option("--lease-name", default=DEFAULT_LEASE, show_default=True, help="The name of the operator's lease.")
@click.option("--lease-namespace", default="konverge-system", show_default=True, help="The namespace of the lease.")
def doctor(
    modules: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    service_account: str,
    leader_elect: bool | None,
    lease_name: str,
    lease_namespace: str,
) -> None:
    """Check what an operator needs: the cluster, its CRDs, permissions, webhooks and lease, and its objects.

    MODULEs are those of `konverge run`. Nothing is changed. Exits with 1 when there is a problem.
    """
    account = re.fullmatch(r"([^/:]+)[/:]([^/:]+)", service_account)
    if service_account and account is None:
        raise ConfigError(f"--service-account {service_account!r}: write NAMESPACE:NAME, or NAMESPACE/NAME")
    reconcilers = reconciler_classes(modules or BUILT_IN)
    patient = Patient(
        kinds=[reconciler.resource() for reconciler in reconcilers],
        declarations=[declaration_of(reconciler) for reconciler in reconcilers],
        lease=Key(lease_namespace, lease_name),
        account="/".join(account.groups()) if account else "",
        elects=leader_elect,
    )
    findings = asyncio.run(_visit(patient, kubeconfig, context))
    problems = sum(finding.level == "problem" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    click.echo(f"{len(findings)} checks: {problems} problems, {warnings} warnings")
    if problems:
        sys.exit(1)


async def _visit(patient: Patient, kubeconfig: str | None, context: str | None) -> list[Finding]:
    """Look and tell at once. Raises: CredentialsError, ConnectionFailed, which say themselves what was tried."""
    out, findings = console(), []
    async with await connect(kubeconfig, context, clock=SystemClock(), random=Random()) as client:  # noqa: S311 - jitter
        async for finding in examine(client, patient):
            findings.append(finding)
            tell(out, finding)
    return findings


def tell(out: Console, finding: Finding) -> None:
    """One finding, and below it what to do."""
    mark, style = MARKS[finding.level]
    out.print(Text.assemble((mark, style), f"  {finding.area:<11}  {finding.text}"))
    if finding.advice:
        out.print(Padding(Text(finding.advice), (0, 0, 0, 22)))
