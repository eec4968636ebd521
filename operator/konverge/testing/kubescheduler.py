"""kube-scheduler's configuration: in, its kubeconfig; out, the file, and the profiles that Konverge's scheduler is held to.

Besides `default-scheduler` there is `parity`; tests that compare the two schedulers ask for more profiles, and for a log
that tells each plugin's score for each node.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_GPU = "example.com/gpu"
PARITY = "parity"
"""The schedulerName of a second profile of kube-scheduler's, see `PARITY_PLUGINS`."""

PARITY_PLUGINS: Mapping[str, int | None] = {
    "SchedulingGates": None,
    "PrioritySort": None,
    "NodeUnschedulable": None,
    "NodeName": None,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": None,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": None,
    "NodeVolumeLimits": None,
    "VolumeBinding": None,
    "VolumeZone": None,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DefaultPreemption": None,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": None,
}
"""The plugins of that profile in kube-scheduler's default order, with its weights."""

PARITY_VARIANTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "parity-most": {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [
                    {"name": "cpu", "weight": 3},
                    {"name": "memory", "weight": 1},
                    {"name": _GPU, "weight": 5},
                ],
            }
        },
        "InterPodAffinity": {"hardPodAffinityWeight": 30},
    },
    "parity-ratio": {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [
                    {"name": "cpu", "weight": 1},
                    {"name": "memory", "weight": 2},
                    {"name": _GPU, "weight": 3},
                ],
                "requestedToCapacityRatio": {
                    "shape": [
                        {"utilization": 0, "score": 2},
                        {"utilization": 37, "score": 9},
                        {"utilization": 100, "score": 0},
                    ]
                },
            }
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", "ephemeral-storage", _GPU)]
        },
    },
    "parity-added": {
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "cores", "operator": "NotIn", "values": ["many"]}]},
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["5"]}]},
                    }
                ],
            }
        },
        "InterPodAffinity": {"ignorePreferredTermsOfExistingPods": True},
    },
    "parity-list": {
        "PodTopologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"},
            ],
        }
    },
}
"""Arguments of plugins by schedulerName, for profiles that are else like `parity`; where a cluster is made with `parity`."""

PARITY_FLAGS = (
    # Its source file that logs each plugin's score for each node, at the verbosity at which it does; nothing else.
    "--vmodule=schedule_one=10",
    # A preemptor is left lying when a victim that is gone before the last one was what hindered it. Evicting within the
    # attempt decides no differently, and then it is woken.
    "--feature-gates=SchedulerAsyncPreemption=false",
)
"""Flags of kube-scheduler's where a cluster is made with `parity`."""

QPS, BURST = 500, 1000
"""The clients' limits: the defaults (50 and 100, 20 and 30 for the controller manager) are what a load test would measure."""


def scheduler_configuration(kubeconfig: Path, *, parity: bool = False) -> str:
    """kube-scheduler's configuration file: its client's limits cannot be given as flags.

    `parity`: with a profile for each of `PARITY_VARIANTS`.
    """
    variants = PARITY_VARIANTS if parity else {}
    document: Mapping[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": BURST},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "default-scheduler"},
            _parity_profile(PARITY, {}),
            *(_parity_profile(name, args) for name, args in variants.items()),
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _parity_profile(name: str, args: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A profile with only plugins that Konverge's scheduler has too, so that both can be compared."""
    enabled = [{"name": name, **({"weight": weight} if weight else {})} for name, weight in PARITY_PLUGINS.items()]
    everywhere = {"disabled": [{"name": "*"}], "enabled": enabled}
    return {
        "schedulerName": name,
        "percentageOfNodesToScore": 100,
        "plugins": {"multiPoint": everywhere},
        "pluginConfig": [{"name": plugin, "args": of_plugin} for plugin, of_plugin in args.items()],
    }
