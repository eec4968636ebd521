"""Whose child is it: the rules by which an object that is there already is taken, left alone, or deleted.

- Controlled by this owner (the uid of the controlling owner reference is its): ours. Changed and deleted freely.
- Controlled by another, be it of the same kind or name: never touched. A namesake that was deleted and made anew is
  another: its children go with it, and the new one waits for that.
- Controlled by nobody, with the label `app.kubernetes.io/managed-by` set to our field manager: an orphan of ours, as
  `kubectl delete --cascade=orphan` and a restored backup leave them. Adopted by the next apply. Not deleted by `prune`.
- Controlled by nobody, without the label: a person's. Never touched; the error says how to have it adopted.
- There, though the cache does not show it yet: the first apply is not forced, so that the server tells of it when
  another manager set the same fields; then the rules above decide.
- Being deleted, though ours: not applied to, for the change would be lost with it. Its end wakes the owner.

An owner can only be in the namespace of its child or in none: the garbage collector takes any other owner for gone, and
deletes the child. So a child elsewhere is refused before it is made.
"""

from typing import Final

from konverge.errors import NotController, Terminal
from konverge.model import meta
from konverge.model.resource import Object, ResourceType

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"


def controls(owner: Object, live: Object) -> bool:
    """Whether `owner` is the controlling owner of `live`."""
    controller = meta.controller_of(live)
    return controller is not None and controller.get("uid") == meta.uid_of(owner)


def made_by(manager: str, live: Object) -> bool:
    """Whether `live` carries the label that says so."""
    return meta.labels_of(live).get(MANAGED_BY_LABEL) == manager


def check_ours(owner: Object, resource: ResourceType, live: Object, manager: str) -> None:
    """Let pass what may be changed for `owner`. Raises: NotController, saying whose it is and what to do."""
    if controls(owner, live):
        return
    # Nothing leads from an object that is not ours to the owner, so that a change of it wakes nobody.
    again = f"Tried again after growing delays, and at once when the {owner['kind']} is edited"
    controller = meta.controller_of(live)
    if controller is not None:
        raise NotController(
            f"{resource.kind} {meta.key_of(live)} belongs to {controller.get('kind')} {controller.get('name')}, "
            f"not to {owner['kind']} {meta.key_of(owner)}; rename one of the two. {again}"
        )
    if not made_by(manager, live):
        raise NotController(
            f"{resource.kind} {meta.key_of(live)} is there already and nobody's child; delete it, or label it "
            f"{MANAGED_BY_LABEL}={manager} to let {owner['kind']} {meta.key_of(owner)} adopt it. {again}"
        )


def check_place(owner: Object, resource: ResourceType, namespace: str | None) -> None:
    """Let pass a child where `owner` can own it. Raises: Terminal, for no retry changes where things are."""
    home = meta.key_of(owner).namespace
    if home and (namespace or "") != home:
        place = f"namespace {namespace}" if namespace else "no namespace"
        raise Terminal(
            "ChildOutOfNamespace",
            f"a {resource.kind} in {place} cannot be a child of {owner['kind']} {meta.key_of(owner)}: the garbage "
            "collector would delete it; only a cluster-scoped resource can own it",
        )
