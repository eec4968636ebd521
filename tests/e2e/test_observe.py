"""Looking into a running operator: `konverge top`, `queue` and `explain`, and what they say where nobody answers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from konverge.testing import Cluster
from konverge.testing.loopback import free_ports
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

DATABASE = "databases.data.konverge.dev/orders"

pytestmark = pytest.mark.usefixtures("crds")


@dataclass
class Konverge:
    """The command, told where the cluster and the debug endpoint are."""

    cluster: Cluster
    address: str | None

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        env = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
        env["KUBECONFIG"] = str(self.cluster.kubeconfig)
        if self.address is not None:
            env["KONVERGE_DEBUG_ADDRESS"] = self.address
        command = [sys.executable, "-m", "konverge", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def konverge(cluster: Cluster, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Konverge]:
    """The command beside a running operator that serves /debug."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("observed") / "log"
    with OperatorProcess(cluster, log, "--debug-address", address):
        yield Konverge(cluster, address)


def database(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "data.konverge.dev/v1alpha1",
        "kind": "Database",
        "metadata": {"name": "orders"},
        "spec": {"version": "17.2", "storage": {"size": "1Gi"}, **spec},
    }


def test_top_shows_controllers_and_caches(konverge: Konverge, kubectl: Kubectl) -> None:
    kubectl.apply(database())
    kubectl.wait_ready(DATABASE)
    out = konverge("top", "--interval", "0.5")
    controllers, caches = out.split("\n\n", 1)
    heading, *rows = controllers.splitlines()
    assert heading.split()[:5] == ["CONTROLLER", "READY", "DELAYED", "ACTIVE", "OLDEST"]
    row = next(row.split() for row in rows if row.startswith("database "))
    assert re.fullmatch(r"\d+/32", row[3])
    assert re.fullmatch(r"[\d.]+m?s", row[-1])
    cached = next(row.split() for row in caches.splitlines() if row.startswith("databases.data"))
    assert cached[1] == "(all)"
    assert int(cached[2]) >= 1
    assert "watching" in cached


def test_queue_counts_what_is_under_way(konverge: Konverge) -> None:
    out = konverge("queue")
    assert "database: 0 of 32 workers busy, " in out
    assert "schedulingpolicy: " in out
    assert "schedulingpolicy" not in konverge("queue", "Database")
    unknown = konverge.run("queue", "cron")
    assert unknown.returncode == 1
    assert "no controller reconciles 'cron'; known: " in unknown.stderr


def test_explain_joins_what_the_server_has_with_what_the_operator_knows(konverge: Konverge, kubectl: Kubectl) -> None:
    kubectl.apply(database())
    kubectl.wait_ready(DATABASE)
    out = konverge("explain", "database/orders", "-n", kubectl.namespace)
    assert out.startswith(f"Database {kubectl.namespace}/orders (databases.data.konverge.dev)\n")
    assert re.search(r"Health: +Current\n", out)
    assert re.search(r"\n +Ready +True +\w+", out)
    assert re.search(r"\n +StatefulSet +orders +Current", out)
    assert re.search(r"\n +Pod +orders-0 +Current", out)  # the child of a child
    assert re.search(r"Last: +(success|requeue_after) .* ago after ", out)
    assert "Cache:       up to date" in out


def test_explain_tells_of_events(konverge: Konverge, kubectl: Kubectl) -> None:
    kubectl.apply(database())
    kubectl.wait_ready(DATABASE)
    pod = "pod/orders-0"
    until(lambda: "Scheduled" in konverge("explain", pod, "-n", kubectl.namespace), "the event of the pod")
    assert "Policy:      none (schedulerName default-scheduler)" in konverge("explain", pod, "-n", kubectl.namespace)
    assert "The operator was not asked: no controller reconciles 'statefulsets.apps'" in konverge(
        "explain", "statefulset/orders", "-n", kubectl.namespace
    )


def test_explain_works_without_a_debug_endpoint(konverge: Konverge, kubectl: Kubectl) -> None:
    kubectl.apply(database())
    kubectl.wait_ready(DATABASE)
    out = Konverge(konverge.cluster, None)("explain", "db/orders", "-n", kubectl.namespace)
    assert re.search(r"\n +StatefulSet +orders +Current", out)
    assert "The operator was not asked: no debug endpoint answers at 127.0.0.1:8082" in out
    # Where the endpoint was named, its silence is an error.
    (port,) = free_ports(1)
    silent = Konverge(konverge.cluster, f"127.0.0.1:{port}")
    refused = silent.run("explain", "database/orders", "-n", kubectl.namespace)
    assert refused.returncode == 1
    assert f"no debug endpoint answers at 127.0.0.1:{port}" in refused.stderr
    assert f"--debug-address 127.0.0.1:{port}" in refused.stderr


def test_explain_says_what_is_not_there(konverge: Konverge, kubectl: Kubectl) -> None:
    missing = konverge.run("explain", "database/nothing", "-n", kubectl.namespace)
    assert missing.returncode == 1
    assert '"nothing" not found' in missing.stderr
    assert "the server has no resource 'wheel'" in konverge.run("explain", "wheel/one").stderr
    assert "write KIND/NAME" in konverge.run("explain", "database").stderr


def test_the_raw_endpoints_answer_too(konverge: Konverge) -> None:
    with urlopen(f"http://{konverge.address}/debug/tasks", timeout=10) as answer:
        tasks = answer.read().decode()
    assert "workqueue/queue.py" in tasks
    with urlopen(f"http://{konverge.address}/debug/profile?seconds=0.5", timeout=10) as answer:
        assert re.search(r" \d+\n", answer.read().decode())


def test_a_changed_configuration_is_taken_over_without_a_restart(
    cluster: Cluster, crds: None, namespace: str, tmp_path: Path
) -> None:
    config = tmp_path / "konverge.yaml"
    config.write_text(f"namespace: [{namespace}]\nlog-level: warning\n")
    with OperatorProcess(cluster, tmp_path / "log", "--config", str(config)) as operator:
        assert "INFO" not in operator.said()
        config.write_text(f"namespace: [{namespace}]\nlog-level: info\nretry-max-delay: 60\nlease-name: another\n")
        assert operator._process is not None
        operator._process.send_signal(signal.SIGHUP)
        until(lambda: "configuration: log-level is now info" in operator.said(), "the new level")
        assert "configuration: retry-max-delay is now 60.0" in operator.said()
        assert "configuration: lease-name has changed; that needs a restart" in operator.said()
        config.write_text("log-levle: debug\n")
        operator._process.send_signal(signal.SIGHUP)
        until(lambda: "unknown key 'log-levle'; did you mean 'log-level'?" in operator.said(), "the refusal")
        assert operator.ready


def test_the_log_of_the_process_can_be_a_file_that_is_rotated(
    cluster: Cluster, crds: None, namespace: str, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"
    flags = ("--log-file", str(log), "--log-format", "json", "-n", namespace)
    with OperatorProcess(cluster, tmp_path / "stderr", *flags) as operator:
        log.rename(tmp_path / "operator.log.1")
        assert operator._process is not None
        operator._process.send_signal(signal.SIGUSR1)
        until(lambda: log.exists() and "reopened the log file" in log.read_text(), "the new log file")
