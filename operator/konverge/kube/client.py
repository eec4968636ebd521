"""The API server as `ports.Api`: verbs and objects flow in, HTTP requests flow out, raw JSON objects flow back.

Objects stay parsed JSON from end to end, through orjson in both directions; models come in above. Each verb builds one
target and one body here; `Transport` exchanges them and `Retrier` decides about another attempt.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Literal, Self
from urllib.parse import quote, urlencode

import orjson

from konverge.kube.answers import named, page_of
from konverge.kube.auth import ConnectionDetails
from konverge.kube.gate import WriteGate
from konverge.kube.retry import Retrier
from konverge.kube.transport import JSON, Transport
from konverge.kube.watch import read_events
from konverge.model.resource import Object, ResourceType
from konverge.ports import Page, PatchType, Scope, WatchEvent

APPLY = "application/apply-patch+yaml"
"""The one content type of server-side apply that every version knows. JSON is YAML."""

METADATA = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""The forms of an object and of a list without anything but metadata; whole from a server that does not know them."""

# The server's default is to drop fields that it does not know and to tell of it in a header that nobody reads. A field
# that was written and does not exist is a mistake in an operator, so each write asks for an error instead.
STRICT = ("fieldValidation", "Strict")

_UNRESERVED = re.compile(r"[A-Za-z0-9_.:-]+").fullmatch
"""Nearly every name is fine as it is, and `quote` takes its time to find out."""

_ALL = Scope()


