"""A cluster to rehearse on: an API server in memory that knows what a scheduler writes, and the caches that show it.

In flow objects as they were read from a cluster; out flow caches and, for the scheduler, `ports.Api`. A write changes what
the caches show at once, and nothing else: binds, evictions and deletions of pods, and their status. There is no kubelet
and there are no controllers, so an evicted pod is gone and none comes in its place.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

from konverge.cache.informer import Cache, Caches
from konverge.errors import ApiError, SchedulingError
from konverge.model import meta
from konverge.model.meta import Key
from konverge.model.resource import Object, Pod, ResourceType
from konverge.ports import Clock, Page, PatchType, Propagation, Random, Scope, WatchEvent

_CONDITIONS: Final = "conditions"


class Stage:
    """See the module."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._caches = Caches(self, clock=clock, random=random)
        self._version = 0
        self.bound: list[Key] = []
        """The pods that got a node, in order."""
        self.evicted: list[Object] = []
        """The pods that had to go, as they were before."""
        self.changed_at = 0.0
        """When the last pod was bound or had to go, monotonic seconds."""

    def cache(self, resource: ResourceType) -> Cache:
        """What is on stage of a resource."""
        return self._caches.cache(resource)

    def set(self, resource: ResourceType, objects: Iterable[Object]) -> None:
        """Put objects on the stage; what makes them known to an API server is added where they come without."""
        cache = self.cache(resource)
        for obj in objects:
            metadata = {"uid": str(meta.key_of(obj)), "resourceVersion": "1", **obj["metadata"]}
            if metadata["resourceVersion"].isdecimal():
                self._version = max(self._version, int(metadata["resourceVersion"]))
            cache.wrote({**obj, "metadata": metadata})

    # What a scheduler writes

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        """See `ports.Reader`."""
        found = self.cache(resource).get(Key((namespace or "") if resource.namespaced else "", name))
        if found is None:
            raise ApiError.of(404, "NotFound", f"{resource} {name!r} not found")
        return found

    async def create(
        self,
        resource: ResourceType,
        obj: Object,
        namespace: str | None = None,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Object:
        """See `ports.Writer`: a pod's `binding` or `eviction`."""
        if resource != Pod or subresource not in {"binding", "eviction"}:
            _refuse("create", resource)
        pod = await self.get(Pod, name, namespace)
        if subresource == "eviction":
            self._remove(pod)
            return obj
        self.bound.append(meta.key_of(pod))
        self.changed_at = self._clock.monotonic()
        self._write({**pod, "spec": {**pod["spec"], "nodeName": obj["target"]["name"]}})
        return obj

    async def patch(
        self,
        resource: ResourceType,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",  # noqa: ARG002 - the protocol's signature
    ) -> Object:
        """See `ports.Writer`: the conditions and other fields of a pod's status."""
        if resource != Pod or patch_type is not PatchType.STRATEGIC or subresource != "status":
            _refuse("patch", resource)
        pod = await self.get(Pod, name, namespace)
        assert isinstance(patch, Mapping)  # a strategic patch
        status, change = dict(pod.get("status") or {}), dict(patch["status"])
        new = {condition["type"]: condition for condition in change.pop(_CONDITIONS, ())}
        kept = [condition for condition in status.get(_CONDITIONS) or () if condition["type"] not in new]
        status |= {**change, _CONDITIONS: [*kept, *new.values()]}
        status = {field: value for field, value in status.items() if value is not None}
        return self._write({**pod, "status": status})

    async def delete(
        self,
        resource: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",  # noqa: ARG002 - nobody else makes pods anew here
        propagation: Propagation = "Background",  # noqa: ARG002
    ) -> None:
        """See `ports.Writer`: a pod goes at once."""
        if resource != Pod:
            _refuse("delete", resource)
        self._remove(await self.get(Pod, name, namespace))

    def _write(self, obj: Object) -> Object:
        self._version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        self.cache(Pod).wrote(obj)
        return obj

    def _remove(self, pod: Object) -> None:
        self.evicted.append(pod)
        self.changed_at = self._clock.monotonic()
        self.cache(Pod).removed({**pod, "metadata": {**pod["metadata"], "finalizers": []}})

    # What it does not

    async def list(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008, ARG002 - frozen
        *,
        limit: int = 500,  # noqa: ARG002
        continue_token: str = "",  # noqa: ARG002
        resource_version: str = "",  # noqa: ARG002
    ) -> Page:
        """The caches are filled by `set`."""
        _refuse("list", resource)

    def watch(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008, ARG002 - frozen
        *,
        resource_version: str,  # noqa: ARG002
        timeout_seconds: float,  # noqa: ARG002
        initial_events: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[WatchEvent]:
        """The caches are told of each write."""
        _refuse("watch", resource)

    async def apply(
        self,
        resource: ResourceType,
        name: str,  # noqa: ARG002
        obj: Object,  # noqa: ARG002
        namespace: str | None = None,  # noqa: ARG002
        *,
        field_manager: str,  # noqa: ARG002
        force: bool = True,  # noqa: ARG002
        dry_run: bool = False,  # noqa: ARG002
        subresource: str = "",  # noqa: ARG002
    ) -> Object:
        """No scheduler of ours applies."""
        _refuse("apply", resource)

    async def replace(
        self,
        resource: ResourceType,
        name: str,  # noqa: ARG002
        obj: Object,  # noqa: ARG002
        namespace: str | None = None,  # noqa: ARG002
        *,
        subresource: str = "",  # noqa: ARG002
    ) -> Object:
        """Nor replaces."""
        _refuse("replace", resource)


class Silence:
    """A recorder of events for a stage: it keeps, by the uid of the victim, for whom each pod had to go."""

    def __init__(self) -> None:
        self.preempted_by: dict[str, str] = {}

    def event(
        self,
        regarding: Object,
        event_type: Literal["Normal", "Warning"],  # noqa: ARG002
        reason: str,
        message: str,
        *,
        action: str = "",  # noqa: ARG002
    ) -> None:
        """See `ports.Recorder`."""
        if reason == "Preempted":
            # The wording is kube-scheduler's: "Preempted by pod UID on node NAME".
            self.preempted_by[meta.uid_of(regarding)] = message.split()[3]


def _refuse(verb: str, resource: ResourceType) -> NoReturn:
    raise SchedulingError(f"a rehearsal does not {verb} {resource}")
