"""Somebody who may do less than the administrator: a ServiceAccount with rules of its own, and a kubeconfig for it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from yaml import safe_load_all

from konverge.cli.crds import rbac
from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl

Rule = Mapping[str, Any]


class Limited:
    """The same cluster through another kubeconfig: a token instead of the administrator's certificate."""

    def __init__(self, cluster: Cluster, path: Path, token: str) -> None:
        config = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json"))
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        path.write_text(json.dumps(config))
        self._path = path

    @property
    def kubeconfig(self) -> Path:
        return self._path


def generated(*arguments: str) -> list[dict[str, Any]]:
    """What `konverge rbac` prints."""
    result = CliRunner().invoke(rbac, list(arguments), catch_exceptions=False)
    return list(safe_load_all(result.stdout))


def less(rules: Iterable[Rule], group: str, resource: str, verb: str) -> list[Rule]:
    """The rules without one verb on one resource. Raises: AssertionError where none allows it."""
    kept: list[Rule] = []
    removed = 0
    for rule in rules:
        if group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]:
            removed += 1
            others = [each for each in rule["resources"] if each != resource]
            kept += [{**rule, "resources": others}] if others else []
            verbs = [each for each in rule["verbs"] if each != verb]
            kept += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
        else:
            kept.append(rule)
    assert removed == 1, f"{removed} rules allow {verb} on {resource}"
    return kept


def allow(kubectl: Kubectl, account: str, rules: Iterable[Rule], path: Path) -> Limited:
    """A new ServiceAccount in the test's namespace, with these rules in the whole cluster."""
    name = f"{kubectl.namespace}-{account}"
    kubectl("create", "serviceaccount", account)
    kubectl.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": kubectl.namespace}],
        },
    )
    return Limited(kubectl.cluster, path, kubectl("create", "token", account).strip())


def dismiss(kubectl: Kubectl, account: str) -> None:
    """Take the rules away again."""
    name = f"{kubectl.namespace}-{account}"
    kubectl("delete", f"clusterrole/{name}", f"clusterrolebinding/{name}", "--ignore-not-found")
