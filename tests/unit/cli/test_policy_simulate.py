"""`konverge policy simulate`, without a cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.cli import main
from tests.unit.scheduler.clusters import node, pod


def policy(name: str = "batch", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.konverge.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"profile": {"schedulerName": name}, **spec},
    }


class Desk:
    """Files in a directory, and the command."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory, self.capsys = directory, capsys

    def cluster(self, *objects: dict[str, Any], name: str = "cluster.json") -> Path:
        file = self.directory / name
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return file

    def policies(self, *documents: Any) -> Path:
        file = self.directory / "policies.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return file

    def run(self, *args: object) -> str:
        main(["policy", "simulate", *map(str, args)], standalone_mode=False)
        return self.capsys.readouterr().out

    def result(self, *args: object) -> Any:
        return json.loads(self.run(*args, "--json"))

    def nodes(self, *args: object) -> dict[str, str]:
        return {each["pod"].removeprefix("default/"): each["node"] for each in self.result(*args)["outcomes"]}

    def refusal(self, *args: object) -> str:
        with pytest.raises(SystemExit):
            main(["policy", "simulate", *map(str, args)], standalone_mode=False)
        return self.capsys.readouterr().err


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    return Desk(tmp_path, capsys)


def test_what_would_become_of_each_pod_is_printed(desk: Desk) -> None:
    cluster = desk.cluster(
        node("n1", cpu="4"),
        node("n2", cpu="4"),
        pod("low", cpu="3", on="n1", scheduler="other"),
        pod("huge", cpu="40", scheduler="batch"),
        pod("fits", cpu="3", scheduler="batch"),
        pod("high", cpu="3", scheduler="batch", priority=9),
        pod("not-ours", scheduler="other"),
    )
    out = desk.run(desk.policies(policy()), "--snapshot", cluster)

    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "POD POLICY NODE WHY NONE"
    assert lines[1].startswith("default/high batch n2")
    assert any(line.startswith("default/huge batch - 0/2 nodes are available: 2 Insufficient cpu.") for line in lines)
    assert "3 pods tried: 1 placed, 2 not" in lines
    assert "2 Insufficient cpu" in lines
    assert "cpu 8 3 (38%) 6 (75%)" in lines
    assert "2 nodes, with pods: 1 before, 2 after" in lines
    assert "not-ours" not in out


def test_evictions_are_printed(desk: Desk) -> None:
    cluster = desk.cluster(
        node("n", cpu="4"), pod("low", cpu="3", on="n"), pod("high", cpu="3", scheduler="batch", priority=9)
    )
    out = desk.run(desk.policies(policy()), "--snapshot", cluster)

    assert "Would be evicted" in out
    assert "default/low  0         n     default/high" in out
    assert not desk.result(desk.policies(policy(preemption={"policy": "Never"})), "--snapshot", cluster)["evictions"]


def test_pods_of_other_schedulers_can_be_tried(desk: Desk) -> None:
    waiting = [pod("a", scheduler="x"), pod("b", scheduler="y"), pod("c", scheduler="batch")]
    cluster, file = desk.cluster(node("n"), *waiting), desk.policies(policy())

    assert desk.nodes(file, "--snapshot", cluster) == {"c": "n"}
    assert desk.nodes(file, "--snapshot", cluster, "--scheduler-name", "x") == {"a": "n", "c": "n"}
    assert desk.nodes(file, "--snapshot", cluster, "--all-pending") == {"a": "n", "b": "n", "c": "n"}
    two = desk.policies(policy(), policy("web"))
    assert "one schedulerName; there are ['batch', 'web']" in desk.refusal(two, "--snapshot", cluster, "--all-pending")


def test_pods_that_have_a_node_are_compared(desk: Desk) -> None:
    daemon = pod("daemon", on="n1", scheduler="default-scheduler")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
    cluster = desk.cluster(
        node("n1", cpu="4"),
        node("n2", cpu="8"),
        pod("moves", cpu="3", on="n1", scheduler="default-scheduler"),
        pod("stays", cpu="5", on="n2", scheduler="default-scheduler"),
        daemon,
    )
    packed = desk.policies(policy(scoring={"strategy": "MostAllocated"}))
    out = desk.run(packed, "--snapshot", cluster, "--compare", "default-scheduler")

    assert "Of 2 pods that default-scheduler placed" in out
    assert "daemon" not in out
    assert desk.run(packed, "--snapshot", cluster) == "No pod waits for these policies.\n"


def test_the_oldest_goes_first(desk: Desk) -> None:
    pods = [pod(name, cpu="3", scheduler="batch") for name in ("a", "b", "c")]
    for raw, minute in zip(pods, (3, 1, 2), strict=True):
        raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:0{minute}:00Z"
    nodes = desk.nodes(desk.policies(policy()), "--snapshot", desk.cluster(node("n", cpu="4"), *pods))

    assert nodes == {"b": "n", "a": "", "c": ""}


