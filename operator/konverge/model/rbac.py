"""RBAC: what reconcilers declare flows in, the least roles that let them work flow out.

Every verb stands for a call that the framework makes; nothing is a wildcard, and a kind that nobody declared is not
there. The order is fixed, so that a drift is a difference of text.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from konverge.errors import ModelError
from konverge.model.resource import Event, Lease, ResourceType

Manifest = dict[str, Any]

_READ: Final = ("get", "list", "watch")
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""The order in which verbs are written."""
_EVENTS_HOME: Final = "default"
_FORBIDDEN: Final = frozenset({"*", "escalate", "bind", "impersonate"})


@dataclass(frozen=True, slots=True)
class Access:
    """Some verbs on one resource, or on a subresource of it, beyond what ownership and reading imply.

    Raises: ModelError for a verb that would give more than it says.
    """

    resource: ResourceType
    verbs: tuple[str, ...]
    subresource: str = ""

    def __post_init__(self) -> None:
        refused = sorted(_FORBIDDEN & {*self.verbs, self.resource.plural, self.resource.group, self.subresource})
        if refused:
            raise ModelError(
                f"access to {self.resource}: {', '.join(refused)} gives more than it says; name what is needed"
            )

    @property
    def target(self) -> tuple[str, str]:
        """Group and `plural[/subresource]`, as a rule names them."""
        return self.resource.group, "/".join(filter(None, (self.resource.plural, self.subresource)))


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one reconciler declares: its custom resource, its children, and what it reads or is woken by."""

    resource: ResourceType
    owns: tuple[ResourceType, ...] = ()
    watches: tuple[ResourceType, ...] = ()
    reads: tuple[ResourceType, ...] = ()
    uses_finalizer: bool = False
    extra: tuple[Access, ...] = ()
    home: tuple[Access, ...] = ()
    """What it needs in the operator's own namespace alone."""

    def accesses(self) -> Iterable[Access]:
        """All that the framework does for the reconciler."""
        yield Access(self.resource, (*_READ, "patch") if self.uses_finalizer else _READ)
        yield Access(self.resource, ("patch", "update"), "status")
        # An owner reference that blocks deletion is checked as an update of the owner's finalizers.
        yield Access(self.resource, ("update",), "finalizers")
        for child in self.owns:
            yield Access(child, (*_READ, "create", "patch", "delete"))
        for seen in (*self.watches, *self.reads):
            yield Access(seen, _READ)
        yield from self.extra


def roles(name: str, declarations: Sequence[Declaration], *, namespaces: Sequence[str] = ()) -> list[Manifest]:
    """The roles for all `declarations`: one ClusterRole, or with `namespaces` a Role in each.

    With namespaces a ClusterRole remains only where a cluster-scoped resource is used. Events are always allowed.
    """
    accesses = [access for declaration in declarations for access in declaration.accesses()]
    events = Access(Event, ("create", "patch"))
    accesses.append(events)
    if not namespaces:
        return [_role("ClusterRole", name, "", accesses)]
    inside = [access for access in accesses if access.resource.namespaced]
    outside = [access for access in accesses if not access.resource.namespaced]
    result = [_role("Role", name, namespace, inside) for namespace in sorted(set(namespaces))]
    if outside:
        result.insert(0, _role("ClusterRole", name, "", outside))
    if outside and _EVENTS_HOME not in namespaces:
        # The events of a cluster-scoped object go there, wherever else the operator may look.
        result.append(_role("Role", name, _EVENTS_HOME, [events]))
    return result


def leader_election_role(name: str, namespace: str = "", declarations: Sequence[Declaration] = ()) -> Manifest:
    """The Role with which replicas hold their Lease in the operator's own namespace, and what `declarations` need there."""
    lease = Access(Lease, ("get", "create", "update", "patch"))
    return _role(
        "Role", f"{name}-leader-election", namespace, [lease, *(a for each in declarations for a in each.home)]
    )


def user_roles(name: str, resource: ResourceType, *, scale: bool = False) -> list[Manifest]:
    """The ClusterRoles for people who use a kind: `<name>-<kind>-admin`, `-editor` and `-viewer`.

    Those of a namespaced kind are aggregated: who has the cluster's own `admin`, `edit` or `view` in a namespace has them
    there too. Those of a cluster-scoped kind are not: whoever edits one namespace does not edit what is for all of them.
    `scale` says that the kind has that subresource. Nobody but the operator writes the status.
    """
    looking = [Access(resource, _READ), Access(resource, ("get",), "status")]
    looking += [Access(resource, ("get",), "scale")] if scale else []
    editing = [*looking, Access(resource, ("create", "update", "patch", "delete"))]
    editing += [Access(resource, ("update", "patch"), "scale")] if scale else []
    ruling = [*editing, Access(resource, ("deletecollection",))]
    result = []
    for role, joined, accesses in (
        ("admin", "admin", ruling),
        ("editor", "edit", editing),
        ("viewer", "view", looking),
    ):
        manifest = _role("ClusterRole", f"{name}-{resource.kind.lower()}-{role}", "", accesses)
        if resource.namespaced:
            manifest["metadata"]["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{joined}": "true"}
        result.append(manifest)
    return result


def rule_text(group: str, resource: str, verbs: Iterable[str]) -> str:
    """One rule as YAML, for a message that says what to add; `resource` may be `plural/subresource`."""
    quoted = ", ".join(f'"{verb}"' for verb in verbs)
    return f'- apiGroups: ["{group}"]\n  resources: ["{resource}"]\n  verbs: [{quoted}]'


def rules_of(accesses: Iterable[Access]) -> list[Manifest]:
    """Accesses as rules: verbs of one resource joined, resources of one group with the same verbs joined."""
    verbs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for access in accesses:
        verbs[access.target] |= set(access.verbs)
    joined: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), allowed in sorted(verbs.items()):
        joined[group, tuple(sorted(allowed, key=_rank))].append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in sorted(joined.items(), key=lambda item: (item[0][0], item[1]))
    ]


def _rank(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)


def _role(kind: str, name: str, namespace: str, accesses: Iterable[Access]) -> Manifest:
    metadata: Mapping[str, str] = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": dict(metadata),
        "rules": rules_of(accesses),
    }
