"""The local cluster as its users meet it: started, used, broken and ended for real."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge.errors import ApiError, ClusterError, ConnectionFailed, NotFound
from konverge.testing import Cluster, ExistingCluster, LocalCluster
from konverge.testing.binaries import COMPONENTS
from konverge.testing.cluster import cluster_names, sweep
from konverge.testing.components import Ports
from konverge.testing.launch import tear_down
from konverge.testing.loopback import free_ports
from konverge.testing.paths import binaries_root, cluster_directory, clusters_root
from konverge.testing.processes import ProcessRef, alive, running, wait_for
from konverge.testing.state import State

STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: "postgres:17", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
"""

COMMAND = [sys.executable, "-c", "from konverge.cli.cluster import cluster; cluster()"]


@pytest.fixture
def local(cluster: Cluster) -> LocalCluster:
    """The session's cluster, where it is ours to break."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("needs a cluster that the tests started themselves")
    return cluster


@pytest.fixture
def own_cache(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of the test's own, with the binaries of the user's; whatever still runs in it is ended."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("needs a machine where local clusters start")
    binaries = binaries_root()
    monkeypatch.setenv("KONVERGE_CACHE_DIR", str(tmp_path))
    (tmp_path / "binaries").symlink_to(binaries)
    yield tmp_path
    for name in cluster_names():
        tear_down(cluster_directory(name), grace=0)


def konverge_cluster(*arguments: str, expect: int = 0) -> str:
    """Run the command in a process of its own and return what it printed."""
    result = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == expect, result.stderr
    return result.stdout + result.stderr


def processes(name: str) -> list[ProcessRef]:
    """Every server of the cluster that is found among the machine's processes."""
    return [ref for refs in running(cluster_directory(name), COMPONENTS).values() for ref in refs]


def recorded(name: str) -> dict[str, ProcessRef]:
    state = State.load(cluster_directory(name))
    return state.processes if state is not None else {}


def gone(refs: list[ProcessRef]) -> bool:
    return wait_for(lambda: not any(map(alive, refs)), 30)


# Use


def test_nodes_take_pods_and_lie_in_zones(local: LocalCluster) -> None:
    nodes = local.request("GET", "/api/v1/nodes")["items"]
    assert local.ready_nodes() == (3, 3)
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == [
        "zone-a",
        "zone-b",
        "zone-c",
    ]
    assert {node["status"]["allocatable"]["cpu"] for node in nodes} == {"8"}


def test_kubectl_returns_what_it_prints_and_raises_what_it_complains_of(cluster: Cluster, namespace: str) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n"
    assert cluster.kubectl("apply", "-n", namespace, "-f", "-", input=text) == "configmap/one created\n"
    assert cluster.kubectl("get", "cm/one", "-n", namespace, "-o", "jsonpath={.data.a}") == "b"
    with pytest.raises(ClusterError, match=r'configmaps "two" not found'):
        cluster.kubectl("get", "cm/two", "-n", namespace)


def test_a_stateful_set_gets_volumes_and_running_pods(local: LocalCluster, namespace: str) -> None:
    def claim() -> Any:
        return local.request("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data-db-0")

    local.kubectl("apply", "-n", namespace, "-f", "-", input=STATEFUL_SET)
    local.kubectl("rollout", "status", "sts/db", "-n", namespace, "--timeout=60s")
    pods = local.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]
    assert claim()["status"]["phase"] == "Bound"

    patch = '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
    local.kubectl("patch", "pvc/data-db-0", "-n", namespace, "-p", patch)
    assert wait_for(lambda: claim()["status"]["capacity"]["storage"] == "2Gi", 30)
    volume = f"/api/v1/persistentvolumes/{claim()['spec']['volumeName']}"
    assert local.request("GET", volume)["spec"]["capacity"]["storage"] == "2Gi"

    local.kubectl("delete", "sts/db", "pvc/data-db-0", "-n", namespace, "--timeout=60s")
    assert wait_for(lambda: missing(local, volume), 30)


