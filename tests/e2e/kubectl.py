"""kubectl as the tests use it: manifests in, what the server holds out, and waiting until it holds something."""

import json
from collections.abc import Callable
from typing import Any

from konverge.errors import ClusterError
from konverge.model.conditions import find
from konverge.model.crd import crd_of, render
from konverge.model.custom import CustomResource
from konverge.testing import Cluster
from konverge.testing.processes import wait_for

WITHIN = 60.0


class Kubectl:
    """`kubectl("get", "pods")` in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def __call__(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess' name for it
        """Run kubectl; return what it printed. Raises: ClusterError with what it complained of."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, input=input)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """`kubectl apply` the manifests."""
        self("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def edit(self, target: str, **spec: Any) -> None:
        """Change the spec of `kind/name`."""
        self("patch", target, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def get(self, target: str) -> Any:
        """`kind/name` as the server holds it, None when it is not there."""
        out = self("get", target, "--ignore-not-found", "--output=json")
        return json.loads(out) if out.strip() else None

    def list(self, kind: str, *arguments: str) -> Any:
        """All objects of a kind in the namespace."""
        return json.loads(self("get", kind, "--output=json", *arguments))["items"]

    def refusal(self, run: Callable[[], object]) -> str:
        """What the server says to something that it must refuse."""
        try:
            run()
        except ClusterError as error:
            return str(error)
        raise AssertionError("the server took what it should refuse")

    def wait_ready(self, target: str) -> None:
        """`kubectl wait` until `kind/name` is Ready."""
        self("wait", "--for=condition=Ready", target, f"--timeout={WITHIN:.0f}s")

    def condition(self, target: str, condition_type: str) -> Any:
        """A condition of `kind/name`; an empty mapping when it is not there."""
        obj = self.get(target) or {}
        return find((obj.get("status") or {}).get("conditions") or [], condition_type) or {}


def until(condition: Callable[[], object], what: str, within: float = WITHIN) -> None:
    """Wait until `condition()` holds. Raises: AssertionError that says `what` did not come."""
    if not wait_for(lambda: bool(condition()), within, poll=0.2):
        raise AssertionError(f"not within {within:g} s: {what}")


def install(cluster: Cluster, *resources: type[CustomResource[Any, Any]]) -> None:
    """Install the CRDs of `resources`, and wait until they are served."""
    crds = [crd_of(resource) for resource in resources]
    cluster.kubectl("apply", "--server-side", "-f", "-", input="---\n".join(render(crd) for crd in crds))
    cluster.wait_for_crds(*(crd["metadata"]["name"] for crd in crds))
