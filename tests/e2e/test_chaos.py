"""The real control plane and the operator's processes are hurt at random, under load: nothing lost, nothing doubled.

Who wrote is read from the API server's audit log: each replica runs as a ServiceAccount of its own. Seeded; the seed is
part of each test's name.
"""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest

from konverge.errors import ApiError, ClusterError, ConnectionFailed, NotFound
from konverge.testing import LocalCluster
from konverge.testing.processes import wait_for
from tests.e2e.kubectl import Kubectl, install, until
from tests.e2e.ledger import Ledger
from tests.e2e.limited import Limited
from tests.e2e.operator_process import OperatorProcess

MODULE: Final = str(Path(__file__).with_name("ledger.py"))
NAMES: Final = tuple(f"book-{number}" for number in range(8))
CALM: Final = 120.0
EDITS_PER_SECOND: Final = 8.0


@pytest.fixture(scope="module")
def arena() -> Iterator[LocalCluster]:
    """A cluster of its own, with an audit log: it is hurt, and others must not feel it."""
    with LocalCluster(f"chaos-{os.getpid()}", nodes=1, audit=True) as cluster:
        install(cluster, Ledger)
        yield cluster


@pytest.fixture
def room(arena: LocalCluster) -> Iterator[Kubectl]:
    name = arena.create_namespace("chaos")
    yield Kubectl(arena, name)
    arena.delete_namespace(name)


class Load:
    """Edits, deletes and meddling in a thread of its own; whoever meets a dead API server tries again later."""

    def __init__(self, cluster: LocalCluster, namespace: str, seed: int) -> None:
        self._cluster, self._base = cluster, f"{Ledger.resource.base_path}/namespaces/{namespace}/ledgers"
        self._pages = f"/api/v1/namespaces/{namespace}/configmaps"
        self._draw, self._stop = random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(self._draw.expovariate(EDITS_PER_SECOND)):
            try:
                self._step(self._draw.choice(NAMES), self._draw.random())
                self.done += 1
            except (ApiError, ConnectionFailed, ClusterError):
                continue

    def _step(self, name: str, dice: float) -> None:
        spec = {"pages": self._draw.randrange(4), "text": f"{self._draw.randrange(1000)}"}
        if dice < 0.1:
            self._cluster.request("DELETE", f"{self._base}/{name}")
        elif dice < 0.2:
            self._cluster.request("DELETE", f"{self._pages}/{name}-0")
        else:
            self._write(name, spec)

    def _write(self, name: str, spec: dict[str, Any]) -> None:
        try:
            live = self._cluster.request("GET", f"{self._base}/{name}")
        except NotFound:
            body = {"apiVersion": "chaos.konverge.dev/v1", "kind": "Ledger", "metadata": {"name": name}, "spec": spec}
            self._cluster.request("POST", self._base, body)
        else:
            self._cluster.request("PUT", f"{self._base}/{name}", {**live, "spec": spec})


def wrong(room: Kubectl) -> list[str]:
    """What is not as the ledgers ask for: empty once all has converged."""
    found = []
    ledgers = {ledger["metadata"]["name"]: ledger for ledger in room.list("ledgers")}
    pages = {
        page["metadata"]["name"]: page for page in room.list("configmaps") if page["metadata"].get("ownerReferences")
    }
    wanted = {
        f"{name}-{number}": (ledger["metadata"]["uid"], ledger["spec"]["text"])
        for name, ledger in ledgers.items()
        for number in range(ledger["spec"]["pages"])
    }
    held = {name: (page["metadata"]["ownerReferences"][0]["uid"], page["data"]["text"]) for name, page in pages.items()}
    if held != wanted:
        found.append(f"pages: {held.items() ^ wanted.items()}")
    for name, ledger in ledgers.items():
        status = ledger.get("status") or {}
        ready = [c for c in status.get("conditions") or [] if c["type"] == "Ready"]
        if ledger["metadata"].get("deletionTimestamp") or [c["status"] for c in ready] != ["True"]:
            found.append(f"{name}: {ready}")
        elif status.get("observedGeneration") != ledger["metadata"]["generation"]:
            found.append(f"{name}: not observed")
    return found


def calm(room: Kubectl) -> None:
    """Wait until everything has converged. Raises: AssertionError with what has not."""
    if not wait_for(lambda: not wrong(room), CALM, poll=1.0):
        raise AssertionError(f"not converged within {CALM:g} s: {wrong(room)}")


