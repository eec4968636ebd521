"""`konverge crds` and `konverge rbac`: modules flow in by name, the manifests that their classes call for flow out."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from konverge.cli.discovery import BUILT_IN, reconciler_classes, resource_classes
from konverge.errors import ConfigError
from konverge.model.crd import DEFAULT_SERVICE, ConversionService, check_crds, render, write_crds
from konverge.model.rbac import Declaration, leader_election_role, roles, user_roles
from konverge.runtime.reconciler import Reconciler

USERS_HEADER: Final = "# Written by `konverge rbac --users` from the custom resources; change those instead.\n"
HEADER: Final = "# Written by `konverge rbac` from what the reconcilers declare; change those instead.\n"


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("crds"),
    show_default=True,
    help="Where the files are.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when a file differs from the models.")
@click.option(
    "--conversion-service",
    metavar="NAMESPACE/NAME[:PORT]",
    default=f"{DEFAULT_SERVICE.namespace}/{DEFAULT_SERVICE.name}",
    show_default=True,
    help="The Service that converts, for resources with several versions.",
)
@click.option(
    "--migrate",
    is_flag=True,
    help="Write no files; rewrite the stored objects of a cluster in the storage version, and trim storedVersions.",
)
@click.option("--kubeconfig", type=click.Path(), help="For --migrate: the kubeconfig file.")
@click.option("--context", help="For --migrate: the context of the kubeconfig.")
def crds(
    modules: Sequence[str],
    directory: Path,
    conversion_service: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    check: bool,
    migrate: bool,
) -> None:
    """Write one CustomResourceDefinition a file from the models in MODULEs: Python files or dotted names.

    Without MODULE, those that come with Konverge.
    """
    classes = resource_classes(modules or BUILT_IN)
    if migrate:
        if check:
            raise ConfigError("--check is about files and --migrate about a cluster; give one of them")
        from konverge.cli.migrate import migrate_all  # noqa: PLC0415 - only this needs a client

        migrate_all(classes, kubeconfig, context)
        return
    if kubeconfig or context:
        raise ConfigError("--kubeconfig and --context are for --migrate; files need no cluster")
    service = _service(conversion_service)
    if not check:
        changed = write_crds(classes, directory, service)
        for path in changed:
            click.echo(f"wrote {path}")
        click.echo(f"{len(classes)} CRDs in {directory}, {len(changed)} of them changed")
        return
    problems = check_crds(classes, directory, service)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        asked = f" --conversion-service {conversion_service}" if service != DEFAULT_SERVICE else ""
        again = " ".join(["konverge crds", *modules, f"--dir {directory}{asked}"])
        click.echo(f"{len(problems)} problems; run `{again}` and commit what it writes", err=True)
        sys.exit(1)
    click.echo(f"{len(classes)} CRDs in {directory} are as the models say")


def _service(text: str) -> ConversionService:
    found = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9-]+)(?::([0-9]{1,5}))?", text)
    if found is None:
        raise ConfigError(f"--conversion-service {text!r}: write NAMESPACE/NAME or NAMESPACE/NAME:PORT")
    return ConversionService(found[1], found[2], int(found[3] or DEFAULT_SERVICE.port))


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--name", default="konverge", show_default=True, help="The name of the roles.")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only this namespace: Roles instead of a ClusterRole. Repeatable."
)
@click.option("--leader-election/--no-leader-election", default=True, show_default=True, help="Add the Lease's Role.")
@click.option("--operator-namespace", default="", help="Where the operator itself runs, for the Lease's Role.")
@click.option(
    "--users",
    is_flag=True,
    help="The roles for people instead: admin, editor and viewer of each kind, joined to the cluster's admin, edit and view.",
)
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of printing."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when the --output file is not up to date.")
def rbac(
    modules: Sequence[str],
    name: str,
    namespaces: Sequence[str],
    operator_namespace: str,
    output: Path | None,
    *,
    leader_election: bool,
    users: bool,
    check: bool,
) -> None:
    """Print the least roles with which the reconcilers in MODULEs can work: Python files or dotted names.

    Without MODULE, those that come with Konverge.
    """
    if users:
        kinds = resource_classes(modules or BUILT_IN)
        manifests = [role for cls in kinds for role in user_roles(name, cls.resource, scale=cls.crd.scale is not None)]
    else:
        declarations = [declaration_of(cls) for cls in reconciler_classes(modules or BUILT_IN)]
        manifests = roles(name, declarations, namespaces=namespaces)
        if leader_election:
            manifests.append(leader_election_role(name, operator_namespace, declarations))
    text = (USERS_HEADER if users else HEADER) + "---\n".join(render(manifest) for manifest in manifests)
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        output.write_text(text)
    elif not output.is_file() or output.read_text() != text:
        raise ConfigError(f"{output} is not what the reconcilers declare; run the same without --check and commit it")


def declaration_of(cls: type[Reconciler[Any]]) -> Declaration:
    """What a reconciler's class line says, as plain data for `model.rbac`."""
    return Declaration(
        resource=cls.resource().resource,
        owns=cls.owns,
        watches=tuple(watch.resource for watch in cls.watches),
        reads=tuple(view.resource for view in cls.reads),
        uses_finalizer=cls.uses_finalizer(),
        extra=cls.access,
        home=cls.home,
    )
