"""An API that answers by script, and objects to answer with."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from konverge.model.resource import Object, ResourceType
from konverge.ports import INITIAL_EVENTS_END, Page, Scope, WatchEvent

Widget = ResourceType("demo.dev", "v1", "Widget", "widgets")


def pod(name: str, version: int | str = 1, *, namespace: str = "ns", uid: str | None = None, **metadata: Any) -> Object:
    """A pod of resourceVersion `version`; its uid follows from its name unless given."""
    metadata |= {"name": name, "namespace": namespace, "uid": name if uid is None else uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "resourceVersion": str(version)}}


def added(obj: Any) -> WatchEvent:
    return WatchEvent("ADDED", obj)


def modified(obj: Any) -> WatchEvent:
    return WatchEvent("MODIFIED", obj)


def deleted(obj: Any) -> WatchEvent:
    return WatchEvent("DELETED", obj)


def bookmark(version: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def initial_end(version: int) -> WatchEvent:
    metadata = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
    return WatchEvent("BOOKMARK", {"kind": "Pod", "metadata": metadata})


def page(*objects: Any, version: int | str = 1, more: str = "") -> Page:
    return Page(objects, str(version), more)


@dataclass(frozen=True)
class Silence:
    """So many seconds without an event."""

    seconds: float


@dataclass(frozen=True)
class Listed:
    """A call to list: when, and for which page."""

    at: float
    token: str
    limit: int
    scope: Scope


@dataclass(frozen=True)
class Watched:
    """A call to watch: when, from which version, and for how long."""

    at: float
    version: str
    timeout: float
    scope: Scope
    initial_events: bool = False


Step = WatchEvent | Silence | Exception


@dataclass
class ScriptedApi:
    """Answers list calls from `lists` and watch calls from `watches`, in turn; then the last list again, or silence."""

    lists: list[Page | Exception]
    watches: list[Sequence[Step]] = field(default_factory=list)
    calls: list[Listed | Watched] = field(default_factory=list)
    closed_streams: int = 0

    @property
    def listed(self) -> list[Listed]:
        return [call for call in self.calls if isinstance(call, Listed)]

    @property
    def watched(self) -> list[Watched]:
        return [call for call in self.calls if isinstance(call, Watched)]

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        raise AssertionError("a reflector reads by list and watch only")

    async def list(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        assert resource_version == "", "a list must show the newest state"
        self.calls.append(Listed(_now(), continue_token, limit, scope))
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(
        self,
        resource: ResourceType,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        resource_version: str,
        timeout_seconds: float,
        initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        self.calls.append(Watched(_now(), resource_version, timeout_seconds, scope, initial_events))
        script: Sequence[Step] = self.watches.pop(0) if self.watches else [Silence(1_000_000)]
        try:
            for step in script:
                if isinstance(step, Silence):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Exception):
                    raise step
                else:
                    yield step
        finally:
            self.closed_streams += 1


def _now() -> float:
    return asyncio.get_running_loop().time()
