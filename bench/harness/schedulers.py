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
SHARED: Final = {"konverge-member": 1, "konverge-members": 2}
"""Konverge with `--share-scheduling`, and how many replicas: alone, it shows what the bookings cost."""
KUBE_SCHEDULER: Final = "kube-scheduler"
NAMES: Final = (KONVERGE, KUBE_SCHEDULER)
"""Those that are compared unless others are named."""

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
    replicas: int = 1


def scheduler_of(name: str, cluster: Path, scratch: Path) -> Scheduler:
    """The scheduler of that name, for the local cluster in directory `cluster`; `scratch` takes its configuration.

    Raises: ConfigError for an unknown name; ToolsMissing where there is no kube-scheduler.
    """
    if name == KONVERGE or name in SHARED:
        flags = ("--leader-elect", "--share-scheduling") if name in SHARED else ()
        run = ("-m", "konverge", "run", "konverge.controllers.scheduling_policy", *flags)
        ours = (sys.executable, *run, "--metrics-address=0", "--probe-address=0")
        return Scheduler(name, "konverge-bench", ours, SHARED.get(name, 1))
    if name != KUBE_SCHEDULER:
        raise ConfigError(f"scheduler {name!r} is unknown: use {', '.join([*NAMES, *SHARED])}")
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