class Client:
    """An API server's client. Make it with `konverge.kube.connect`; close it, or use it as an async context manager."""

    def __init__(
        self, transport: Transport, retrier: Retrier, *, gate: WriteGate | None = None, watch_grace: float = 10.0
    ) -> None:
        self.gate = gate or WriteGate()
        self._transport = transport
        self._retrier = retrier
        self._watch_grace = watch_grace

    def gated(self, gate: WriteGate) -> "Client":
        """The same client whose writes pass another gate. Close only this one."""
        return Client(self._transport, self._retrier, gate=gate, watch_grace=self._watch_grace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def credentials(self) -> ConnectionDetails:
        """How we connect right now; the token may be another one later."""
        return self._transport.credentials.details

    async def whoami(self) -> str:
        """The user name that the server knows us by. Raises: ApiError; ConnectionFailed."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await self.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        return str(answer["status"]["userInfo"]["username"])

    async def review(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST what the server judges and does not store, such as a TokenReview. Raises: ApiError; ConnectionFailed.

        It may be repeated, and the gate does not concern it.
        """
        data = orjson.dumps(body)
        answer: Mapping[str, Any] = await self._retrier.run(
            lambda: self._transport.exchange("POST", path, data), repeatable=True
        )
        return answer

    async def read(self, path: str) -> dict[str, Any]:
        """GET what is no object of a resource, such as the API's discovery. Raises: ApiError; ConnectionFailed."""
        return await self._read(path)

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        return await self._read(_object_path(resource, name, namespace))

    async def list(
        self,
        resource: ResourceType,
        scope: Scope = _ALL,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        query = _scope_query(scope)
        if limit:
            query.append(("limit", str(limit)))
        if continue_token:
            query.append(("continue", continue_token))
        elif resource_version:  # a continue token holds the version of its list, and the server refuses both
            query.append(("resourceVersion", resource_version))
        accept = METADATA_LIST if scope.metadata_only else ""
        return page_of(await self._read(_collection_path(resource, scope.namespace), query, accept), resource)

    async def watch(
        self,
        resource: ResourceType,
        scope: Scope = _ALL,
        *,
        resource_version: str,
        timeout_seconds: float,
        initial_events: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """See `ports.Watcher`. Not repeated here: the reflector resumes it, and must see each failure to report it."""
        query = [
            *_scope_query(scope),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(max(1, round(timeout_seconds)))),
        ]
        if initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        target = _target(_collection_path(resource, scope.namespace), query)
        idle = timeout_seconds + self._watch_grace
        async with self._transport.stream(target, METADATA if scope.metadata_only else "") as chunks:
            asked = f"watch of {resource} at {self._transport.server}"
            async with aclosing(read_events(chunks, idle=idle, asked=asked)) as events:
                async for event in events:
                    yield named(event, resource) if scope.metadata_only else event

    async def create(
        self,
        resource: ResourceType,
        obj: Object,
        namespace: str | None = None,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Object:
        namespace = namespace or obj.get("metadata", {}).get("namespace")
        if name:
            path = _object_path(resource, name, namespace, subresource)
        else:
            _require_namespace(resource, namespace)
            path = _collection_path(resource, namespace)
        # Repeated after an ambiguous failure, it could make a second object (generateName, a pod's eviction) or answer
        # AlreadyExists about our own. The caller's next look at the server tells what came of it.
        return await self._write("POST", resource, _target(path, [STRICT]), obj, repeatable=False)

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
        query = [("fieldManager", field_manager), ("force", "true" if force else "false"), STRICT]
        if dry_run:
            query.append(("dryRun", "All"))
        target = _target(_object_path(resource, name, namespace, subresource), query)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._write("PATCH", resource, target, body, repeatable=True, content_type=APPLY)

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
        query = [STRICT]
        if field_manager:
            query.append(("fieldManager", field_manager))
        target = _target(_object_path(resource, name, namespace, subresource), query)
        repeatable = patch_type is not PatchType.JSON or _tests_version(patch)
        return await self._write("PATCH", resource, target, patch, repeatable=repeatable, content_type=patch_type.value)

    async def replace(
        self, resource: ResourceType, name: str, obj: Object, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        # Repeatable: if the first one was executed, its resourceVersion makes the second a Conflict, never a second write.
        target = _target(_object_path(resource, name, namespace, subresource), [STRICT])
        return await self._write("PUT", resource, target, obj, repeatable=True)

    async def delete(
        self,
        resource: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        # Without the uid a repeated one could hit a successor of the same name.
        target = _object_path(resource, name, namespace)
        await self._write("DELETE", resource, target, options, repeatable=bool(uid))

    async def _read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> dict[str, Any]:
        target = _target(path, query)
        answer: dict[str, Any] = await self._retrier.run(
            lambda: self._transport.exchange("GET", target, accept=accept), repeatable=True
        )
        return answer

    async def _write(
        self, method: str, resource: ResourceType, target: str, body: Any, *, repeatable: bool, content_type: str = JSON
    ) -> dict[str, Any]:
        data = orjson.dumps(body, default=_plain)

        async def attempt() -> dict[str, Any]:
            self.gate.check(resource, method)  # each time: the lease may be lost while waiting to try again
            answer: dict[str, Any] = await self._transport.exchange(method, target, data, content_type)
            return answer

        return await self._retrier.run(attempt, repeatable=repeatable)


def _tests_version(patch: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    """Whether a JSON patch can be applied only once, since it tests the version that it changes.

    A `test` of anything else proves nothing: `add /list/-` behind a test of the uid would add twice.
    """
    return any(
        operation.get("op") == "test" and operation.get("path") == "/metadata/resourceVersion"
        for operation in patch
        if isinstance(operation, Mapping)
    )


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError  # orjson names the type


def _target(path: str, query: Sequence[tuple[str, str]]) -> str:
    return f"{path}?{_query(tuple(query))}" if query else path


@lru_cache(maxsize=256)  # a program asks for few different ones, and encoding one costs as much as encoding the body
def _query(pairs: tuple[tuple[str, str], ...]) -> str:
    return urlencode(pairs)


def _scope_query(scope: Scope) -> list[tuple[str, str]]:
    selectors = (("labelSelector", scope.label_selector), ("fieldSelector", scope.field_selector))
    return [(name, value) for name, value in selectors if value]


def _collection_path(resource: ResourceType, namespace: str | None) -> str:
    return resource.path(_segment(namespace, resource) if namespace else None)


def _object_path(resource: ResourceType, name: str, namespace: str | None, subresource: str = "") -> str:
    _require_namespace(resource, namespace)
    return resource.path(
        _segment(namespace, resource) if namespace else None, _segment(name, resource), subresource or None
    )


def _require_namespace(resource: ResourceType, namespace: str | None) -> None:
    if resource.namespaced and not namespace:
        message = f"{resource} are namespaced: pass the object's namespace"
        raise ValueError(message)


def _segment(text: str, resource: ResourceType) -> str:
    """One segment of a path. An empty or dotted one would name another resource: deleting `""` is deleting them all."""
    if text in {"", ".", ".."}:
        message = f"{text!r} is no name of an object or namespace ({resource})"
        raise ValueError(message)
    return text if _UNRESERVED(text) else quote(text, safe=":")
