"""A Kubernetes API server in memory, with faults: the `ports.Api` for unit tests and simulations, ours and a user's.

    api = FakeApi()                                          # no faults, no waiting: plain unit tests
    api = FakeApi(clock=sim.clock, random=sim.random, faults=Faults.rough(sim.random))
    second = api.client("replica-2")                         # another client of the same server, with its own faults

    await api.create(ConfigMap, {"metadata": {"name": "a"}, "data": {"k": "v"}}, "default")
    api.faults.inject(ConnectionFailed("reset"), verbs=["patch"], after=True)   # by order: the next patch
    api.faults.partition(); api.faults.heal()                # cut this client off
    api.faults.stop()                                        # by chance or order, all end
    api.end_watches(Pod, gone("too old")); api.silence_watches(Pod); api.compact()
    assert [w.verb for w in api.writes] == ["create"]        # what was executed, whoever did it
    api.uninstall(Web.resource); api.install(Web.resource)   # the CRD goes and comes back

What it does as the real server does, each held against it by the same tests: resourceVersions from one counter, uid,
generation, the status subresource, finalizers and deletionTimestamp, owner references with a garbage collector that
takes its time, conflicts by resourceVersion and uid, no-op writes that change no version, merge, JSON and (by key)
strategic patches, server-side apply with field ownership (simplified: see `fake_apply`), pod bindings, evictions
(without disruption budgets), lists in pages of one snapshot, selectors, metadata alone, watches with bookmarks and a
bounded history beyond which they are 410, and with initial events (`api.server.gives_initial_events = False`: as a server that knows none).

What it leaves out: schemas, and with them validation, pruning and defaults (add a hook to `api.admission` where a test
needs one); a kubelet, so a pod is gone once deleted; controllers other than the garbage collector; namespaces, which
exist by being named; RBAC; versions of one resource under each other's names; other subresources than status, binding
and eviction.

Calls fail as they would on one real request: retries are `kube`'s, so a runtime on this fake sees every fault.
All waiting is on the running loop's time, so in a `SimLoop` it costs nothing. An exception: the clock's stamps.
"""

import asyncio
import copy
import random as chance
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from konverge.errors import ApiError, KonvergeError
from konverge.model.meta import Key
from konverge.model.resource import Object, Pod, ResourceType
from konverge.ports import Clock, Page, PatchType, Scope, WatchEvent
from konverge.testing.fake_apply import BUILT_IN
from konverge.testing.fake_faults import WRITES, Fate, Faults, gone
from konverge.testing.fake_json import JsonDict, PatchFailed, PatchMalformed, copy_json, json_patch, merge_patch
from konverge.testing.fake_objects import Write
from konverge.testing.fake_server import Admission, FakeServer
from konverge.testing.fake_streams import Stream
from konverge.testing.fake_traits import Traits, bad_request
from konverge.testing.sim import SimClock

__all__ = ["FakeApi", "Faults", "Request", "Traits", "gone"]

T = TypeVar("T")

