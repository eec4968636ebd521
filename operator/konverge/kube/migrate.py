"""Stored objects in the version that is stored now: a CRD's name flows in, rewritten objects and a shorter list flow out.

The API server writes an object in the storage version whenever it is written, and never by itself. `storedVersions` of
the CRD names every version that may still lie in etcd; one that stands there cannot be taken out of the CRD. Here each
object is written without a change, and the list is trimmed once all of them were. Whatever ends it early, it can be run
again: an object that is in the storage version already is not written by the server.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from konverge.errors import ApiError, ConfigError, Conflict, Forbidden, Gone, NotFound
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import CustomResourceDefinition, Object, ResourceType
from konverge.ports import Api, PatchType, Scope

AT_ONCE: Final = 8
"""Writes in flight; few, so that the conversion webhook and the cluster's users get their turn."""
EVERY: Final = 500
"""Objects between two lines of progress."""
_ATTEMPTS: Final = 5

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """What was done: how many objects were written, those that were refused, and whether the list was trimmed."""

    crd: str
    objects: int = 0
    failures: tuple[str, ...] = ()
    trimmed: bool = False


async def migrate(api: Api, name: str, tell: Tell) -> Migration:
    """Rewrite all objects of the CRD `name` in its storage version, and trim its `storedVersions` to that.

    `tell` gets lines of progress. An object that the server refuses is told in the result, and nothing is trimmed then.

    Raises: ConfigError for a CRD that is not installed, permissions that are missing, or a CRD that changes meanwhile;
    any other ApiError; ConnectionFailed.
    """
    plural, _, group = name.partition(".")
    try:
        crd = await api.get(CustomResourceDefinition, name)
        stored, storage = crd["status"].get("storedVersions", []), _storage(crd)
        if stored == [storage]:
            tell(f"{name}: everything is stored as {storage}")
            return Migration(name)
        tell(f"{name}: stored are {', '.join(stored)}, to become {storage}")
        resource = _served(crd, storage)
        failures, count = await _rewrite(api, resource, tell)
        if failures:
            return Migration(name, count, tuple(failures))
        await _trim(api, name, storage)
    except Forbidden as error:
        raise ConfigError(f"{name}: {error.message}. To migrate, one needs\n{_rules(group, plural)}") from error
    except NotFound as error:
        raise ConfigError(f"{name} is not installed ({error.message}); apply its CRD first") from error
    tell(f"{name}: {count} objects are stored as {storage}, storedVersions is trimmed")
    return Migration(name, count, trimmed=True)


def _storage(crd: Object) -> str:
    return next(str(version["name"]) for version in crd["spec"]["versions"] if version["storage"])


def _served(crd: Object, storage: str) -> ResourceType:
    """The resource in a version that can be asked for; in whichever it is written, it is stored in the storage version."""
    spec = crd["spec"]
    served = [str(version["name"]) for version in spec["versions"] if version["served"]]
    if not served:
        raise ConfigError(f"{crd['metadata']['name']} serves no version; serve one, so that its objects can be written")
    version = storage if storage in served else served[0]
    names = spec["names"]
    return ResourceType(spec["group"], version, names["kind"], names["plural"], spec["scope"] == "Namespaced")


async def _rewrite(api: Api, resource: ResourceType, tell: Tell) -> tuple[list[str], int]:
    """Write every object; returns what was refused, and how many there were."""
    found = await _listed(api, resource)
    failures: list[str] = []
    for done, batch in _batches(found, AT_ONCE):
        problems = await asyncio.gather(*(_touch(api, resource, *each) for each in batch))
        failures += [problem for problem in problems if problem]
        if done // EVERY > (done - len(batch)) // EVERY and done < len(found):
            tell(f"{resource.name}: {done} of {len(found)} objects")
    return failures, len(found)


def _batches(items: list[tuple[Key, dict[str, Any]]], size: int) -> Iterator[tuple[int, list[Any]]]:
    for start in range(0, len(items), size):
        batch = items[start : start + size]
        yield start + len(batch), batch


async def _listed(api: Api, resource: ResourceType) -> list[tuple[Key, dict[str, Any]]]:
    """All objects as they are now, all pages first: a continue token does not outlive the writes of a large resource."""
    scope = Scope(metadata_only=True)
    for _ in range(_ATTEMPTS):
        found: list[tuple[Key, dict[str, Any]]] = []
        token = ""
        try:
            while True:
                page = await api.list(resource, scope, continue_token=token)
                found += _identities(page.items)
                token = page.continue_token
                if not token:
                    return found
        except Gone:
            continue
    raise ConfigError(f"{resource.name}: its list expires before its end; try again when the API server is less busy")


def _identities(items: Iterable[Object]) -> Iterator[tuple[Key, dict[str, Any]]]:
    for obj in items:
        metadata = obj["metadata"]
        yield meta.key_of(obj), {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


async def _touch(api: Api, resource: ResourceType, key: Key, identity: dict[str, Any]) -> str | None:
    """Write an object without a change, as it was listed. Returns why the server refused, None when it did not.

    Somebody who wrote it since has done the same, and one that is gone needs it no more.
    """
    try:
        await api.patch(resource, key.name, {"metadata": identity}, key.namespace or None, patch_type=PatchType.MERGE)
    except (Conflict, NotFound):
        return None
    except Forbidden:
        raise
    except ApiError as error:
        return f"{key}: {error}"
    return None


async def _trim(api: Api, name: str, storage: str) -> None:
    """Say that only `storage` is stored; guarded by the version, for the list grows when the storage version changes."""
    for _ in range(_ATTEMPTS):
        crd = await api.get(CustomResourceDefinition, name)
        if _storage(crd) != storage:
            raise ConfigError(f"{name}: its storage version became {_storage(crd)} meanwhile; migrate again")
        patch = {
            "metadata": {"resourceVersion": meta.resource_version(crd)},
            "status": {"storedVersions": [storage]},
        }
        try:
            await api.patch(CustomResourceDefinition, name, patch, subresource="status")
        except Conflict:
            continue
        return
    raise ConfigError(f"{name}: others kept writing the CRD while its storedVersions was to be trimmed; migrate again")


def _rules(group: str, plural: str) -> str:
    rules = (
        ("apiextensions.k8s.io", "customresourcedefinitions", '"get"'),
        ("apiextensions.k8s.io", "customresourcedefinitions/status", '"patch"'),
        (group, plural, '"list", "patch"'),
    )
    return "\n".join(
        f'- apiGroups: ["{api}"]\n  resources: ["{what}"]\n  verbs: [{verbs}]' for api, what, verbs in rules
    )
