"""The schedulers that are compared: names flow in, command lines flow out."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from konverge.errors import ConfigError, ToolsMissing
from konverge.model.resource import Object
from konverge.testing.binaries import find_binaries

KONVERGE: Final = "konverge"
KUBE_SCHEDULER: Final = "kube-scheduler"
NAMES: Final = (KONVERGE, KUBE_SCHEDULER)

POLICY: Final[Object] = {
    "apiVersion": "scheduling.konverge.dev/v1alpha1",
    "kind": "SchedulingPolicy",
    "metadata": {"name": "bench"},
    "spec": {"profile": {"schedulerName": "konverge-bench"}},
}
"""All default plugins, as kube-scheduler has them."""

_QPS: Final = 5000
"""kube-scheduler's own bound on its requests: above what it reaches, or it would be what is measured."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One of them: how it is called, which pods are its, and how it is started."""

    name: str
    pods_of: str
    """The `schedulerName` of its pods."""
    command: tuple[str, ...]


def scheduler_of(name: str, cluster: Path, scratch: Path) -> Scheduler:
    """The scheduler of that name, for the local cluster in directory `cluster`; `scratch` takes its configuration.

    Raises: ConfigError for an unknown name; ToolsMissing where there is no kube-scheduler.
    """
    if name == KONVERGE:
        run = ("-m", "konverge", "run", "konverge.controllers.scheduling_policy")
        return Scheduler(name, "konverge-bench", (sys.executable, *run, "--metrics-address=0", "--probe-address=0"))
    if name != KUBE_SCHEDULER:
        raise ConfigError(f"scheduler {name!r} is unknown: use {' or '.join(NAMES)}")
    command = find_binaries().commands.get(KUBE_SCHEDULER)
    if command is None:
        raise ToolsMissing("the control plane in use has no kube-scheduler; unset KUBEBUILDER_ASSETS to build one")
    config = scratch / "kube-scheduler.yaml"
    config.write_text(yaml.safe_dump(_configuration(cluster / "kube-scheduler.kubeconfig")))
    return Scheduler(name, "default-scheduler", (*command, f"--config={config}", "--secure-port=0"))


def _configuration(kubeconfig: Path) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": 2 * _QPS},
        "leaderElection": {"leaderElect": False},
    }
