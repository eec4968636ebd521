"""`konverge demo`, behind `make run`: a real control plane, the CRDs, the operator and the samples, until all are Ready.

Flags flow in; a live table (or, without a terminal, a line a change and the table at the end) and an exit code flow out.
Everything that was started here ends here.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import click
from rich.console import Console
from rich.live import Live

from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.cli.scene import Scene
from konverge.errors import ClusterError
from konverge.model.crd import crd_of, render
from konverge.testing.access import Cluster, ExistingCluster
from konverge.testing.cluster import LocalCluster
from konverge.testing.loopback import free_ports

NAME: Final = "demo"
REFRESH: Final = 0.5
STOP_GRACE: Final = 35.0
LOG_TAIL: Final = 15
PLAIN_WIDTH: Final = 160
"""Columns of a file or pipe, which has none of its own."""


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Use this cluster instead of a local one.")
@click.option("--name", default=NAME, show_default=True, help="The name of the local cluster.")
@click.option("--nodes", type=click.IntRange(1, 5000), default=3, show_default=True, help="How many nodes it has.")
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    default=Path("config/samples"),
    show_default=True,
    help="The kustomization that is applied.",
)
@click.option("--timeout", default=180.0, show_default=True, help="Seconds until all samples must be Ready.")
def demo(kubeconfig: Path | None, name: str, nodes: int, samples: Path, timeout: float) -> None:
    """Show Konverge at work: a Kubernetes control plane, the operator, and the samples as they converge.

    The first run builds the control plane, which takes some minutes. With a terminal it stays until Ctrl-C.
    """
    if not (samples / "kustomization.yaml").is_file():
        raise ClusterError(
            f"no kustomization in {samples}: run this in a checkout of Konverge, or name one with --samples"
        )
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=PLAIN_WIDTH, soft_wrap=True)
    try:
        with _cluster(kubeconfig, name, nodes, console) as cluster:
            _install_crds(cluster, console)
            with _operator(cluster) as (process, log):
                console.print(f"operator started, process {process.pid}, log {log}")
                cluster.kubectl("apply", "-k", str(samples))
                console.print(f"applied {samples}")
                _show(Scene(cluster), process, log, console, timeout)
                if console.is_terminal:
                    _stay(cluster, process, console)
    except KeyboardInterrupt:
        console.print("stopped")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _cluster(kubeconfig: Path | None, name: str, nodes: int, console: Console) -> Iterator[Cluster]:
    if kubeconfig is not None:
        yield ExistingCluster(kubeconfig)
        return
    started = time.monotonic()
    with LocalCluster(name, nodes=nodes) as cluster:
        console.print(f"Kubernetes is up after {time.monotonic() - started:.1f} s: {cluster.server}, {nodes} nodes")
        yield cluster


def _install_crds(cluster: Cluster, console: Console) -> None:
    crds = [crd_of(resource) for resource in resource_classes(BUILT_IN)]
    names = [crd["metadata"]["name"] for crd in crds]
    cluster.kubectl("apply", "--server-side", "-f", "-", input="---\n".join(render(crd) for crd in crds))
    cluster.wait_for_crds(*names)
    console.print(f"installed {', '.join(f'crd/{name}' for name in names)}")


@contextmanager
def _operator(cluster: Cluster) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """The operator in a process of its own, as a user would run it; its log in a file beside the kubeconfig."""
    probe, metrics = free_ports(2)
    log = cluster.kubeconfig.parent / "operator.log"
    command = [
        *(sys.executable, "-m", "konverge", "run", "--kubeconfig", str(cluster.kubeconfig)),
        *("--probe-address", f"127.0.0.1:{probe}", "--metrics-address", f"127.0.0.1:{metrics}"),
    ]
    with log.open("wb") as sink, _started(command, sink) as process:
        yield process, log


@contextmanager
def _started(command: list[str], sink: IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(  # noqa: S603 - no shell
        command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _show(scene: Scene, process: "subprocess.Popen[bytes]", log: Path, console: Console, timeout: float) -> None:
    """Follow the samples until all are Ready. Raises: ClusterError when the operator ends or the time is over."""
    deadline = time.monotonic() + timeout
    with _display(scene, console) as changed:
        while True:
            changed(list(scene.refresh()))
            if scene.ready:
                return
            if process.poll() is not None:
                raise ClusterError(f"the operator ended with {process.returncode}:\n{_tail(log)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"not all samples were Ready within {timeout:g} s; the operator said:\n{_tail(log)}")
            time.sleep(REFRESH)


@contextmanager
def _display(scene: Scene, console: Console) -> Iterator[Callable[[list[str]], None]]:
    """What to call with the lines of what changed: a live table on a terminal, else the lines and a table at the end."""
    if console.is_terminal:
        with Live(scene.table(), console=console, refresh_per_second=4) as live:
            yield lambda _: live.update(scene.table())
        return

    def print_lines(lines: list[str]) -> None:
        for line in lines:
            console.print(line, markup=False, highlight=False)

    yield print_lines
    console.print(scene.table())


def _stay(cluster: Cluster, process: "subprocess.Popen[bytes]", console: Console) -> None:
    console.print(f"all are Ready; look around with\n  export KUBECONFIG={cluster.kubeconfig}\nand end it with Ctrl-C")
    process.wait()
    raise ClusterError(f"the operator ended with {process.returncode}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return os.linesep.join(lines[-LOG_TAIL:])
