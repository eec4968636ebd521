"""What config/ ships, as kustomize builds it, and the kinds of others that it uses."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from konverge.testing import Cluster

CONFIG = Path(__file__).parents[2] / "config"
OVERLAYS = ("default", "overlays/dev", "overlays/kind", "overlays/prod")
NAMESPACE = "konverge-system"
PROMETHEUS = "monitoring"
"""Where the shipped binding expects Prometheus."""

Manifest = dict[str, Any]

_FOREIGN = (
    ("cert-manager.io", "v1", "Certificate", "certificates"),
    ("cert-manager.io", "v1", "Issuer", "issuers"),
    ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
)


def built(cluster: Cluster, overlay: str) -> list[Manifest]:
    """The manifests of a directory below config/."""
    return [each for each in yaml.safe_load_all(cluster.kubectl("kustomize", str(CONFIG / overlay))) if each]


def find(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """The one manifest of that kind and name."""
    [found] = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def rights_in(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Who may do what, without the roles for people that are joined to the cluster's own."""
    kinds = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    return [each for each in manifests if each["kind"] in kinds and not each["metadata"].get("labels")]


def stand_ins() -> list[Manifest]:
    """CRDs of cert-manager and the Prometheus Operator, reduced to their names: they take whatever is in `spec`.

    So the API server knows the kinds; that their fields are right is not shown by them.
    """
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            }
                        },
                    }
                ],
            },
        }
        for group, version, kind, plural in _FOREIGN
    ]
