"""What the API server knows of one object: its summary, its children as a tree, its events.

The command `explain` tells it; it works for any resource that the server has, with or without a Konverge operator.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from konverge.cache.advice import is_custom
from konverge.errors import ApiError, Forbidden
from konverge.kube.connect import connect
from konverge.kube.discovery import Served, discover, find
from konverge.model import meta, resource
from konverge.model.resource import Object, ResourceType
from konverge.ports import Reader, Scope
from konverge.runtime.clock import SystemClock
from konverge.runtime.describe import summarize, summarize_child

logger = logging.getLogger(__name__)

EVENT: Final = ResourceType("", "v1", "Event", "events")
USUAL: Final = frozenset(
    value for value in vars(resource).values() if isinstance(value, ResourceType) and value.namespaced
) - {resource.Event, resource.Lease}
"""The built-in kinds that operators make."""

DEPTH: Final = 4
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Told:
    """`object` is a summary; `children` come in the order of the tree, each with its `depth`; `events` the oldest first.

    `hidden` names the kinds that may not be listed.
    """

    resource: ResourceType
    namespace: str
    object: dict[str, Any]
    children: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    hidden: tuple[str, ...] = ()


async def tell(kind: str, name: str, namespace: str, *, kubeconfig: str | None, context: str | None) -> Told:
    """Read the object and what belongs to it; `namespace` empty means the context's.

    Raises: CredentialsError; ConfigError for an unknown kind; NotFound; any other ApiError; ConnectionFailed.
    """
    client = await connect(kubeconfig, context, clock=SystemClock(), random=Random(), check=False)  # noqa: S311 - jitter
    try:
        served = await discover(client)
        wanted = find(served, kind).resource
        namespace = (namespace or client.credentials().namespace or "default") if wanted.namespaced else ""
        obj = await client.get(wanted, name, namespace or None)
        (children, hidden), events = await asyncio.gather(
            _children(client, served, obj, namespace), _events(client, obj, namespace)
        )
        return Told(wanted, namespace, summarize(obj), children, events, hidden)
    finally:
        await client.close()


async def _children(
    reader: Reader, served: Sequence[Served], owner: Object, namespace: str
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    limit = asyncio.Semaphore(AT_ONCE)
    hidden: list[str] = []
    by_owner: defaultdict[str, list[Object]] = defaultdict(list)

    async def collect(kind: ResourceType) -> None:
        async with limit:
            try:
                async for obj in _list(reader, kind, Scope(namespace or None)):
                    for reference in meta.owners_of(obj):
                        by_owner[str(reference.get("uid"))].append(obj)
            except Forbidden:
                hidden.append(str(kind))
            except ApiError as error:
                logger.warning("cannot list %s: %s", kind, error)

    await asyncio.gather(*(collect(each.resource) for each in served if _may_be_child(each)))
    tree = list(_tree(by_owner, meta.uid_of(owner), 0))
    return tree, tuple(sorted(hidden))


def _tree(by_owner: dict[str, list[Object]], uid: str, depth: int) -> Iterator[dict[str, Any]]:
    if depth >= DEPTH:
        return
    for child in sorted(by_owner.get(uid, []), key=lambda obj: (str(obj.get("kind")), meta.key_of(obj))):
        yield {**summarize_child(child), "depth": depth}
        yield from _tree(by_owner, meta.uid_of(child), depth + 1)


def _may_be_child(each: Served) -> bool:
    """The usual kinds, and every custom one."""
    wanted = is_custom(each.resource) or each.resource in USUAL
    return each.resource.namespaced and "list" in each.verbs and wanted


async def _events(reader: Reader, obj: Object, namespace: str) -> list[dict[str, Any]]:
    scope = Scope(namespace or "default", field_selector=f"involvedObject.uid={meta.uid_of(obj)}")
    now = datetime.now(UTC)
    try:
        found = [_event(event, now) async for event in _list(reader, EVENT, scope)]
    except Forbidden:
        return []
    return sorted(found, key=lambda event: -event["ago"])


def _event(event: Object, now: datetime) -> dict[str, Any]:
    series = event.get("series") or {}
    stamp = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    return {
        "ago": max(0.0, (now - datetime.fromisoformat(stamp)).total_seconds()),
        "type": event.get("type") or "",
        "reason": event.get("reason") or "",
        "message": event.get("message") or "",
        "times": series.get("count") or event.get("count") or 1,
    }


async def _list(reader: Reader, kind: ResourceType, scope: Scope) -> AsyncIterator[Object]:
    token = ""
    while True:
        page = await reader.list(kind, scope, continue_token=token)
        for obj in page.items:
            yield obj
        token = page.continue_token
        if not token:
            return
