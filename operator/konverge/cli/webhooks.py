"""`konverge webhooks`: modules flow in by name, the webhook configurations that their hooks call for flow out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from konverge.cli.discovery import BUILT_IN, reconciler_classes
from konverge.errors import ConfigError
from konverge.model.intercept import Intercept
from konverge.model.render import render
from konverge.model.review import Hook, hooks_of
from konverge.model.webhooks import configurations

HEADER: Final = """\
# Written by `konverge webhooks` from the hooks of the models; change those instead.
# The annotation has cert-manager put in the CA of that Certificate; without cert-manager, set each caBundle yourself.
"""


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--name", default="konverge", show_default=True, help="The name of the configurations.")
@click.option(
    "--namespace",
    default="konverge-system",
    show_default=True,
    help="Where the operator runs; objects there are not sent to it.",
)
@click.option(
    "--service", default="konverge-webhook", show_default=True, help="The Service in front of --webhook-address."
)
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of printing."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when the --output file is not up to date.")
def webhooks(
    modules: Sequence[str], name: str, namespace: str, service: str, output: Path | None, *, check: bool
) -> None:
    """Print the configurations that make the API server call the hooks of the resources reconciled in MODULEs.

    Without MODULE, those that come with Konverge.
    """
    kinds = reconciler_classes(modules or BUILT_IN)
    resources = {cls.resource() for cls in kinds}
    hooks: list[Hook | Intercept] = [hook for resource in resources for hook in hooks_of(resource)]
    hooks += [hook for cls in kinds for hook in cls.intercepts]
    if not hooks:
        raise ConfigError("no resource has a hook; define validate, validate_delete or default in one")
    manifests = configurations(hooks, name=name, namespace=namespace, service=service)
    text = HEADER + "---\n".join(render(manifest) for manifest in manifests)
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        output.write_text(text)
    elif not output.is_file() or output.read_text() != text:
        raise ConfigError(f"{output} is not what the models declare; run the same without --check and commit it")
