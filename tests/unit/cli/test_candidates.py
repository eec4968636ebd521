"""What a shell offers behind `konverge explain`, `states` and `cluster --name`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from konverge.cli import candidates, cli
from konverge.kube.discovery import Served
from konverge.model.resource import ConfigMap, Namespace, Pod
from konverge.testing.fake import FakeApi
from konverge.testing.loopback import free_ports
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, Lamp

KINDS = [
    Served(each, frozenset({each.plural}), frozenset({"get", "list"}))
    for each in (ConfigMap, Namespace, Pod, Gadget.resource, Lamp.resource)
]


def offered(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(cli, {}, "konverge", "").get_completions(before, incomplete)]


async def make(api: FakeApi, kind: Any, *names: str) -> None:
    for name in names:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {}}
        await api.create(kind, body, NAMESPACE)


@simulate()
async def test_kinds_that_an_operator_may_be_asked_about_are_offered(sim: Sim) -> None:
    api: Any = FakeApi(clock=sim.clock, random=sim.random)
    assert await candidates.offered(api, KINDS, NAMESPACE, "") == ["pod/", "gadget/", "lamp/"]
    assert await candidates.offered(api, KINDS, NAMESPACE, "ga") == ["gadget/"]
    assert await candidates.offered(api, KINDS, NAMESPACE, "wheel") == []


@simulate()
async def test_of_one_kind_its_objects_are_offered(sim: Sim) -> None:
    api: Any = FakeApi(clock=sim.clock, random=sim.random)
    await make(api, Gadget.resource, "one", "other", "two")
    await make(api, Lamp.resource, "oil")
    assert await candidates.offered(api, KINDS, NAMESPACE, "ga") == ["gadget/one", "gadget/other", "gadget/two"]
    assert await candidates.offered(api, KINDS, NAMESPACE, "gadget/o") == ["gadget/one", "gadget/other"]
    assert await candidates.offered(api, KINDS, NAMESPACE, "gadget/x") == []
    assert await candidates.offered(api, KINDS, "elsewhere", "gadget/") == []


@pytest.mark.parametrize("kubeconfig", ["", "refusing"])
def test_a_cluster_that_does_not_answer_offers_nothing(kubeconfig: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if kubeconfig:
        (port,) = free_ports(1)
        path.write_text(
            f'clusters: [{{name: x, cluster: {{server: "http://127.0.0.1:{port}"}}}}]\n'
            "contexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x, user: {token: t}}]\n"
            "current-context: x\n"
        )
    assert offered("explain", "--kubeconfig", str(path), "ga") == []


def test_own_kinds_are_offered_where_states_wants_one() -> None:
    assert offered("states", "") == ["database", "schedulingpolicy"]
    assert offered("states", "d") == ["database"]


def test_clusters_that_are_there_are_offered_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KONVERGE_CACHE_DIR", str(tmp_path))
    for name in ("demo", "default"):
        (tmp_path / "clusters" / name).mkdir(parents=True)
    with_names = [name for name, command in cluster_commands().items() if "--name" in options_of(command)]
    assert set(with_names) == {"up", "down", "status", "kubeconfig", "kubectl"}
    for command in with_names:
        assert offered("cluster", command, "--name", "de") == ["default", "demo"]
        assert offered("cluster", command, "--name", "dem") == ["demo"]


def cluster_commands() -> Mapping[str, click.Command]:
    group = cli.get_command(click.Context(cli), "cluster")
    assert isinstance(group, click.Group)
    return group.commands


def options_of(command: click.Command) -> list[str]:
    return [option for each in command.params for option in each.opts]
