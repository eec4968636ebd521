"""`konverge states`: a custom resource's state machine as a diagram."""

import click

from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.errors import ConfigError


@click.command()
@click.argument("kind")
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
def states(kind: str, modules: tuple[str, ...]) -> None:
    """Print the state machine of KIND as a Mermaid diagram; KIND is looked for in the MODULEs, or the built-in ones."""
    resources = {cls.resource.kind.lower(): cls for cls in resource_classes(modules or BUILT_IN)}
    found = resources.get(kind.lower())
    if found is None:
        raise ConfigError(f"no kind {kind!r}; known: {', '.join(cls.resource.kind for cls in resources.values())}")
    if found.phases is None:
        raise ConfigError(f"{found.resource.kind} declares no phases")
    click.echo(found.phases.mermaid(), nl=False)
