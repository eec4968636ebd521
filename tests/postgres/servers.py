"""Pods as far as their scripts see them: real PostgreSQL servers on loopback, with the project's files in directories."""

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from konverge.controllers.database import config
from konverge.testing.loopback import free_ports
from konverge.testing.processes import wait_for
from tests.unit.controllers.databases import database

WITHIN = 60.0
POSTGRES = "/usr/lib/postgresql"
"""Where Debian puts the servers, by major version: they are not on the PATH."""


def server_path() -> str:
    """The PATH of a pod: PostgreSQL's newest version before the rest. Skips the test where there is none."""
    found = shutil.which("initdb")
    installed = sorted(Path(POSTGRES).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found is None and not installed:
        pytest.skip("no PostgreSQL server is installed here; on Debian: apt-get install postgresql")
    directory = Path(found).parent if found else installed[-1].parent
    return f"{directory}:{os.environ['PATH']}"


def unprivileged() -> str | None:
    """As whom the servers run: PostgreSQL refuses to be root's. None for the user of the tests."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Pod:
    """One pod of the Database `orders`: its volume, its mounts, its port and its container."""

    def __init__(self, root: Path, ordinal: int, ports: list[int], path: str) -> None:
        self.ordinal, self.port, self.name = ordinal, ports[ordinal], f"orders-{ordinal}"
        self.volume, self.run = root / self.name, root / f"{self.name}.run"
        self.log = root / f"{self.name}.log"
        self.configuration, self.credentials = root / "config", root / "credentials"
        self._root, self._process = root, None
        self._user = unprivileged()
        self._environment = {
            "PATH": path,
            "LC_ALL": "C",
            "PGDATA": str(self.volume / "pgdata"),
            "POD_NAME": self.name,
            "PRIMARY_POD": "orders-0",
            "PRIMARY_HOST": "127.0.0.1",
            "PRIMARY_PORT": str(ports[0]),
            "PORT": str(self.port),
            "PEERS": " ".join(f"127.0.0.1:{port}" for port in ports[1:]),
            "CONFIG_DIR": str(self.configuration),
            "CREDENTIALS_DIR": str(self.credentials),
            "RUN_DIR": str(self.run),
            "INTERVAL": "0.2",
        }
        for directory in (self.volume, self.run):
            self.own(directory)

    _process: subprocess.Popen[bytes] | None

    def own(self, directory: Path) -> None:
        """Make a directory of the server's user."""
        directory.mkdir(exist_ok=True)
        if self._user is not None:
            shutil.chown(directory, self._user)

    def script(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script in the pod, as a probe or a person does."""
        with self.log.open("ab") as log:
            return subprocess.run(
                ["bash", str(self.configuration / name), *arguments],
                **self._as_in_pod(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.PIPE,
                text=True,
                timeout=WITHIN,
                check=False,
            )

    def prepare(self) -> None:
        """Run the init container to its end."""
        done = self.script("prepare.sh")
        with self.log.open("a") as log:
            log.write(done.stderr)
        assert done.returncode == 0, done.stderr

    def preparing(self) -> subprocess.Popen[bytes]:
        """Start the init container, for one that will not end by itself."""
        return self._spawn("prepare.sh")

    def start(self) -> "Pod":
        """Start the container."""
        self._process = self._spawn("start.sh")
        return self

    def up(self) -> "Pod":
        """Prepare, start, and wait until it is ready."""
        self.prepare()
        self.start()
        assert self.becomes(self.is_ready), self.said()
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the container as the kubelet does, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, how)
        return process.wait(WITHIN)

    def exit_code(self) -> int | None:
        """With which code the container ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """End the server and all its processes at once, as a node that fails does."""
        for number in self.server():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.stop()
        shutil.rmtree(self.run)
        self.own(self.run)

    def server(self) -> list[int]:
        """The processes of the server, the first of them the one that started the others; none when it is down."""
        try:
            first = int((self.volume / "pgdata" / "postmaster.pid").read_text().split()[0])
            others = Path(f"/proc/{first}/task/{first}/children").read_text()
        except FileNotFoundError:
            return []
        return [first, *map(int, others.split())]

    def lose_volume(self) -> None:
        """Put an empty volume in place of the present one."""
        shutil.rmtree(self.volume)
        self.own(self.volume)

    def is_ready(self) -> bool:
        """What the readiness probe says."""
        return self.script("health.sh", "ready").returncode == 0

    def is_alive(self) -> bool:
        """What the liveness probe says."""
        return self.script("health.sh", "live").returncode == 0

    def becomes(self, condition: Any) -> bool:
        """Wait until `condition()`."""
        return wait_for(lambda: bool(condition()), WITHIN, poll=0.1)

    def query(self, statement: str, password: str = "first") -> str:
        """Ask the server over the network, as a client does; empty when it refuses."""
        done = subprocess.run(
            [
                *("psql", "--host=127.0.0.1", f"--port={self.port}", "--username=postgres", "--dbname=postgres"),
                *("--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--no-password", f"--command={statement}"),
            ],
            env={"PATH": self._environment["PATH"], "PGPASSWORD": password},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        return done.stdout.strip()

    def accepts(self, password: str) -> bool:
        """Whether a client may connect with that password."""
        return self.query("select 1", password) == "1"

    def said(self) -> str:
        """All that the pod wrote."""
        return self.log.read_text(errors="replace")

    def _spawn(self, script: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                # A shell cannot trap what its parent ignores, as that of a test run in the background does.
                ["env", "--default-signal=INT", "bash", str(self.configuration / script)],
                **self._as_in_pod(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _as_in_pod(self) -> dict[str, Any]:
        who = {} if self._user is None else {"user": self._user, "group": _group(self._user), "extra_groups": []}
        return {"env": self._environment, "cwd": self._root, **who}


class Servers:
    """The pods of one Database, and the files that Kubernetes would mount into them."""

    def __init__(self, root: Path, pods: int = 3) -> None:
        root.chmod(0o755)
        self.root = root
        for name, content in config.files(database(resources={"limits": {"memory": "128Mi"}})).items():
            self.write(root / "config" / name, content)
        self.set_password("first")
        ports = free_ports(pods)
        path = server_path()
        self.pods = [Pod(root, ordinal, ports, path) for ordinal in range(pods)]

    def write(self, path: Path, content: str) -> None:
        """Put a mounted file in place whole, as the kubelet does."""
        path.parent.mkdir(mode=0o755, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(content)
        new.chmod(0o644)
        new.replace(path)

    def set_password(self, password: str) -> None:
        """Change the mounted Secret."""
        self.write(self.root / "credentials" / "password", password)

    def stop(self) -> None:
        """End all that runs."""
        for pod in self.pods:
            pod.kill()


def _group(user: str) -> int:
    return pwd.getpwnam(user).pw_gid
