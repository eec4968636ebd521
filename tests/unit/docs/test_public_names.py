"""The flat public names, and that each is what it says."""

import subprocess
import sys
from typing import get_type_hints

import konverge

NAMES = {
    "Access", "Cel", "Children", "Column", "ConfigError", "ConfigMap", "Context", "CronJob", "CustomResource",
    "DaemonSet", "Dependent", "DependentReconciler", "Deployment", "Desired", "Difference", "Duration", "EmbeddedMeta", "Immutable",
    "Ingress", "Job", "Key", "KonvergeError", "Lease", "ListMap", "ModelError", "Namespace", "NetworkPolicy", "Node",
    "Part", "PersistentVolume", "PersistentVolumeClaim", "Phase", "Pod", "PodDisruptionBudget", "PodTemplate", "Predicate", "Problem", "Quantity",
    "Reconciler", "ReplicaSet", "Request", "ResourceType", "Result", "RetryAfter", "Role", "RoleBinding", "Rule", "Scale",
    "Secret", "SecretKeyRef", "Selector", "Service", "ServiceAccount", "Spec", "State", "StatefulSet", "Status", "StorageClass",
    "Terminal", "Watch", "__version__", "all_of", "annotations_changed", "any_of", "by_index", "changed",
    "generation_changed", "hook", "index", "labels_changed", "not_", "read", "watch",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    """A name that goes or comes is a decision, not an accident."""
    assert set(konverge.__all__) == NAMES
    assert set(dir(konverge)) == NAMES
    assert {"__version__", *konverge._MODULES} == NAMES


def test_every_name_loads() -> None:
    for name in NAMES:
        assert getattr(konverge, name) is not None
    assert get_type_hints(konverge.Context.apply)


def test_importing_konverge_loads_nothing_heavy() -> None:
    """The pytest plugin and the command line load on every start."""
    code = "import sys, konverge; print([m for m in ('kopf', 'kubernetes', 'pydantic', 'aiohttp') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    assert not hasattr(konverge, "Nonsense")