def test_a_dump_gives_the_same_again_without_what_may_be_secret(desk: Desk) -> None:
    secret = pod("p", cpu="1", scheduler="batch")
    secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hush"}]
    secret["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hush", "mine": "kept"}
    cluster, file = desk.cluster(node("n1"), node("n2"), secret), desk.policies(policy())
    dump = desk.directory / "dump.json"

    first = desk.result(file, "--snapshot", cluster, "--dump", dump)

    assert desk.result(file, "--snapshot", dump) == first
    assert set(first) == {"outcomes", "reasons", "evictions", "usage", "nodes", "nodesBefore", "nodesAfter"}
    assert "hush" not in dump.read_text()
    assert "kept" in dump.read_text()


def test_a_cluster_may_be_yaml(desk: Desk) -> None:
    file = desk.directory / "cluster.yaml"
    file.write_text(yaml.safe_dump({"kind": "List", "items": [node("n"), pod("p", scheduler="batch")]}))

    assert desk.nodes(desk.policies(policy()), "--snapshot", file) == {"p": "n"}


def test_a_configuration_of_kube_scheduler_will_do(desk: Desk) -> None:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    cluster = desk.cluster(node("n"), pod("p", scheduler="default-scheduler"))
    file = desk.policies(configuration)

    assert "--rename default-scheduler=NAME" in desk.refusal(file, "--snapshot", cluster)
    renamed = (file, "--snapshot", cluster, "--rename", "default-scheduler=batch")
    assert desk.nodes(*renamed, "--scheduler-name", "default-scheduler") == {"p": "n"}


def test_several_policies_share_the_pods_as_they_do_in_a_cluster(desk: Desk) -> None:
    first = policy("first", priority=1, podSelector={"matchLabels": {"app": "web"}})
    second, suspended = policy("second"), policy("third", suspend=True)
    first["spec"]["profile"] = second["spec"]["profile"]
    labelled = pod("web", scheduler="second")
    labelled["metadata"]["labels"] = {"app": "web"}
    cluster = desk.cluster(node("n"), labelled, pod("rest", scheduler="second"), pod("held", scheduler="third"))

    outcomes = desk.result(desk.policies(first, second, suspended), "--snapshot", cluster)["outcomes"]
    assert {each["pod"]: each["policy"] for each in outcomes} == {"default/web": "first", "default/rest": "second"}


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_prints_the_same_whatever_else_differs(desk: Desk, seed: int) -> None:
    cluster = desk.cluster(*(node(f"n{i}") for i in range(7)), *(pod(f"p{i}", scheduler="batch") for i in range(20)))
    file = desk.policies(policy())
    command = [sys.executable, "-m", "konverge", "policy", "simulate", str(file), "--snapshot", str(cluster)]
    printed = {
        subprocess.run(
            [*command, "--seed", str(seed), "--json"],
            env={**os.environ, "PYTHONHASHSEED": hashing},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hashing in ("1", "2")
    }
    assert len(printed) == 1


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "is empty"),
        ([{"apiVersion": "v1", "kind": "Pod"}], "has a Pod; it may have SchedulingPolicies"),
        ([policy("a", scoring={"strategy": "Best"})], "spec.scoring.strategy"),
        ([{**policy(), "metadata": {}}], "without metadata.name"),
    ],
)
def test_a_file_that_holds_no_policy_is_refused(desk: Desk, documents: list[Any], said: str) -> None:
    assert said in desk.refusal(desk.policies(*documents), "--snapshot", desk.cluster(node("n")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "needs `items`"),
        ("{", "neither JSON nor YAML"),
        ('{"items": []}', "has no Node; make it"),
        ('{"items": [{"apiVersion": "v1", "kind": "Pod"}]}', "a Pod has no metadata.name"),
        (json.dumps({"items": [pod("p", cpu="much")]}), "Pod p is not as an API server would have it"),
        (json.dumps({"items": [{**pod("p"), "spec": None}]}), "Pod p is not as an API server would have it"),
        (json.dumps({"items": [node("n", cpu="much")]}), "Node n is not as an API server would have it"),
    ],
)
def test_a_file_that_holds_no_cluster_is_refused(desk: Desk, text: str, said: str) -> None:
    file = desk.directory / "cluster"
    file.write_text(text)
    assert said in desk.refusal(desk.policies(policy()), "--snapshot", file)


def test_without_a_cluster_it_is_said_what_is_missing(desk: Desk) -> None:
    assert "kubeconfig" in desk.refusal(desk.policies(policy())).lower()
