"""What a person can do about a list or watch that fails: the error flows in, a sentence with a remedy flows out."""

from konverge.errors import Forbidden, NotFound, Unauthorized
from konverge.model.resource import ResourceType
from konverge.ports import Scope


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
        case NotFound() if _is_custom(resource):
            manifest = f"crds/{resource.group}_{resource.plural}.yaml"
            return (
                f"{where}: the API server has no {resource.kind} of {resource.api_version}. "
                f"Install its CustomResourceDefinition: kubectl apply -f {manifest}"
            )
        case NotFound():
            return f"{where}: the API server does not serve {resource.api_version} {resource.kind}. Check its version"
        case _:
            return f"{where}: {str(error) or type(error).__name__}"


def _is_custom(resource: ResourceType) -> bool:
    """Groups of Kubernetes itself have no dot (`apps`) or end in `.k8s.io`; but for a CRD every group needs a dot."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")


def _rule(resource: ResourceType, scope: Scope) -> str:
    role = f"the Role in namespace {scope.namespace}" if scope.namespace else "the ClusterRole"
    return (
        f"Add to the rules of {role}:\n"
        f'- apiGroups: ["{resource.group}"]\n'
        f'  resources: ["{resource.plural}"]\n'
        f'  verbs: ["get", "list", "watch"]'
    )
