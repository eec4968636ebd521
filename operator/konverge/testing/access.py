"""What a test does with a cluster, ours or an existing one: in, a kubeconfig; out, kubectl, requests and namespaces."""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from konverge.errors import ApiError, ClusterError, NotFound
from konverge.testing.client import parse
from konverge.testing.nodes import pods_allowed
from konverge.testing.processes import wait_for

_NAMESPACE_TIMEOUT = 90.0
"""Seconds. A controller manager whose API server was killed takes its time until it lists anew."""


class Cluster(ABC):
    """A cluster that can be reached with `kubeconfig`."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The file that gives access; for ours, as an administrator."""

    @abstractmethod
    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request and return the parsed answer. Raises ApiError and ConnectionFailed."""

    @abstractmethod
    def kubectl_command(self) -> list[str]:
        """How to call kubectl; `kubectl_environment` goes with it. Raises ClusterError where there is none."""

    @property
    def has_controllers(self) -> bool:
        """Whether kube-controller-manager runs: garbage collection, ServiceAccounts, StatefulSets, ..."""
        return True

    def kubectl_environment(self) -> dict[str, str]:
        """The environment that makes kubectl talk to this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess' name for it
        """Run kubectl and return what it printed. Raises ClusterError with what it complained of."""
        result = subprocess.run(  # noqa: S603 - no shell
            [*self.kubectl_command(), *arguments],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            env=self.kubectl_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            message = f"kubectl {' '.join(arguments)} ended with {result.returncode}: {result.stderr.strip()}"
            raise ClusterError(message)
        return result.stdout

    def wait_for_crds(self, *names: str, seconds: float = 60.0) -> None:
        """Wait until these CRDs (such as `webs.demo.dev`) are served. Raises: ClusterError.

        In two steps: kubectl fails instead of waiting for a condition where there are none yet at all, as on a CRD that
        was just made. Once its names are accepted it has some.
        """
        crds = [f"crd/{name}" for name in names]
        for condition in ("jsonpath={.status.acceptedNames.plural}", "condition=Established"):
            self.kubectl("wait", f"--for={condition}", f"--timeout={seconds:.0f}s", *crds)

    def create_namespace(self, prefix: str = "test") -> str:
        """Make a namespace with a name of its own in which pods can be created, and return that name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.request("POST", "/api/v1/namespaces", manifest)
        if self.has_controllers and not wait_for(lambda: pods_allowed(self, name), _NAMESPACE_TIMEOUT):
            message = (
                f"the namespace {name} got no `default` ServiceAccount within {_NAMESPACE_TIMEOUT:.0f} s: "
                "is kube-controller-manager running?"
            )
            raise ClusterError(message)
        return name

    def delete_namespace(self, name: str) -> None:
        """Ask for the deletion of a namespace; what is in it goes while others go on."""
        try:
            self.request("DELETE", f"/api/v1/namespaces/{name}")
        except NotFound:
            return


class ExistingCluster(Cluster):
    """A cluster that somebody else runs; whatever way its kubeconfig proves who we are, kubectl knows it."""

    def __init__(self, kubeconfig: Path) -> None:
        if not kubeconfig.is_file():
            message = f"there is no kubeconfig {kubeconfig}"
            raise ClusterError(message)
        self._kubeconfig = kubeconfig

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def kubectl_command(self) -> list[str]:
        return [kubectl_on_path()]

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        verb = {"GET": "get", "POST": "create", "PUT": "replace", "DELETE": "delete"}[method]
        source: list[str] = []
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            if body is not None:
                json.dump(body, file)
                file.flush()
                source = ["-f", file.name]
            try:
                text = self.kubectl(verb, f"--raw={path}", *source)
            except ClusterError as error:
                raise _as_api_error(error) from error
        return parse(text)


def kubectl_on_path() -> str:
    """The kubectl on the PATH. Raises ClusterError without one."""
    found = shutil.which("kubectl")
    if found is None:
        message = "there is no kubectl on the PATH: install it, or use a cluster of `konverge cluster up`"
        raise ClusterError(message)
    return found


def _as_api_error(error: ClusterError) -> Exception:
    text = str(error)
    for word, status in (("(NotFound)", 404), ("(AlreadyExists)", 409), ("(Forbidden)", 403)):
        if word in text:
            return ApiError.of(status, word.strip("()"), text)
    return error
