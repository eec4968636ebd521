"""Argo CD at work on a local cluster: in, its program, a cluster and a directory for its files; out, running controllers.

An installation as its own manifests make it, but for what needs pods: the application controller and the repo server are
processes here, with a Redis between them. They end with the process that started them.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from konverge.errors import NotFound
from konverge.testing import LocalCluster
from konverge.testing.loopback import HOST, free_ports
from konverge.testing.processes import Lifeline, ProcessRef, alive, end, spawn
from tests.e2e.kubectl import WITHIN, Kubectl, until
from tests.gitops.program import Program

NAMESPACE: Final = "argocd"
CONTROLLER: Final = "argocd-application-controller"
RESYNC_SECONDS: Final = 5
"""How often it looks at everything anew, whether it was told of a change or not."""
FIRST_SYNC_SECONDS: Final = 120.0
_LABEL: Final = {"app.kubernetes.io/part-of": "argocd"}
_GRACE = 10.0
_TAIL = 3000


class ArgoCD:
    """`with ArgoCD(program, cluster, directory) as argo:` what it needs is installed, and it follows its Applications."""

    def __init__(self, program: Program, cluster: LocalCluster, directory: Path) -> None:
        self.kubectl = Kubectl(cluster, NAMESPACE)
        self._program, self._cluster, self._directory = program, cluster, directory
        self._lifeline: Lifeline | None = None
        self._processes: dict[str, ProcessRef] = {}

    def __enter__(self) -> Self:
        self._install()
        self._lifeline = Lifeline.open()
        redis, repo_server, *metrics = free_ports(4)
        self._spawn("redis", "--address", f"{HOST}:{redis}")
        self._spawn(
            "argocd-repo-server",
            *("--address", HOST, "--port", str(repo_server)),
            *("--metrics-address", HOST, "--metrics-port", str(metrics[0])),
            *("--redis", f"{HOST}:{redis}"),
            "--disable-tls",
        )
        self._spawn(
            CONTROLLER,
            *("--kubeconfig", str(self._cluster.kubeconfig), "--namespace", NAMESPACE),
            *("--repo-server", f"{HOST}:{repo_server}", "--repo-server-plaintext"),
            *("--redis", f"{HOST}:{redis}"),
            *("--metrics-port", str(metrics[1])),
            *("--app-resync", str(RESYNC_SECONDS), "--app-resync-jitter", "0"),
            "--persist-resource-health",  # so that the health of each resource stands in the Application's status
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.said())
        end(list(self._processes.values()), grace=_GRACE)
        if self._lifeline is not None:
            self._lifeline.close()

    def said(self) -> str:
        """The ends of its logs, and which parts are gone."""
        return "\n".join(
            f"{name} ({'runs' if alive(ref) else 'ended'}):\n{self._log(name).read_text(errors='replace')[-_TAIL:]}"
            for name, ref in self._processes.items()
        )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _spawn(self, component: str, *arguments: str) -> None:
        self._processes[component] = spawn(
            self._program.command(component, *arguments),
            self._log(component),
            environment=self._environment(),
            lifeline=self._lifeline,
            bundled=False,
        )

    def _environment(self) -> dict[str, str]:
        """`kustomize` on the PATH, files in our own directory, and the in-cluster address for the local cluster."""
        programs = self._directory / "bin"
        programs.mkdir(exist_ok=True)
        kustomize = programs / "kustomize"
        if not kustomize.exists():
            kustomize.symlink_to(self._program.binary)
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self._directory),
            "TMPDIR": str(self._directory),
            "KUBECONFIG": str(self._cluster.kubeconfig),
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_ASK_PASS_SOCK": str(self._directory / "ask-pass.sock"),
        }

    def _install(self) -> None:
        for path in self._program.crds:
            self._cluster.kubectl("apply", "--server-side", "-f", str(path))
        until(lambda: all(map(self._served, ("applications.argoproj.io", "appprojects.argoproj.io"))), "Argo CD's CRDs")
        self._cluster.kubectl("create", "namespace", NAMESPACE)
        maps = ("argocd-cm", "argocd-rbac-cm", "argocd-cmd-params-cm")
        self.kubectl.apply(
            *(_object("v1", "ConfigMap", name, labels=_LABEL) for name in maps),
            _object("v1", "Secret", "argocd-secret", labels=_LABEL, stringData={"server.secretkey": "none"}),
        )

    def _served(self, crd: str) -> bool:
        return bool(self.kubectl.condition(f"crd/{crd}", "Established").get("status") == "True")


class Application:
    """One Application, as `argocd app` shows it."""

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.name, self._kubectl = name, kubectl
        self._target = f"applications.argoproj.io/{name}"
        self._path = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applications/{name}"

    def read(self) -> Any:
        """The object, None when it is not there."""
        try:
            return self._kubectl.cluster.request("GET", self._path)
        except NotFound:
            return None

    @property
    def status(self) -> Any:
        """Its status, empty before there is one."""
        return (self.read() or {}).get("status") or {}

    @property
    def health(self) -> str:
        """The worst health of its resources."""
        return str((self.status.get("health") or {}).get("status"))

    @property
    def is_synced(self) -> bool:
        """Whether nothing differs from git, as far as it has looked."""
        return bool((self.status.get("sync") or {}).get("status") == "Synced")

    @property
    def syncs(self) -> int:
        """How often it has written what git holds."""
        return len(self.status.get("history") or [])

    def health_of(self, kind: str) -> str | None:
        """The health of its resource of that kind; None where it has no opinion of it."""
        return health_in(self.read(), kind)

    def watch_arguments(self) -> list[str]:
        """kubectl's arguments to follow it."""
        return ["--namespace", NAMESPACE, "get", self._target, "--watch", "--output=json"]

    def refresh(self, how: str = "normal") -> None:
        """Compare anew with git: "normal" with the last commit, "hard" also without any cache. Returns when it has."""
        key = "argocd.argoproj.io/refresh"
        self._kubectl("annotate", self._target, f"{key}={how}", "--overwrite")
        until(lambda: key not in (self.read()["metadata"].get("annotations") or {}), f"a refresh of {self.name}")

    def wait_synced(self, revision: str) -> None:
        """Until the commit `revision` is in the cluster."""
        self.refresh()
        self._until(lambda: _holds(self.read(), revision), f"synced to {revision}")

    def wait_first_sync(self) -> None:
        """Until all that git holds is in the cluster."""
        self._until(lambda: self.is_synced, "synced", within=FIRST_SYNC_SECONDS)

    def wait_health(self, health: str) -> None:
        """Until its health is `health`."""
        self._until(lambda: self.health == health, health)

    def wait_settled(self) -> None:
        """Until nothing differs from git and all is healthy."""
        self._until(lambda: self.is_synced and self.health == "Healthy", "settled")

    def problem(self) -> str:
        """What it says of itself and of its resources."""
        status = self.status
        operation = status.get("operationState") or {}
        return json.dumps(
            {
                "conditions": status.get("conditions"),
                "operation": [operation.get("phase"), operation.get("message")],
                "resources": {
                    each["name"]: [each.get("status"), each.get("health")] for each in status.get("resources", [])
                },
            }
        )

    def _until(self, condition: Callable[[], object], what: str, within: float = WITHIN) -> None:
        try:
            until(condition, f"{self.name} {what}", within)
        except AssertionError as error:
            error.add_note(self.problem())
            raise


def health_in(application: Any, kind: str) -> str | None:
    """What one state of an Application says of the health of its resource of that kind."""
    resources = (application.get("status") or {}).get("resources") or []
    found = [each.get("health") or {} for each in resources if each["kind"] == kind]
    assert len(found) <= 1, f"{len(found)} resources of kind {kind}"
    return found[0].get("status") if found else None


def _holds(application: Any, revision: str) -> bool:
    status = application.get("status") or {}
    sync, operation = status.get("sync") or {}, status.get("operationState") or {}
    return (
        sync.get("status") == "Synced"
        and sync.get("revision") == revision
        and operation.get("phase") == "Succeeded"
        and "operation" not in application
    )


def _object(api_version: str, kind: str, name: str, *, labels: dict[str, str], **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, **rest}
