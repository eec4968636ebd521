"""`konverge states`: a custom resource's state machine as a diagram."""

import click

from konverge.cli.candidates import own_kinds
from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.errors import ConfigError
from konverge.runtime.debug import names_of


@click.command()
@click.argument("kind", shell_complete=own_kinds)
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
def states(kind: str, modules: tuple[str, ...]) -> None:
    """Print the state machine of KIND as a Mermaid diagram; KIND is looked for in the MODULEs, or the built-in ones.

    KIND is any name of the resource: its kind, plural or short name.
    """
    classes = resource_classes(modules or BUILT_IN)
    found = next((cls for cls in classes if kind.lower() in names_of(cls)), None)
    if found is None:
        known = ", ".join(cls.resource.kind for cls in classes)
        where = f"in {', '.join(modules)}" if modules else "of Konverge's own"
        raise ConfigError(
            f"no kind {kind!r} {where} (known: {known}); name the module it is in: konverge states {kind} MODULE"
        )
    if found.phases is None:
        raise ConfigError(f"{found.resource.kind} declares no phases; add phases=[Phase(...)] to its class line")
    click.echo(found.phases.mermaid(), nl=False)
