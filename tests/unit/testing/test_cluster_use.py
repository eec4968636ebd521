"""What needs no running cluster: the fixtures' choice, the furniture, and the command's answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from konverge import testing
from konverge.cli.cluster import cluster
from konverge.errors import AlreadyExists, ClusterError
from konverge.testing.access import ExistingCluster
from konverge.testing.cluster import LocalCluster, cluster_names, sweep
from konverge.testing.fixtures import session_cluster
from konverge.testing.nodes import furnish, node, ready_nodes


class Server:
    """Remembers what was created; refuses a name that it has."""

    def __init__(self) -> None:
        self.created: dict[str, Mapping[str, Any]] = {}

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if method == "GET":
            return {"items": [item for key, item in self.created.items() if key.startswith(path)]}
        assert body is not None
        key = f"{path}/{body['metadata']['name']}"
        if key in self.created:
            raise AlreadyExists(409, "AlreadyExists", key)
        self.created[key] = {"spec": {}, **body}
        return body


def test_furnishing_twice_adds_only_what_is_missing() -> None:
    server = Server()
    furnish(server, 1)
    before = dict(server.created)
    furnish(server, 3)
    assert {key: server.created[key] for key in before} == before
    assert sorted(server.created) == [
        "/api/v1/nodes/node-1",
        "/api/v1/nodes/node-2",
        "/api/v1/nodes/node-3",
        "/apis/storage.k8s.io/v1/storageclasses/standard",
    ]


@pytest.mark.parametrize(
    ("ready", "taints", "takes"),
    [("True", [], 1), ("False", [], 0), ("True", ["node.kubernetes.io/not-ready"], 0), ("True", ["mine"], 1)],
)
def test_a_node_takes_pods_once_it_is_ready_and_its_taint_is_gone(ready: str, taints: list[str], takes: int) -> None:
    server = Server()
    manifest = node(1) | {
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    server.request("POST", "/api/v1/nodes", manifest)
    assert ready_nodes(server) == (takes, 1)


def test_addresses_of_many_nodes_are_different_and_valid() -> None:
    import ipaddress  # noqa: PLC0415 - only here

    addresses = {node(number)["status"]["addresses"][0]["address"] for number in range(1, 5001)}
    assert len(addresses) == 5000
    assert all(ipaddress.ip_address(each).is_private for each in addresses)


def test_the_fixture_uses_the_cluster_that_tests_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("kind: Config\n")
    monkeypatch.setenv("KUBECONFIG", "/production")
    monkeypatch.setenv("KONVERGE_TEST_KUBECONFIG", str(kubeconfig))
    with session_cluster() as found:
        assert isinstance(found, ExistingCluster)
        assert found.kubectl_environment()["KUBECONFIG"] == str(kubeconfig)


def test_an_existing_cluster_needs_its_kubeconfig_and_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="there is no kubeconfig"):
        ExistingCluster(tmp_path / "config")
    (tmp_path / "config").write_text("kind: Config\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="no kubectl on the PATH"):
        ExistingCluster(tmp_path / "config").kubectl("version")


def test_public_names_resolve() -> None:
    assert testing.LocalCluster is LocalCluster
    with pytest.raises(AttributeError, match="Nothing"):
        testing.Nothing  # noqa: B018 - the look is the test


def test_a_cluster_that_was_not_started_says_so(cache_dir: Path) -> None:
    with pytest.raises(ClusterError, match="is not started"):
        LocalCluster("demo").kubeconfig  # noqa: B018 - the look is the test
    assert cluster_names() == []
    assert sweep("demo") == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["status"], 1, "There is no cluster; start one with `konverge cluster up`"),
        (
            ["status", "--name", "demo"],
            1,
            "the cluster 'demo' does not exist; `konverge cluster up --name demo` starts it",
        ),
        (["kubeconfig"], 1, "Error: the cluster 'default' does not exist"),
        (["kubectl", "--", "get", "pods"], 1, "Error: the cluster 'default' does not exist"),
        (["down"], 0, "There is no cluster default; nothing to do"),
        (["up", "--name", "No"], 1, "Error: 'No' cannot name a cluster"),
        (["up", "--nodes", "-1"], 2, "is not in the range"),
    ],
)
def test_the_command_says_what_is_wrong_and_what_to_do(
    cache_dir: Path, arguments: list[str], code: int, text: str
) -> None:
    result = CliRunner().invoke(cluster, arguments)
    assert text in result.output
    assert result.exit_code == code
