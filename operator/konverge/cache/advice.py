"""What a person can do about a call that fails: the error flows in, a sentence with a remedy flows out.

`explain` is for a list or watch that does not come, `with_rule` for any other call that RBAC refuses.
"""

import re
from pathlib import Path
from typing import Final

from konverge.errors import Forbidden, NotFound, Unauthorized
from konverge.model.rbac import rule_text
from konverge.model.resource import ResourceType
from konverge.ports import Scope

_REFUSAL: Final = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""How the API server words what RBAC does not allow; a 403 of an admission plugin reads otherwise."""


def explain(error: BaseException | None, resource: ResourceType, scope: Scope) -> str:
    """Say why `resource` is not there yet and what to change. `error` is the last one, None when none came."""
    where = f"{resource} in namespace {scope.namespace}" if scope.namespace else str(resource)
    match error:
        case None:
            return f"{where}: the first list is still under way; raise the limit if there are very many objects"
        case Forbidden():
            return f"{where}: list and watch are forbidden ({error.message}). {_rule(resource, scope)}"
        case Unauthorized():
            return f"{where}: the API server does not accept the credentials ({error.message}). Renew them"
        case NotFound() if is_custom(resource):
            manifest = Path("crds", f"{resource.group}_{resource.plural}.yaml")
            write = "" if manifest.exists() else "konverge crds MODULE, then "
            return (
                f"{where}: the API server has no {resource.kind} of {resource.api_version}. "
                f"Install its CustomResourceDefinition: {write}kubectl apply --server-side -f {manifest}"
            )
        case NotFound():
            return f"{where}: the API server does not serve {resource.api_version} {resource.kind}. Check its version"
        case _:
            return f"{where}: {str(error) or type(error).__name__}"


def with_rule(error: BaseException, owner: ResourceType, limit: int) -> str:
    """What went wrong, in at most `limit` characters, with the rule to add where it is one that is missing.

    `owner` is the custom resource for which the call was made.
    """
    told, rule = str(error) or type(error).__name__, missing_rule(error, owner)
    return f"{told[: limit - len(rule) - 2]}. {rule}" if rule else told[:limit]


def missing_rule(error: BaseException, owner: ResourceType) -> str:
    """The rule that would allow the call that `error` refuses, and where it goes; empty where it is not about RBAC."""
    if not isinstance(error, Forbidden):
        return ""
    if "blockOwnerDeletion" in error.message:
        # An admission plugin says so, which some clusters have, and never names the verb.
        return _add("the ClusterRole or Role", owner.group, f"{owner.plural}/finalizers", "update")
    if (refusal := _REFUSAL.search(error.message)) is None:
        return ""
    where = f"the ClusterRole, or of the Role in namespace {refusal['namespace']}" if refusal["namespace"] else ""
    return _add(where or "the ClusterRole", refusal["group"], refusal["resource"], refusal["verb"])


def is_custom(resource: ResourceType) -> bool:
    """Groups of Kubernetes itself have no dot (`apps`) or end in `.k8s.io`; but for a CRD every group needs a dot."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")


def _rule(resource: ResourceType, scope: Scope) -> str:
    role = f"the Role in namespace {scope.namespace}" if scope.namespace else "the ClusterRole"
    return _add(role, resource.group, resource.plural, "get", "list", "watch")


def _add(role: str, group: str, resource: str, *verbs: str) -> str:
    return f"Add to the rules of {role}:\n{rule_text(group, resource, verbs)}"
