"""The local cluster: in, a name; out, a real Kubernetes control plane on loopback with nodes that take pods.

    with LocalCluster("demo", nodes=3) as cluster:
        cluster.kubectl("get", "nodes")

Bound to the process by default: it ends with it, also when that is killed. `lifetime="detached"` is for the command
line: it runs until `stop`, and any process can attach to it by name.
"""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from konverge.errors import ClusterError
from konverge.testing.access import Cluster, kubectl_on_path
from konverge.testing.binaries import KUBECTL, Binaries, find_binaries
from konverge.testing.client import Client, Json
from konverge.testing.components import Layout, Ports
from konverge.testing.launch import Launcher, PortTaken, prepare, tear_down
from konverge.testing.locking import locked
from konverge.testing.nodes import ready_nodes
from konverge.testing.paths import cluster_directory, clusters_root, lock_file
from konverge.testing.processes import Lifeline, end
from konverge.testing.state import Lifetime, State, this_process

DEFAULT_NAME = "default"
DEFAULT_NODES = 3
_ATTEMPTS = 3
_APISERVER = "kube-apiserver"
_STOP_GRACE = 20.0


class LocalCluster(Cluster):
    """One cluster by name; several run side by side. Not started by the constructor."""

    def __init__(
        self,
        name: str = DEFAULT_NAME,
        *,
        nodes: int = DEFAULT_NODES,
        lifetime: Lifetime = "process",
        audit: bool = False,
        parity: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`nodes` is the number of nodes to have at least; `tell` gets what a person who waits should know.

        `audit`: a cluster that is started anew keeps an audit log of all writes, see `audit_log`.
        `parity`: its kube-scheduler then has the profiles `PARITY_VARIANTS`, and logs each plugin's score for each node.
        """
        self.name, self.nodes, self.lifetime, self._audit = name, nodes, lifetime, audit
        self._parity = parity
        self.directory = cluster_directory(name)
        self._tell = tell
        self._launcher: Launcher | None = None
        self._lifeline: Lifeline | None = None

    # Life

    def start(self) -> Self:
        """Start it, or find it running, and return it usable.

        A directory whose cluster is not whole any more is replaced: its remaining processes end, its data goes.
        Raises ToolsMissing and BuildFailed without programs, and ClusterError, with the end of the log, when a component
        does not start. Nothing is left behind then, nor after Ctrl-C.
        """
        with self._locked():
            if self._adopt():
                self._running.furnish(self.nodes)
                return self
            binaries = find_binaries()
            if self.directory.exists():
                ended = tear_down(self.directory, grace=0)
                self._tell(
                    f"replacing what was left of the cluster {self.name}: {', '.join(ended) or 'no process'} still ran"
                )
            self._launch(binaries)
        return self

    def stop(self) -> bool:
        """End it and remove its data; False when there was nothing to end."""
        with self._locked():
            existed = self.directory.exists()
            tear_down(self.directory)
            self._release()
        return existed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @classmethod
    def attach(cls, name: str = DEFAULT_NAME) -> Self:
        """The running cluster of that name, without starting or stopping anything. Raises ClusterError when there is none."""
        cluster = cls(name)
        state = State.load(cluster.directory)
        if state is None or not state.ready:
            found = "did not start completely" if cluster.directory.exists() else "does not exist"
            message = f"the cluster {name!r} {found}; `konverge cluster up --name {name}` starts it"
            raise ClusterError(message)
        cluster.lifetime = state.lifetime
        cluster._launcher = Launcher(Layout(cluster.directory, state.ports), state, None)
        return cluster

    # Faults

    def kill_apiserver(self) -> None:
        """End the API server with SIGKILL: connections break in the middle of whatever they carry."""
        end([self._state.processes[_APISERVER]], grace=0)

    def start_apiserver(self) -> None:
        """Start the API server again, on the same port and with the same certificates, and wait until it is ready."""
        if self.lifetime == "process" and self._lifeline is None:
            message = (
                f"the cluster {self.name!r} belongs to process {self._state.owner.pid}: only that can start parts of it"
            )
            raise ClusterError(message)
        self._running.start(_APISERVER)
        self._running.wait_ready()

    def restart_apiserver(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the API server, in good order or with SIGKILL, and start it again; etcd keeps the data."""
        grace = 0.0 if how is signal.SIGKILL else _STOP_GRACE
        end([self._state.processes[_APISERVER]], grace=grace)
        self.start_apiserver()

    # Use

    @property
    def kubeconfig(self) -> Path:
        return self._running.layout.kubeconfig("admin")

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._running.layout.server

    @property
    def pids(self) -> dict[str, int]:
        """The process of each component."""
        return {component: ref.pid for component, ref in self._state.processes.items()}

    def log(self, component: str) -> Path:
        """The file with everything that the component said."""
        return self._running.layout.log(component)

    @property
    def audit_log(self) -> Path:
        """Who wrote what and when: a JSON object a line, where the cluster was started with `audit`."""
        return self._running.layout.audit_log

    @property
    def missing(self) -> list[str]:
        """The components that the programs at hand do not include."""
        return self._state.binaries.missing

    @property
    def has_controllers(self) -> bool:
        return "kube-controller-manager" in self._state.binaries.commands

    def problems(self) -> list[str]:
        """What keeps it from working: components that ended, an API server that is not ready; empty when it is whole."""
        found = [f"{component} is not running" for component in self._state.dead()]
        if not found and not self._running.client.ready():
            found.append("kube-apiserver is not ready")
        return found

    def ready_nodes(self) -> tuple[int, int]:
        """How many nodes take pods, and how many there are."""
        return ready_nodes(self._running.client)

    def request(self, method: str, path: str, body: Json | None = None) -> Any:
        return self.client.request(method, path, body)

    @property
    def client(self) -> Client:
        """Plain requests as the administrator."""
        return self._running.client

    def kubectl_command(self) -> list[str]:
        return list(self._state.binaries.commands.get(KUBECTL) or (kubectl_on_path(),))

    def kubectl_environment(self) -> dict[str, str]:
        # kubectl caches discovery by address, and another cluster may have had this port before
        return {**super().kubectl_environment(), "KUBECACHEDIR": str(self.directory / "kubectl-cache")}

    # Inside

    @property
    def _running(self) -> Launcher:
        if self._launcher is None:
            message = f"the cluster {self.name!r} is not started"
            raise ClusterError(message)
        return self._launcher

    @property
    def _state(self) -> State:
        return self._running.state

    def _locked(self) -> AbstractContextManager[None]:
        return locked(
            lock_file(f"cluster-{self.name}"),
            waiting=lambda: self._tell(f"another command is at work on the cluster {self.name}; waiting for it"),
        )

    def _adopt(self) -> bool:
        """Use what runs already, if it is whole."""
        state = State.load(self.directory)
        if state is None or not state.ready or state.dead():
            return False
        if state.lifetime == "process" and state.owner != this_process() and state.owner_alive:
            message = (
                f"the cluster {self.name!r} belongs to process {state.owner.pid}, and ends with it: choose another name"
            )
            raise ClusterError(message)
        if state.lifetime != self.lifetime:
            message = (
                f"the cluster {self.name!r} is running already ({state.lifetime}): stop it, or choose another name"
            )
            raise ClusterError(message)
        launcher = self._launcher or Launcher(Layout(self.directory, state.ports), state, self._lifeline)
        if not launcher.client.ready():
            return False
        self._launcher = launcher
        return True

    def _launch(self, binaries: Binaries) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._try_launch(binaries)
            except PortTaken:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _try_launch(self, binaries: Binaries) -> None:
        layout = Layout(self.directory, Ports.pick())
        state = State(self.lifetime, this_process(), layout.ports, binaries)
        self._release()
        try:
            prepare(self.name, layout, binaries, audit=self._audit, parity=self._parity)
            self._lifeline = Lifeline.open() if self.lifetime == "process" else None
            self._launcher = Launcher(layout, state, self._lifeline)
            self._launcher.bring_up(self.nodes)
            state.ready = True
            state.save(self.directory)
        except BaseException:
            tear_down(self.directory, grace=0)
            self._release()
            raise

    def _release(self) -> None:
        self._launcher = None
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None


def cluster_names() -> list[str]:
    """The names of all clusters of this user that have a directory, running or not."""
    root = clusters_root()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def sweep(prefix: str) -> list[str]:
    """Remove bound clusters named `prefix...` whose owner was killed; returns their names. Their processes are gone already."""
    swept = []
    for name in cluster_names():
        state = State.load(cluster_directory(name))
        if name.startswith(prefix) and state is not None and state.lifetime == "process" and not state.owner_alive:
            with locked(lock_file(f"cluster-{name}")):
                tear_down(cluster_directory(name), grace=0)
            swept.append(name)
    return swept
