"""What the layers above need of the outside world, as protocols: the API server, time, chance, and the event log.

`kube` implements them on a real API server, `testing` on a fake one with faults; `cache`, `runtime`, `scheduler` and
`election` know only these.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

from konverge.model.resource import Object, ResourceType


class Page(NamedTuple):
    """One page of a list: its objects, the list's resourceVersion, and the token of the next page (empty: the last)."""

    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""


INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation, of value "true", of the bookmark after the last initial event of a watch."""

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What becomes of an object's dependents with it: deleted after it, before it, or left without an owner."""

WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple):
    """One event of a watch. An ERROR event never arrives here: the watcher raises it as `ApiError`."""

    type: WatchEventType
    object: Object


class PatchType(StrEnum):
    """The content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Scope:
    """What part of a resource a list or watch covers: a namespace (None: all) and server-side selectors.

    With `metadata_only` the objects come without anything but `apiVersion`, `kind` and `metadata`. `left_out` names fields
    such as `spec.template` that a cache of it does not hold; the server sends them nevertheless.
    """

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    left_out: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads that go to the API server."""

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        """Read one object.

        Raises: NotFound; any other ApiError; ConnectionFailed.
        """
        ...

    async def list(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """Read one page. Items carry `apiVersion` and `kind` even where the server leaves them out.

        Raises: Gone when the continue token expired; any other ApiError; ConnectionFailed.
        """
        ...


class Watcher(Protocol):
    """Streams of changes."""

    def watch(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),
        *,
        resource_version: str,
        timeout_seconds: float,
        initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Stream the changes after `resource_version`, with bookmarks, until the server ends the stream.

        `timeout_seconds` is asked of the server; a stream silent for longer than that (and a grace) is ended here.
        With `initial_events` all that there is, not older than `resource_version`, comes first as ADDED, ended by a
        bookmark that carries the annotation `INITIAL_EVENTS_END`: a list and its watch in one stream.

        Raises: Gone (HTTP 410 or an ERROR event of code 410); Invalid or BadRequest from a server that gives no initial
        events; any other ApiError; ConnectionFailed.
        """
        ...


class Writer(Protocol):
    """Writes. Each returns the object as the server holds it afterwards."""

    async def create(
        self,
        resource: ResourceType,
        obj: Object,
        namespace: str | None = None,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Object:
        """POST `obj`; with `name` and `subresource` to that subresource of an object (a pod's `binding`).

        Raises: AlreadyExists; Invalid; any other ApiError; ConnectionFailed.
        """
        ...

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
        """Server-side apply. Raises: Conflict when not forced; Invalid; any other ApiError; ConnectionFailed."""
        ...

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
        """PATCH an object or its subresource. Raises: NotFound; Conflict; Invalid; any other ApiError; ConnectionFailed."""
        ...

    async def replace(
        self, resource: ResourceType, name: str, obj: Object, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        """PUT `obj`, guarded by its resourceVersion. Raises: Conflict; any other ApiError; ConnectionFailed."""
        ...

    async def delete(
        self,
        resource: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: Propagation = "Background",
    ) -> None:
        """DELETE one object, only if its uid is `uid` where given. Raises: NotFound; Conflict; ApiError; ConnectionFailed."""
        ...


class Api(Reader, Writer, Watcher, Protocol):
    """The whole of an API server's client."""


class Clock(Protocol):
    """Time. Everything that waits or stamps goes through it, so that tests can drive it."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def now(self) -> datetime:
        """The wall clock, UTC, aware."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Random(Protocol):
    """Chance, seeded in tests. `random.Random` fits."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """A float in [a, b]."""
        ...


@runtime_checkable
class Recorder(Protocol):
    """Kubernetes events, aggregated and limited by the implementation; never raises, never blocks."""

    def event(
        self,
        regarding: Object,
        event_type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        """Record that something happened to `regarding`. `reason` and `action` are CamelCase."""
        ...
