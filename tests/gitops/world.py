"""A cluster that follows a git repository through Argo CD: in, its program; out, what the tests look at and change.

The operator is a process of this machine; in the cluster kwok plays its pods. Like those it gets the Deployment's own
arguments and the ServiceAccount's token, and no other right than the manifests give.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from konverge.testing import LocalCluster, OperatorProcess
from konverge.testing.cluster import sweep
from konverge.testing.processes import end, spawn, wait_for
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.limited import Limited
from tests.e2e.shims import environment
from tests.gitops.argo import CONTROLLER, Application, ArgoCD
from tests.gitops.journal import Journal, Write
from tests.gitops.page import section
from tests.gitops.program import Program
from tests.gitops.repository import Repository
from tests.tutorial import Block, Reader

OPERATOR_NAMESPACE: Final = "konverge-system"
OPERATOR_USER: Final = f"system:serviceaccount:{OPERATOR_NAMESPACE}:konverge"
QUIET_SECONDS: Final = float(os.environ.get("KONVERGE_QUIET_SECONDS", "20"))
"""How long nothing may be written once all is settled; Argo CD looks at everything anew several times meanwhile."""

_PREFIX = "gitops-"
_ROUTINE = ("leases.coordination.k8s.io", "events", "events.k8s.io", "applications.argoproj.io")
"""What the two keep of themselves, whatever they do or don't do to the rest."""


class World:
    """`operator_app` and `resources` are the two Applications; `kubectl` works where the resources are."""

    def __init__(self, cluster: LocalCluster, argo: ArgoCD, program: Program, directory: Path) -> None:
        self.cluster, self._argo, self._program, self._directory = cluster, argo, program, directory
        self.repository = Repository(directory / "repository")
        self.journal = Journal(cluster.audit_log)
        self.kubectl = Kubectl(cluster, "default")
        self.system = Kubectl(cluster, OPERATOR_NAMESPACE)
        self.operator_app = Application(argo.kubectl, "konverge")
        self.resources = Application(argo.kubectl, "konverge-resources")
        self.without_operator: dict[str, str | None] = {}
        self._process: OperatorProcess | None = None

    def introduce(self) -> None:
        """Do what the page says, and wait until all that git holds is in the cluster.

        What Argo CD thinks of resources that nobody works on is kept in `without_operator`.
        """
        [install] = section("Install")
        self.follow(install)
        for application in (self.operator_app, self.resources):
            application.wait_first_sync()
        self.operator_app.wait_health("Healthy")
        until(lambda: self.resources.health_of("SchedulingPolicy"), "an opinion of the policy")
        kinds = ("Database", "SchedulingPolicy")
        self.without_operator = {kind: self.resources.health_of(kind) for kind in kinds}

    def follow(self, block: Block) -> None:
        """Do what a block of the page says, in the repository. Raises: AssertionError where something else comes of it."""
        variables = {**environment(self.cluster, self._directory), "REPOSITORY": self.repository.url}
        with Reader(self.repository.directory, variables) as reader:
            reader.follow(block)

    @contextmanager
    def operator(self) -> Iterator[OperatorProcess]:
        """The operator with the Deployment's arguments and the ServiceAccount's token; it ends with the block."""
        [container] = self.system.get("deployment/konverge")["spec"]["template"]["spec"]["containers"]
        command, *arguments = container["args"]
        assert command == "run"
        token = self.system("create", "token", "konverge").strip()
        account = Limited(self.cluster, self._directory / "operator.kubeconfig", token)
        log = self._directory / "operator.log"
        with OperatorProcess(account, log, *arguments, "--lease-namespace", OPERATOR_NAMESPACE) as process:
            self._process = process
            yield process
            self._process = None

    def manifests(self, directory: str) -> list[dict[str, Any]]:
        """What kustomize builds of a directory of config/argocd, as the repository has it now."""
        return self._program.build(self.repository.directory / "config" / "argocd" / directory)

    def stop_operator(self) -> None:
        """End the operator."""
        self._running.stop()

    def start_operator(self) -> None:
        """Start the operator again, and wait until it leads."""
        before = self._times_led()
        self._running.start()
        until(lambda: self._times_led() > before, "the operator at work again")

    def operator_said(self) -> str:
        """All that the operator logged."""
        return self._running.log.read_text()

    def _times_led(self) -> int:
        return self.operator_said().count("leading: ")

    @property
    def _running(self) -> OperatorProcess:
        assert self._process is not None, "the operator does not run"
        return self._process

    def publish(self, *edits: tuple[str, str, str]) -> str:
        """Commit edits (a file, a text in it, another text) and have Argo CD sync the resources; returns the commit."""
        for path, old, new in edits:
            self.repository.edit(path, old, new)
        commit = self.repository.commit("an edit")
        self.resources.wait_synced(commit)
        return commit

    def unpublish(self) -> None:
        """Take the last commit back, and wait until all is as before."""
        self.resources.wait_synced(self.repository.revert())
        self.resources.wait_health("Healthy")

    @contextmanager
    def watching(self, application: Application) -> Iterator[Callable[[], list[Any]]]:
        """Inside, every state of an Application is written down; the callable gives all of them so far."""
        log = self._directory / f"watch-{self.journal.mark()}.json"
        command = [*self.cluster.kubectl_command(), *application.watch_arguments()]
        ref = spawn(command, log, environment=self.cluster.kubectl_environment())

        def states() -> list[Any]:
            return list(_documents(log.read_text()))

        until(states, f"the first state of {application.name}")
        try:
            yield states
        finally:
            end([ref], grace=5)

    def settle(self) -> int:
        """Wait until both Applications are as in git and healthy; returns a mark in the journal."""
        for application in (self.operator_app, self.resources):
            application.refresh()
            application.wait_settled()
        return self.journal.mark()

    def written(self, since: int, *, by_argo: bool = True, by_operator: bool = True) -> list[Write]:
        """What the two wrote after a mark in the journal, but for what they keep of themselves."""
        return [
            write
            for write in self.journal.writes(since)
            if write.resource not in _ROUTINE
            and ((by_argo and is_argo(write)) or (by_operator and write.user == OPERATOR_USER))
        ]

    def quiet(self, since: int) -> list[Write]:
        """What the two wrote after a mark, from then on for as long as it takes to see that they do not fight."""
        wait_for(lambda: bool(self.written(since)), QUIET_SECONDS, poll=1)
        return self.written(since)


def _documents(text: str) -> Iterator[Any]:
    """The JSON documents that stand one after the other in a text; the last may be cut off."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            return
        yield document


def is_argo(write: Write) -> bool:
    """Whether Argo CD wrote that."""
    return write.agent.startswith(CONTROLLER)


@contextmanager
def empty_world(program: Program, directory: Path) -> Iterator[World]:
    """An empty cluster, with nothing but Argo CD in it."""
    sweep(_PREFIX)
    with (
        LocalCluster(f"{_PREFIX}{os.getpid()}", audit=True) as cluster,
        ArgoCD(program, cluster, directory) as argo,
    ):
        yield World(cluster, argo, program, directory)