def missing(cluster: Cluster, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except NotFound:
        return True
    return False


def test_a_deployment_becomes_available(local: LocalCluster, namespace: str) -> None:
    local.kubectl("apply", "-n", namespace, "-f", "-", input=DEPLOYMENT)
    local.kubectl("wait", "deployment/web", "-n", namespace, "--for=condition=Available", "--timeout=60s")
    assert local.kubectl("get", "deployment/web", "-n", namespace, "-o", "jsonpath={.status.readyReplicas}") == "2"


def test_a_pod_that_another_scheduler_binds_runs(local: LocalCluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"schedulerName": "mine", "containers": [{"name": "main", "image": "busybox"}]}
    local.request("POST", path, {"metadata": {"name": "pod"}, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-2"}
    local.request("POST", f"{path}/pod/binding", {"metadata": {"name": "pod"}, "target": target})
    assert wait_for(lambda: local.request("GET", f"{path}/pod")["status"]["phase"] == "Running", 30)


def test_an_existing_cluster_serves_as_well(
    local: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").symlink_to(local.kubectl_command()[0])
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    existing = ExistingCluster(local.kubeconfig)
    name = existing.create_namespace()
    assert local.request("GET", f"/api/v1/namespaces/{name}")["status"]["phase"] == "Active"
    existing.delete_namespace(name)
    assert wait_for(lambda: missing(existing, f"/api/v1/namespaces/{name}"), 30)
    existing.delete_namespace(name)
    assert existing.request("GET", "/readyz") == "ok"


# Faults


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_api_server_restarts_with_its_data_and_address(
    local: LocalCluster, namespace: str, how: signal.Signals
) -> None:
    path, server, pid = f"/api/v1/namespaces/{namespace}", local.server, local.pids["kube-apiserver"]
    before = local.request("GET", path)["metadata"]["uid"]
    local.restart_apiserver(how)
    assert local.request("GET", path)["metadata"]["uid"] == before
    assert local.server == server
    assert local.pids["kube-apiserver"] != pid


def test_a_killed_api_server_answers_nobody_until_it_is_started(local: LocalCluster) -> None:
    local.kill_apiserver()
    try:
        with pytest.raises(ConnectionFailed):
            local.request("GET", "/readyz")
        assert local.problems() == ["kube-apiserver is not running"]
    finally:
        local.start_apiserver()
    assert local.problems() == []


# Life


def test_up_twice_leaves_the_running_one_and_down_leaves_nothing(own_cache: Path) -> None:
    kubeconfig = own_cache / "mine"
    assert "1 of 1 nodes ready" in konverge_cluster("up", "--nodes=1", f"--kubeconfig={kubeconfig}")
    first = recorded("default")
    assert set(first) == set(COMPONENTS)
    assert all(map(alive, first.values())), "a detached cluster outlives its command"

    assert "2 of 2 nodes ready" in konverge_cluster("up", "--nodes=2", f"--kubeconfig={kubeconfig}")
    assert recorded("default") == first
    assert "2 of 2 nodes ready" in konverge_cluster("status")
    assert konverge_cluster("kubectl", "--", "get", "nodes", "-o", "name") == "node/node-1\nnode/node-2\n"
    assert ExistingCluster(kubeconfig).kubeconfig.stat().st_mode & 0o777 == 0o600
    assert konverge_cluster("kubeconfig").strip() == str(cluster_directory("default") / "kubeconfig")

    assert konverge_cluster("down") == "Cluster default is down\n"
    assert gone(list(first.values()))
    assert not cluster_directory("default").exists()
    assert "nothing to do" in konverge_cluster("down")
    assert "There is no cluster" in konverge_cluster("status", expect=1)


def test_two_clusters_run_side_by_side(local: LocalCluster, own_cache: Path, namespace: str) -> None:
    with LocalCluster("other", nodes=0) as other:
        assert other.server != local.server
        assert missing(other, f"/api/v1/namespaces/{namespace}")
        assert not missing(local, f"/api/v1/namespaces/{namespace}")
    assert local.problems() == []


def test_what_a_dead_component_leaves_is_replaced(own_cache: Path) -> None:
    konverge_cluster("up", "--nodes=0")
    before = recorded("default")
    os.kill(before["kwok"].pid, signal.SIGKILL)
    assert wait_for(lambda: not alive(before["kwok"]), 10)
    assert "broken: kwok is not running" in konverge_cluster("status", expect=1)

    assert "replacing what was left" in konverge_cluster("up", "--nodes=0")
    assert gone(list(before.values()))
    assert not set(before.values()) & set(recorded("default").values())
    konverge_cluster("down")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_leaves_nothing(own_cache: Path, number: signal.Signals) -> None:
    command = started_until_apiserver()
    seen = list(recorded("default").values())
    command.send_signal(number)
    assert command.wait(60) != 0
    assert gone(seen)
    assert processes("default") == []
    assert not cluster_directory("default").exists()


def test_what_a_killed_up_leaves_is_replaced(own_cache: Path) -> None:
    command = started_until_apiserver()
    command.kill()
    command.wait(60)
    leftover = processes("default")
    assert leftover
    assert "did not start completely" in konverge_cluster("status", expect=1)
    konverge_cluster("up", "--nodes=0")
    assert gone(leftover)
    konverge_cluster("down")


def started_until_apiserver() -> "subprocess.Popen[bytes]":
    """`up` in a process of its own, in the middle of its work."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child would inherit that it is ignored
    try:
        command = subprocess.Popen([*COMMAND, "up", "--nodes=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert wait_for(lambda: "kube-apiserver" in recorded("default"), 60, poll=0.01)
    return command


OWNER = """
import json, sys
from konverge.testing import LocalCluster
cluster = LocalCluster("owned", nodes=0).start()
print(json.dumps(cluster.pids), flush=True)
sys.stdin.read()
"""


def killed_owner(environment: dict[str, str]) -> list[ProcessRef]:
    """Start a bound cluster in a process of its own, kill that, and return the servers that it had."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment}
    )
    with owner:
        assert owner.stdout is not None
        pids: dict[str, int] = json.loads(owner.stdout.readline())
        servers = list(recorded("owned").values())
        assert sorted(ref.pid for ref in servers) == sorted(pids.values())
        owner.kill()
    return servers


def test_a_killed_owner_leaves_no_process(own_cache: Path) -> None:
    servers = killed_owner({})
    assert len(servers) == len(COMPONENTS)
    assert gone(servers)
    assert sweep("own") == ["owned"]
    assert list(clusters_root().iterdir()) == []


def test_a_cluster_with_a_living_owner_is_not_taken_over(own_cache: Path) -> None:
    with LocalCluster("mine", nodes=0) as mine:
        assert "belongs to process" in konverge_cluster("up", "--name=mine", expect=1)
        assert sweep("mine") == []
        assert LocalCluster("mine", nodes=0).start().pids == mine.pids
        with pytest.raises(ClusterError, match="only that can start parts"):
            LocalCluster.attach("mine").start_apiserver()


@pytest.fixture
def assets(local: LocalCluster, tmp_path: Path) -> Path:
    """A directory as envtest's users have it: etcd and kube-apiserver, under their names."""
    directory = tmp_path / "assets"
    directory.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (directory / name).symlink_to(local.kubectl_command()[0])
    return directory


def test_kubebuilder_assets_start_what_is_there(own_cache: Path, assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    with LocalCluster("assets") as cluster:
        assert set(cluster.pids) == {"etcd", "kube-apiserver"}
        assert cluster.missing == ["kube-controller-manager", "kube-scheduler", "kwok", "kubectl"]
        namespace = cluster.create_namespace()
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        pod = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "p"}, "spec": spec})
        assert pod["status"]["phase"] == "Pending"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_foreign_programs_end_with_their_owner(own_cache: Path, assets: Path) -> None:
    assert gone(killed_owner({"KUBEBUILDER_ASSETS": str(assets)}))


def test_a_component_that_does_not_start_is_named_with_the_end_of_its_log(
    own_cache: Path, assets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (assets / "etcd").unlink()
    (assets / "etcd").write_text("#!/bin/sh\necho the disk is on fire\nexit 7\n")
    (assets / "etcd").chmod(0o700)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    with pytest.raises(ClusterError, match=r"(?s)etcd ended with exit code 7; the end of .*the disk is on fire"):
        LocalCluster("broken").start()
    assert processes("broken") == []
    assert not cluster_directory("broken").exists()


def test_a_port_that_was_taken_meanwhile_is_chosen_anew(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = Ports(other.getsockname()[1], *free_ports(2))
        choices = [Ports(*free_ports(3)), taken]
        monkeypatch.setattr(Ports, "pick", choices.pop)
        with LocalCluster("ports", nodes=0) as cluster:
            assert cluster.problems() == []
    assert choices == []


def test_errors_of_the_server_arrive_by_status(local: LocalCluster) -> None:
    with pytest.raises(ApiError) as caught:
        local.request("POST", "/api/v1/namespaces", {"metadata": {"name": "Not A Name"}})
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
