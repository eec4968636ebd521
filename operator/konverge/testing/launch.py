"""Bringing a control plane up: in, a directory and programs; out, running components that an API server vouches for.

etcd and the API server start together; once the API server calls itself ready the others follow, and the cluster is
there when its nodes take pods. Nothing waits for a length of time: each step asks whether it is done, and whether what it
waits for still runs.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from konverge.errors import ApiError, ClusterError, ConnectionFailed
from konverge.testing import certificates, kubeconfig
from konverge.testing.binaries import COMPONENTS, REQUIRED, Binaries, stages_command
from konverge.testing.client import Client
from konverge.testing.components import Layout, audit_policy, flags
from konverge.testing.kubescheduler import PARITY_FLAGS, scheduler_configuration
from konverge.testing.nodes import furnish, furnished
from konverge.testing.paths import private_directory
from konverge.testing.processes import Lifeline, ProcessRef, alive, end, exit_code, running, spawn, wait_for
from konverge.testing.state import State

READY_TIMEOUT = 90.0
"""Seconds for each step; a whole start takes some ten on an idle machine."""

_GRACE = 10.0
_LOG_TAIL = 15
_TAKEN = "address already in use"


class PortTaken(ClusterError):
    """Somebody bound a port between our choosing and using it: choose again."""


def prepare(name: str, layout: Layout, binaries: Binaries, *, audit: bool = False, parity: bool = False) -> None:
    """Fill the new directory of the cluster: certificates, kubeconfigs, configuration, kwok's stages."""
    private_directory(layout.directory)
    for below in ("certificates", "logs", "stages", "etcd"):
        private_directory(layout.directory / below)
    issued = certificates.issue(layout.certificates.directory)
    for client in certificates.CLIENTS:
        text = kubeconfig.render(f"konverge-{name}", layout.server, issued, client)
        kubeconfig.write(layout.kubeconfig(client), text)
    layout.scheduler_config.write_text(scheduler_configuration(layout.kubeconfig("kube-scheduler"), parity=parity))
    if parity:
        layout.scheduler_flags.write_text("\n".join(PARITY_FLAGS))
    if audit:
        layout.audit_policy.write_text(audit_policy())
    if (command := stages_command(binaries, layout.stages)) is not None:
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
        if result.returncode != 0:
            message = f"{' '.join(command)} ended with {result.returncode}: {result.stderr.strip()}"
            raise ClusterError(message)


class Launcher:
    """Starts components of one cluster and writes down each before it starts the next."""

    def __init__(self, layout: Layout, state: State, lifeline: Lifeline | None) -> None:
        self.layout, self.state, self.lifeline = layout, state, lifeline
        self.client = Client(layout.server, layout.certificates)

    def bring_up(self, nodes: int) -> None:
        """Start everything that there is a program for, and wait until it works. Raises ClusterError, PortTaken."""
        for component in REQUIRED:
            self.start(component)
        self.wait_ready()
        for component in COMPONENTS:
            if component in self.state.binaries.commands and component not in REQUIRED:
                self.start(component)
        self.furnish(nodes)

    def start(self, component: str) -> None:
        """Start one component and record it."""
        binaries, layout = self.state.binaries, self.layout
        has_controllers = "kube-controller-manager" in binaries.commands
        self.state.processes[component] = spawn(
            [*binaries.commands[component], *flags(component, layout, has_controllers=has_controllers)],
            layout.log(component),
            environment={"KUBECONFIG": str(layout.kubeconfig("admin"))},  # never the user's own cluster
            lifeline=self.lifeline,
            bundled=binaries.bundled,
        )
        self.state.save(layout.directory)

    def wait_ready(self) -> None:
        """Until the API server says that it is ready."""
        self._wait(self.client.ready, "kube-apiserver is ready")

    def furnish(self, nodes: int) -> None:
        """Make `nodes` nodes and the StorageClass, and wait until they are of use as far as components are there for that."""
        furnish(self.client, nodes)
        if {"kwok", "kube-controller-manager"} <= self.state.processes.keys():
            self._wait(self._tolerant(furnished(self.client, nodes)), f"{nodes} nodes take pods")

    def _tolerant(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        def holds() -> bool:
            try:
                return condition()
            except (ApiError, ConnectionFailed):
                return False

        return holds

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def decided() -> bool:
            self._check()
            return condition()

        if not wait_for(decided, READY_TIMEOUT):
            tails = "".join(f"\n{name}:\n{self._tail(name)}" for name in self.state.processes)
            message = f"waited {READY_TIMEOUT:.0f} s in vain until {what}; the ends of the logs:{tails}"
            raise ClusterError(message)

    def _check(self) -> None:
        for component, ref in self.state.processes.items():
            if alive(ref):
                continue
            tail = self._tail(component)
            code = exit_code(ref)
            ended = "is gone" if code is None else f"ended with exit code {code}"
            message = f"{component} {ended}; the end of {self.layout.log(component)}:\n{tail}"
            raise PortTaken(message) if _TAKEN in tail else ClusterError(message)

    def _tail(self, component: str) -> str:
        lines = self.layout.log(component).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL:]) or "(the log is empty)"


def tear_down(directory: Path, *, grace: float = _GRACE) -> list[str]:
    """End every process of the cluster in `directory`, and remove it; returns the components that were running.

    What to end comes from the processes themselves, so that a half-written state leaves none behind, and from the state: one
    that was just started may still be its launcher. Clients end before the API server, and that before etcd: each would
    else spend its time asking for the one that is gone.
    """
    found = running(directory, COMPONENTS)
    state = State.load(directory)
    for component, ref in state.processes.items() if state else ():
        if alive(ref) and ref not in found.get(component, []):
            found.setdefault(component, []).append(ref)
    etcd = found.pop("etcd", [])
    apiserver = found.pop("kube-apiserver", [])
    clients: list[ProcessRef] = [ref for refs in found.values() for ref in refs]
    for refs in (clients, apiserver, etcd):
        end(refs, grace=grace)
    shutil.rmtree(directory, ignore_errors=True)
    return [*found, *(["kube-apiserver"] if apiserver else []), *(["etcd"] if etcd else [])]
