"""A plain kopf handler module beside reconcilers, in two replicas that share a lease: only the leader's handlers act."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

WEB = Path(__file__).parents[2] / "examples" / "web.py"
TARGET = "webs.demo.dev/shop"

HANDLERS = """
import kopf

@kopf.on.startup()
async def prepare(memo, settings, **_):
    memo.word = "prepared"
    settings.posting.enabled = False
    print("start-up", flush=True)

@kopf.on.login()
async def another(**_):
    return None

@kopf.on.event("v1", "configmaps", labels={"beside": "yes"})
async def seen(type, name, memo, **_):
    if type != "DELETED":
        print(f"acted on {name}, {memo.word}", flush=True)

@kopf.on.create("v1", "configmaps", labels={"beside": "yes"})
async def created(patch, **_):
    patch.metadata.annotations["handled"] = "yes"

@kopf.on.cleanup()
async def end(**_):
    print("clean-up", flush=True)
"""


@pytest.fixture
def modules(cluster: Cluster, tmp_path: Path) -> tuple[str, str]:
    """A reconciler's module, its CRD installed, and a plain kopf module."""
    crds = tmp_path / "crds"
    subprocess.run([sys.executable, "-m", "konverge", "crds", str(WEB), "--dir", str(crds)], check=True)
    cluster.kubectl("apply", "--server-side", "-f", str(crds))
    cluster.wait_for_crds("webs.demo.dev")
    handlers = tmp_path / "handlers.py"
    handlers.write_text(HANDLERS)
    return str(WEB), str(handlers)


@pytest.fixture
def replicas(
    cluster: Cluster, namespace: str, modules: tuple[str, str], tmp_path: Path
) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    flags = ("--leader-elect", "--lease-namespace", namespace, "-n", namespace)
    with (
        OperatorProcess(cluster, tmp_path / "first", *modules, *flags) as first,
        OperatorProcess(cluster, tmp_path / "second", *modules, *flags) as second,
    ):
        yield first, second


def said(operator: OperatorProcess) -> str:
    """All of its log."""
    return operator.log.read_text()


def mark(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "configmap", name)
    kubectl("label", "configmap", name, "beside=yes")


def handled(kubectl: Kubectl, name: str) -> bool:
    return "handled" in kubectl.get(f"configmap/{name}")["metadata"].get("annotations", {})


def test_only_the_leaders_handlers_act_and_they_move_with_the_lease(
    kubectl: Kubectl, replicas: tuple[OperatorProcess, OperatorProcess]
) -> None:
    first, second = replicas
    until(lambda: any("handlers are active" in said(each) for each in replicas), "a leader")
    leader, standby = (first, second) if "handlers are active" in said(first) else (second, first)
    for each in replicas:
        assert "start-up" in said(each)

    mark(kubectl, "one")
    until(lambda: handled(kubectl, "one"), "the first object handled")
    assert "acted on one, prepared" in said(leader)

    shop = {"image": "registry.k8s.io/pause:3.10", "replicas": 1, "port": 8080}
    kubectl.apply({"apiVersion": "demo.dev/v1", "kind": "Web", "metadata": {"name": "shop"}, "spec": shop})
    kubectl.wait_ready(TARGET)  # the reconciler beside works too

    assert "acted on" not in said(standby)
    assert standby.ready
    leader.stop()
    log = said(leader)
    assert log.index("the kopf handlers have ended") < log.index("released lease") < log.index("clean-up")

    until(lambda: "handlers are active" in said(standby), "the standby as leader")
    mark(kubectl, "two")
    until(lambda: handled(kubectl, "two"), "the second object handled")
    assert "acted on two, prepared" in said(standby)


def test_a_killed_leaders_handlers_are_taken_over(
    kubectl: Kubectl, replicas: tuple[OperatorProcess, OperatorProcess]
) -> None:
    until(lambda: any("handlers are active" in said(each) for each in replicas), "a leader")
    leader, standby = sorted(replicas, key=lambda each: "handlers are active" in said(each), reverse=True)
    leader.kill()
    mark(kubectl, "one")
    until(lambda: handled(kubectl, "one"), "the object handled by the other")
    assert "acted on one" in said(standby)


def test_without_an_election_the_handlers_act_at_once(
    cluster: Cluster, kubectl: Kubectl, modules: tuple[str, str], tmp_path: Path
) -> None:
    with OperatorProcess(cluster, tmp_path / "log", *modules, "-n", kubectl.namespace) as operator:
        mark(kubectl, "one")
        until(lambda: handled(kubectl, "one"), "the object handled")
        assert "acted on one, prepared" in said(operator)
