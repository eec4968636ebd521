"""`konverge cluster`: a real Kubernetes control plane on this machine, by name; in, flags; out, text and exit codes.

`status` exits with 1 where a cluster is not whole. Errors of our tree become one message and exit code 1.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import NoReturn, ParamSpec, TypeVar

import click

from konverge.errors import ClusterError, KonvergeError
from konverge.testing.cluster import DEFAULT_NAME, DEFAULT_NODES, LocalCluster, cluster_names
from konverge.testing.kubeconfig import write
from konverge.testing.progress import Progress

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _errors_as_text(command: Callable[_P, _T]) -> Callable[_P, _T]:
    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return command(*args, **kwargs)
        except KonvergeError as error:
            raise click.ClickException(str(error)) from error

    return wrapped


def _existing(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in cluster_names() if name.startswith(incomplete)]


_name = click.option(
    "--name",
    default=DEFAULT_NAME,
    show_default=True,
    shell_complete=_existing,
    help="Which cluster; several run side by side.",
)


@click.group()
def cluster() -> None:
    """A real Kubernetes control plane on this machine, for trying things out and for tests."""


@cluster.command()
@_name
@click.option("--nodes", type=click.IntRange(0, 5000), default=DEFAULT_NODES, show_default=True, help="How many nodes.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the kubeconfig to this file; a file that is not ours is left alone.",
)
@_errors_as_text
def up(name: str, nodes: int, kubeconfig: Path | None) -> None:
    """Start a cluster that runs until `down`; one that runs already is left running.

    The first start on a machine compiles the control plane, which takes some minutes.
    """
    _end_on(signal.SIGTERM, signal.SIGHUP)
    progress = Progress(f"Cluster {name}")
    started = LocalCluster(name, nodes=nodes, lifetime="detached", tell=_tell).start()
    if kubeconfig is not None:
        write(kubeconfig, started.kubeconfig.read_text())
    ready, total = started.ready_nodes()
    click.echo(f"Cluster {name} is up after {progress.elapsed:.1f} s: {started.server}, {ready} of {total} nodes ready")
    if started.missing:
        click.echo(f"Not available here, so not running: {', '.join(started.missing)}")
    click.echo(f"  export KUBECONFIG={kubeconfig.absolute() if kubeconfig else started.kubeconfig}")
    click.echo(f"  konverge cluster kubectl{_flag(name)} -- get nodes")


@cluster.command()
@_name
@_errors_as_text
def down(name: str) -> None:
    """End a cluster and remove its data."""
    existed = LocalCluster(name, lifetime="detached", tell=_tell).stop()
    click.echo(f"Cluster {name} is down" if existed else f"There is no cluster {name}; nothing to do")


@cluster.command()
@click.option("--name", shell_complete=_existing, help="Only this cluster.  [default: all]")
@_errors_as_text
def status(name: str | None) -> None:
    """Show clusters and their components; exits with 1 where one is not whole."""
    names = [name] if name else cluster_names()
    if not names:
        click.echo("There is no cluster; start one with `konverge cluster up`")
    whole = [_show(each) for each in names]
    if not (whole and all(whole)):
        sys.exit(1)


@cluster.command()
@_name
@_errors_as_text
def kubeconfig(name: str) -> None:
    """Print the path of a cluster's kubeconfig."""
    click.echo(LocalCluster.attach(name).kubeconfig)


@cluster.command(context_settings={"ignore_unknown_options": True})
@_name
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_errors_as_text
def kubectl(name: str, arguments: tuple[str, ...]) -> NoReturn:
    """Run kubectl against a cluster: `konverge cluster kubectl -- get pods`."""
    running = LocalCluster.attach(name)
    command = [*running.kubectl_command(), *arguments]
    os.execve(command[0], command, running.kubectl_environment())  # noqa: S606 - it takes over this process on purpose


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _show(name: str) -> bool:
    try:
        running = LocalCluster.attach(name)
    except ClusterError as error:
        click.echo(error)
        return False
    problems = running.problems()
    if problems:
        click.echo(f"{name}: broken: {'; '.join(problems)}; `konverge cluster up{_flag(name)}` replaces it")
    else:
        ready, total = running.ready_nodes()
        click.echo(f"{name}: running ({running.lifetime}), {running.server}, {ready} of {total} nodes ready")
    for component, pid in running.pids.items():
        click.echo(f"  {component}: pid {pid}, log {running.log(component)}")
    for component in running.missing:
        click.echo(f"  {component}: not available here")
    return not problems


def _flag(name: str) -> str:
    return "" if name == DEFAULT_NAME else f" --name {name}"


def _end_on(*signals: signal.Signals) -> None:
    """Let these end a start as Ctrl-C does: with everything put back."""

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    for each in signals:
        signal.signal(each, interrupt)
