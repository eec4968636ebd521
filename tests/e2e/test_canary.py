"""Passwords planted as canaries: after all that happens to a Database, no one but the Secrets and their readers has one."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from konverge.errors import ClusterError
from konverge.testing import Cluster
from konverge.testing.loopback import free_ports
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

DB = "databases.data.konverge.dev/orders"
PLANTED = "canary-in-the-coal-mine-4711"
ROTATE = "data.konverge.dev/rotate-password"


@pytest.fixture
def debug_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def talkative(
    cluster: Cluster, crds: None, namespace: str, tmp_path: Path, debug_address: str
) -> Iterator[OperatorProcess]:
    """An operator of this namespace that logs and shows all that it can."""
    flags = ("--namespace", namespace, "--log-level", "debug", "--debug-address", debug_address)
    with OperatorProcess(cluster, tmp_path / "log", *flags) as running:
        yield running


def everything(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """What every object of the cluster says; of a Secret its metadata alone."""
    for obj in listed(kubectl):
        shown: Any = obj["metadata"] if obj["kind"] == "Secret" else obj
        yield f"{obj['kind']} {obj['metadata']['name']}", json.dumps(shown)


def listed(kubectl: Kubectl) -> list[Any]:
    """All objects of all kinds; a CRD of another test that goes in between is asked for once more, without it."""
    for attempt in range(5):
        kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
        try:
            items: list[Any] = json.loads(kubectl("get", ",".join(kinds), "--all-namespaces", "--output=json"))["items"]
        except ClusterError as error:
            if attempt == 4 or not any(word in str(error) for word in ("doesn't have a resource type", "NotFound")):
                raise
        else:
            return items
    raise AssertionError("unreachable")


def shown_by(debug_address: str, path: str) -> str:
    with urlopen(f"http://{debug_address}/debug/{path}", timeout=10) as answer:
        return str(answer.read().decode())


def password(kubectl: Kubectl) -> str:
    return str(kubectl.get("secret/orders-credentials")["data"]["password"])


def test_a_password_is_shown_nowhere(kubectl: Kubectl, talkative: OperatorProcess, debug_address: str) -> None:
    kubectl.apply(
        {
            "apiVersion": "data.konverge.dev/v1alpha1",
            "kind": "Database",
            "metadata": {"name": "orders"},
            "spec": {"version": "17.2", "replicas": 2, "storage": {"size": "1Gi"}},
        }
    )
    kubectl.wait_ready(DB)
    encoded = [password(kubectl)]
    planted = b64encode(PLANTED.encode()).decode()
    kubectl(
        "patch", "secret/orders-credentials", "--type=merge", "--patch", json.dumps({"data": {"password": planted}})
    )
    until(lambda: kubectl.get("secret/orders-binding")["data"]["password"] == planted, "the planted password")
    encoded.append(planted)
    kubectl("annotate", DB, f"{ROTATE}=1")
    until(lambda: kubectl.get(DB)["status"].get("passwordRotation") == "1", "a new password")
    encoded.append(password(kubectl))
    kubectl("patch", "secret/orders-credentials", "--type=merge", "--patch", json.dumps({"data": {"password": ""}}))
    until(lambda: password(kubectl) not in {"", encoded[-1]}, "a password in place of the one taken away")
    encoded.append(password(kubectl))
    kubectl.edit(DB, storage={"size": "2Gi"}, version="17.4")
    until(lambda: kubectl.get(DB)["status"].get("storage") == "2Gi", "larger volumes")
    kubectl.wait_ready(DB)

    told = dict(everything(kubectl))
    told["log"] = talkative.log.read_text()
    pages = ("metrics", "queues", "caches", "tasks", f"explain/Database/{kubectl.namespace}/orders")
    told.update((page, shown_by(debug_address, page)) for page in pages)

    assert len(set(encoded)) == 4
    assert "Pod orders-0" in told
    assert "Secret orders-credentials" in told
    assert "orders" in told["log"]
    secrets = {*encoded, *(b64decode(each).decode() for each in encoded)}
    leaks = sorted(where for where, text in told.items() for value in secrets if value in text)
    assert leaks == []
