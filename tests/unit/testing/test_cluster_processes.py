"""Processes that must not be lost, and those that must not be touched."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from konverge.errors import ClusterError
from konverge.testing.binaries import COMPONENTS, Binaries
from konverge.testing.components import Layout, Ports, flags
from konverge.testing.processes import ProcessRef, alive, end, exit_code, running, spawn, start_time, wait_for
from konverge.testing.state import State, this_process

PORTS = Ports(1, 2, 3)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(stack: ExitStack, tmp_path: Path, *arguments: str, script: str = "read line; :") -> ProcessRef:
    """A shell that waits for input which never comes; ended with the test."""
    command = ["/bin/sh", "-c", script, *arguments]
    child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
    stack.callback(child.kill)
    return ProcessRef(child.pid, start_time(child.pid) or "")


def test_a_spawned_process_writes_its_log_and_is_known_when_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ref = spawn(["/bin/sh", "-c", "echo to the log; echo and errors >&2; exit 3"], log)
    assert wait_for(lambda: exit_code(ref) == 3, 10)
    assert not alive(ref)
    assert log.read_text() == "to the log\nand errors\n"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot run /no/such/program: No such file"):
        spawn(["/no/such/program"], tmp_path / "log")


def test_end_asks_and_then_insists(tmp_path: Path) -> None:
    log = tmp_path / "log"
    polite = spawn(["/bin/sh", "-c", "trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 0.01; done"], log)
    assert wait_for(lambda: log.read_text() == "on\n", 10)
    end([polite], grace=10)
    assert log.read_text() == "on\nbye\n"
    stubborn = spawn(["/bin/sh", "-c", "trap '' TERM; echo stubborn; while :; do sleep 0.01; done"], log)
    assert wait_for(lambda: "stubborn" in log.read_text(), 10)
    end([stubborn], grace=0.1)
    assert not alive(stubborn)


def test_a_pid_that_was_given_out_again_is_not_touched(stack: ExitStack, tmp_path: Path) -> None:
    real = started(stack, tmp_path)
    former = ProcessRef(real.pid, "another time")
    assert not alive(former)
    end([former], grace=0)
    assert alive(real)


def test_this_process_is_alive_and_one_without_start_time_is_not() -> None:
    assert alive(this_process())
    assert not alive(ProcessRef(os.getpid(), ""))


def test_only_servers_of_this_very_directory_are_found(stack: ExitStack, tmp_path: Path) -> None:
    directory = tmp_path / "one"
    for name in ("kwok", "reader"):
        (tmp_path / name).write_text("#!/bin/sh\nread line; :\n")
        (tmp_path / name).chmod(0o700)

    def run(name: str, argument: str) -> int:
        child = stack.enter_context(subprocess.Popen([tmp_path / name, argument], stdin=subprocess.PIPE))
        stack.callback(child.kill)
        return child.pid

    ours = run("kwok", f"--kubeconfig={directory}/kubeconfig")
    run("kwok", f"--kubeconfig={tmp_path}/one-more/kubeconfig")
    run("reader", f"--file={directory}/logs/kwok.log")
    run("reader", f"{directory}/etcd")
    assert {name: [ref.pid for ref in refs] for name, refs in running(directory, COMPONENTS).items()} == {
        "kwok": [ours]
    }


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_recognised_by_its_command_line(component: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path, PORTS)
    assert any(f"={tmp_path}{os.sep}" in flag for flag in flags(component, layout))


@pytest.mark.parametrize("component", COMPONENTS)
def test_nothing_listens_beyond_loopback(component: str, tmp_path: Path) -> None:
    named = dict(
        flag.removeprefix("--").split("=", 1) for flag in flags(component, Layout(tmp_path, PORTS)) if "=" in flag
    )
    listening = [value for name, value in named.items() if "listen" in name or name == "bind-address"]
    assert all("127.0.0.1" in value for value in listening)
    assert named.get("secure-port", "0") == "0" or named["bind-address"] == "127.0.0.1"
    assert named.get("node-port", "0") == "0"


def test_without_a_controller_manager_pods_need_no_service_account(tmp_path: Path) -> None:
    layout = Layout(tmp_path, PORTS)
    word = "--disable-admission-plugins=ServiceAccount"
    assert word in flags("kube-apiserver", layout, has_controllers=False)
    assert word not in flags("kube-apiserver", layout)


# The state file


def state(processes: dict[str, ProcessRef]) -> State:
    return State(
        "detached", this_process(), PORTS, Binaries({"etcd": ("/bin/etcd",)}, bundled=False), processes, ready=True
    )


def test_state_survives_the_file(tmp_path: Path) -> None:
    before = state({"etcd": ProcessRef(7, "then")})
    before.save(tmp_path)
    assert State.load(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 1}', '{"version": 99}', '{"version": 1, "owner": 3, "lifetime": "x"}']
)
def test_a_state_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert State.load(tmp_path) is None


def test_a_directory_without_state_has_none(tmp_path: Path) -> None:
    assert State.load(tmp_path) is None


def test_components_that_ended_are_named(stack: ExitStack, tmp_path: Path) -> None:
    here = started(stack, tmp_path)
    found = state({"etcd": here, "kwok": ProcessRef(here.pid, "another time")})
    assert found.dead() == ["kwok"]
    assert found.owner_alive


def test_the_plugin_imports_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys, konverge.testing.fixtures; print(*sorted(n for n in sys.modules if n.startswith('konverge.')))"
    )
    names = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert names == ["konverge.testing", "konverge.testing.fixtures"]