def writes_by(cluster: LocalCluster, room: Kubectl) -> list[tuple[str, str]]:
    """Time and ServiceAccount of each write of an operator to the room's ledgers and pages, in order."""
    found = []
    for line in cluster.audit_log.read_text().splitlines():
        entry = json.loads(line)
        target = entry.get("objectRef") or {}
        writer = str(entry["user"]["username"])
        ours = target.get("namespace") == room.namespace and target.get("resource") in {"ledgers", "configmaps"}
        if ours and writer.startswith(f"system:serviceaccount:{room.namespace}:replica-"):
            found.append((str(entry["requestReceivedTimestamp"]), writer.rpartition(":")[2]))
    return sorted(found)


def handovers(writes: list[tuple[str, str]]) -> list[str]:
    """The writers, one for each time that another one began."""
    return [writer for at, (_, writer) in enumerate(writes) if at == 0 or writes[at - 1][1] != writer]


@contextmanager
def replicas(arena: LocalCluster, room: Kubectl, tmp_path: Path, count: int) -> Iterator[list[OperatorProcess]]:
    """Replicas that share a lease, each as a ServiceAccount of its own."""
    started: list[OperatorProcess] = []
    try:
        for number in range(count):
            name = f"replica-{number}"
            room("create", "serviceaccount", name)
            grant = ("--clusterrole=cluster-admin", f"--serviceaccount={room.namespace}:{name}")
            room("create", "clusterrolebinding", f"{room.namespace}-{name}", *grant)
            limited = Limited(arena, tmp_path / name, room("create", "token", name).strip())
            flags = (MODULE, "--leader-elect", "--lease-namespace", room.namespace)
            started.append(OperatorProcess(limited, tmp_path / f"{name}.log", *flags).start())
        yield started
    finally:
        for each in started:
            each.resume()
            each.kill()


@pytest.mark.parametrize("seed", [1])
def test_the_api_server_is_killed_ten_times_under_load(
    arena: LocalCluster, room: Kubectl, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    with OperatorProcess(arena, tmp_path / "log", MODULE) as operator:
        with Load(arena, room.namespace, seed) as load:
            for _ in range(10):
                before = load.done
                until(lambda before=before: load.done > before + 5, "load")  # type: ignore[misc]
                arena.restart_apiserver(draw.choice([signal.SIGKILL, signal.SIGTERM]))
        calm(room)
        assert operator.alive


@pytest.mark.parametrize("seed", [2])
def test_the_operator_is_killed_at_random_points(arena: LocalCluster, room: Kubectl, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    with Load(arena, room.namespace, seed):
        for _ in range(8):
            operator = OperatorProcess(arena, tmp_path / "log", MODULE).start()
            wait_for(lambda operator=operator: not operator.alive, draw.uniform(0.0, 2.0))  # type: ignore[misc]
            operator.kill()
    with OperatorProcess(arena, tmp_path / "log", MODULE):
        calm(room)


@pytest.mark.parametrize("seed", [3])
def test_a_leader_paused_beyond_its_lease_never_writes_beside_the_next(
    arena: LocalCluster, room: Kubectl, tmp_path: Path, seed: int
) -> None:
    """SIGSTOP stops the leader in whatever it does; when it goes on, its term is over and another one writes."""
    with replicas(arena, room, tmp_path, 3) as running, Load(arena, room.namespace, seed):
        for _ in range(2):
            until(lambda: any(each.alive and each.leads for each in running), "a leader")
            leader = next(each for each in running if each.alive and each.leads)
            others = [each for each in running if each is not leader and each.alive]
            until(lambda: writes_by(arena, room), "writes")
            leader.pause()
            until(lambda others=others: any(each.leads for each in others), "the next leader", within=60)  # type: ignore[misc]
            done = len(writes_by(arena, room))
            leader.resume()
            until(lambda leader=leader: not leader.alive, "the former leader's end")  # type: ignore[misc]
            until(lambda done=done: len(writes_by(arena, room)) > done, "writes of the next leader")  # type: ignore[misc]
    writers = handovers(writes_by(arena, room))
    assert len(writers) == len(set(writers)), writers
    assert len(writers) >= 3
    with OperatorProcess(arena, tmp_path / "log", MODULE):
        calm(room)