BOOKMARK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One call as the server saw it, in the order of execution.

    `executed`: the server acted (a dropped answer notwithstanding); `changed`: an object is different now; `error`:
    what the caller got instead of an answer. `body` is the document or patch sent, `object` what came of it.
    """

    time: float
    user: str
    verb: str
    resource: ResourceType
    namespace: str
    name: str
    subresource: str = ""
    body: Any = None
    executed: bool = False
    changed: bool = False
    object: Object | None = None
    error: KonvergeError | None = None


class FakeApi:
    """One client of a fake API server; implements `ports.Api`. See the module's text for how to use it.

    `history`: how many changes of each resource can be watched from. `user` names the client in the log and is its
    field manager where a call gives none.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        random: chance.Random | None = None,
        faults: Faults | None = None,
        history: int = 1000,
        user: str = "client",
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        draws = random or chance.Random(0)  # noqa: S311 - a test's chance must be repeatable
        self.server = FakeServer(clock or SimClock(), draws, history=history)
        self.faults = faults or Faults(random=draws)
        self.user = user
        self.requests: list[Request] = []
        self._bookmark_seconds = bookmark_seconds

    def client(self, user: str, faults: Faults | None = None) -> "FakeApi":
        """Another client of the same server, with its own faults (none by default) and the same log."""
        other = copy.copy(self)
        other.user, other.faults = user, faults or Faults(random=self.server.random)
        return other

    @property
    def writes(self) -> list[Request]:
        """The writes that the server executed, of every client, no-ops included; not what the garbage collector did."""
        return [request for request in self.requests if request.verb in WRITES and request.executed]

    @property
    def admission(self) -> list[Admission]:
        """Hooks that see every document before it is stored, to default, normalise or refuse it."""
        return self.server.admission

    def objects(self, resource: ResourceType, namespace: str | None = None) -> list[Object]:
        """What the server holds now, by key: for assertions, beside all faults and the log."""
        return list(self.server.list(resource, Scope(namespace), 0, "", "").items)

    def install(self, resource: ResourceType, traits: Traits | None = None) -> None:
        """Serve `resource` (again), and say where it differs from a custom resource with a status subresource."""
        self.server.install(resource, traits)

    def uninstall(self, resource: ResourceType) -> None:
        """As when its CRD is deleted: objects go, watches end, calls are 404."""
        self.server.uninstall(resource)

    def compact(self) -> None:
        """Forget all history: continue tokens and watches from before now are 410. Open watches go on."""
        self.server.compact()

    def end_watches(self, resource: ResourceType | None = None, error: KonvergeError | None = None) -> int:
        """End the open watches, cleanly or with `error`; returns how many."""
        return self._each_stream(resource, lambda stream: stream.end(error))

    def silence_watches(self, resource: ResourceType | None = None) -> int:
        """Let the open watches say nothing more and not end, as half-open connections; returns how many."""
        return self._each_stream(resource, lambda stream: stream.silence())

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        """See `ports.Reader`."""
        key = _key(resource, namespace, name)
        return await self._call("get", resource, key, lambda: (self.server.get(resource, key), False))

    async def list(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """See `ports.Reader`."""
        key = Key(scope.namespace or "", "")
        return await self._call(
            "list",
            resource,
            key,
            lambda: (self.server.list(resource, scope, limit, continue_token, resource_version), False),
        )

    async def watch(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        resource_version: str,
        timeout_seconds: float,
        initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """See `ports.Watcher`."""
        stream = await self._call(
            "watch",
            resource,
            Key(scope.namespace or "", ""),
            lambda: (
                self.server.open_stream(resource, scope, resource_version, self.faults, initial_events=initial_events),
                False,
            ),
        )
        try:
            async for event in stream.events(timeout_seconds, self._bookmark_seconds):
                yield event
        finally:
            self.server.close_stream(stream)

    async def create(
        self,
        resource: ResourceType,
        obj: Object,
        namespace: str | None = None,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Object:
        """See `ports.Writer`."""
        write = self._write("", subresource)
        body: JsonDict = copy_json(obj)
        key = _key(resource, namespace or body.get("metadata", {}).get("namespace"), name or _name(body))

        def act() -> tuple[Object, bool]:
            if not subresource:
                return self.server.create(resource, body, namespace, write), True
            if resource != Pod or subresource not in {"binding", "eviction"}:
                raise ApiError.of(404, "NotFound", "the server could not find the requested resource")
            if subresource == "eviction":
                self.server.delete(resource, key, "", "Background")
            else:
                self.server.bind(key, body, write)
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, True

        return await self._call("create", resource, key, act, subresource=subresource, body=body)

    async def apply(
        self,
        resource: ResourceType,
        name: str,
        obj: Object,
        namespace: str | None = None,
        *,
        field_manager: str,
        force: bool = True,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        """See `ports.Writer`."""
        key, body = _key(resource, namespace, name), copy_json(obj)
        write = self._write(field_manager, subresource, dry_run=dry_run)
        return await self._call(
            "apply",
            resource,
            key,
            lambda: self.server.apply(resource, key, body, write, force=force),
            subresource=subresource,
            body=body,
        )

    async def patch(
        self,
        resource: ResourceType,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
    ) -> Object:
        """See `ports.Writer`. A strategic patch merges the known associative lists; `$patch` directives are refused."""
        key, body = _key(resource, namespace, name), copy_json(patch)
        write = self._write(field_manager, subresource)
        builtin = self.server.collection(resource, must_serve=False).traits.builtin
        change = _patcher(patch_type, body, builtin=builtin)
        return await self._call(
            "patch",
            resource,
            key,
            lambda: self.server.update(resource, key, write, change, whole=False),
            subresource=subresource,
            body=body,
        )

    async def replace(
        self, resource: ResourceType, name: str, obj: Object, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        """See `ports.Writer`."""
        key, body = _key(resource, namespace, name), copy_json(obj)
        write = self._write("", subresource)
        return await self._call(
            "replace",
            resource,
            key,
            lambda: self.server.update(resource, key, write, lambda _: body, whole=True),
            subresource=subresource,
            body=body,
        )

    async def delete(
        self,
        resource: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """See `ports.Writer`."""
        key = _key(resource, namespace, name)
        await self._call("delete", resource, key, lambda: (self.server.delete(resource, key, uid, propagation), True))

    async def _call(
        self,
        verb: str,
        resource: ResourceType,
        key: Key,
        act: Callable[[], tuple[T, bool]],
        *,
        subresource: str = "",
        body: Any = None,
    ) -> T:
        """Wait, meet the call's fate, act, log, wait, answer. A caller cancelled after the act does not undo it."""
        fate = self.faults.fate(verb, resource, key.name, subresource)
        await asyncio.sleep(fate.wait_before)

        def meet() -> tuple[T | None, Request]:
            result, request = self._act(verb, resource, key, act, fate, subresource, body)
            self.requests.append(request)
            return result, request

        if fate.late is not None and fate.after is not None:
            asyncio.get_running_loop().call_later(fate.late, meet)
            await asyncio.sleep(fate.wait_after)
            raise fate.after
        result, request = meet()
        try:
            await asyncio.sleep(fate.wait_after)
            if request.error is not None:
                raise request.error  # noqa: TRY301 - so that it too closes the stream
        except BaseException:
            if isinstance(result, Stream):
                self.server.close_stream(result)
            raise
        return result  # type: ignore[return-value]  # None only beside an error

    def _act(
        self,
        verb: str,
        resource: ResourceType,
        key: Key,
        act: Callable[[], tuple[T, bool]],
        fate: Fate,
        subresource: str,
        body: Any,
    ) -> tuple[T | None, Request]:
        result: T | None = None
        executed = changed = False
        error = fate.before
        if error is None:
            try:
                result, changed = act()
                executed, error = True, fate.after
            except ApiError as refusal:
                error = refusal
        return result, Request(
            time=asyncio.get_running_loop().time(),
            user=self.user,
            verb=verb,
            resource=resource,
            namespace=key.namespace,
            name=key.name,
            subresource=subresource,
            body=body,
            executed=executed,
            changed=changed,
            object=result if isinstance(result, dict) else None,
            error=error,
        )

    def _write(self, manager: str, subresource: str, *, dry_run: bool = False) -> Write:
        return Write(manager or self.user, subresource, dry_run)

    def _each_stream(self, resource: ResourceType | None, act: Callable[[Stream], None]) -> int:
        streams = [s for c in self.server.collections() if resource in {None, c.resource} for s in c.streams]
        for stream in streams:
            act(stream)
        return len(streams)


def _patcher(patch_type: PatchType, body: Any, *, builtin: bool) -> Callable[[JsonDict], Any]:
    """What the patch does to a document. The function raises: BadRequest; Invalid; ApiError 415."""

    def change(old: JsonDict) -> Any:
        if patch_type is PatchType.MERGE:
            return merge_patch(old, body)
        if patch_type is PatchType.STRATEGIC:
            if not builtin:
                raise ApiError.of(415, "UnsupportedMediaType", "strategic merge patches are for built-in resources")
            if "$patch" in str(body) or "$setElementOrder" in str(body):
                raise bad_request("the fake server knows no $ directives in a strategic merge patch")
            return merge_patch(BUILT_IN.overlay(old, body), _nulls(body))
        try:
            return json_patch(old, body)
        except PatchMalformed as error:
            raise bad_request(str(error)) from error
        except PatchFailed as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise ApiError.of(422, "Invalid", message) from error

    return change


def _nulls(patch: Any) -> JsonDict:
    """The deletions in a patch alone, as a merge patch."""
    if not isinstance(patch, dict):
        return {}
    return {
        name: None if value is None else _nulls(value)
        for name, value in patch.items()
        if value is None or (isinstance(value, dict) and _nulls(value))
    }


def _key(resource: ResourceType, namespace: str | None, name: str) -> Key:
    return Key((namespace or "") if resource.namespaced else "", name)


def _name(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")
