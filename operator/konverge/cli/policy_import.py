"""`konverge policy import`: a file with kube-scheduler's configuration flows in, SchedulingPolicies as YAML flow out."""

from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from konverge.controllers.scheduling_policy.importing import import_configuration
from konverge.errors import ConfigError
from konverge.model.render import render
from konverge.scheduler.registry import Registry


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    help="Give the profile OLD another schedulerName; default-scheduler needs one. Repeatable.",
)
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of printing."
)
def import_(file: Path, renames: Sequence[str], output: Path | None) -> None:
    """Print the SchedulingPolicies that place pods as the KubeSchedulerConfiguration in FILE (- for stdin) does.

    Each profile becomes a policy. What has no counterpart is told: on stderr where it does not decide where pods go, else
    as an error.
    """
    found = import_configuration(_read(file), Registry.default(), dict(map(pair_of, renames)))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    text = "---\n".join(render(policy) for policy in found.policies)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text)


def _read(file: Path) -> object:
    try:
        with click.open_file(str(file)) as stream:
            content: object = yaml.safe_load(stream)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no YAML: {error}") from error
    return content


def pair_of(text: str) -> tuple[str, str]:
    """The two names of a --rename. Raises: ConfigError."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise ConfigError(f"--rename {text!r}: write OLD=NEW")
    return old, new
