"""What plugins may use of the scheduler: caches to read, pods to let go on, and a writer for PreBind and Bind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from konverge.model.meta import Key
from konverge.model.resource import Object, ResourceType
from konverge.ports import Writer
from konverge.scheduler.podinfo import PodInfo


class Index(NamedTuple):
    """A way to find objects: under each of the values that the pure function `fn` gives for them."""

    name: str
    """Another index of the same resource has another name."""
    fn: Callable[[Object], Iterable[str]]


class Lister(Protocol):
    """Reads the caches of what plugins declare in `Plugin.reads`; nothing is asked of the server.

    All methods raise SchedulingError for a resource that no cache holds. What one plugin assumes, all plugins of all
    profiles read.
    """

    def get(self, resource: ResourceType, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""
        ...

    def list(self, resource: ResourceType, namespace: str | None = None) -> Sequence[Object]:
        """All of them, or those of one namespace."""
        ...

    def by_index(self, resource: ResourceType, index: Index, value: str) -> Sequence[Object]:
        """Those that the server shows under that value of the index, which is kept up to date once it was asked for."""
        ...

    def version(self, resource: ResourceType) -> int:
        """Another number whenever something of the resource may read otherwise than before."""
        ...

    def changed(self, resource: ResourceType, since: int) -> Sequence[Key] | None:
        """Of which objects that holds since then, which was the `version`; None when it may be any of them."""
        ...

    def assume(self, resource: ResourceType, obj: Object) -> None:
        """Read `obj`, a changed copy of what was read, until the server shows another version of it, or it is forgotten."""
        ...

    def forget(self, resource: ResourceType, obj: Object) -> None:
        """Read what the server has again, if `obj` is what is assumed."""
        ...

    def wrote(self, resource: ResourceType, obj: Object) -> None:
        """Take over what a write returned: the next read gives it or something newer."""
        ...


class Until(Protocol):
    """Waits for the caches of what plugins read; for PreBind."""

    async def __call__(self, check: Callable[[], bool], seconds: float, /) -> bool:
        """Wait until `check` holds, asking it now and after each change; False when so many seconds have passed.

        The change of a workload's status is none. Raises: what `check` raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that has a node and waits for leave to be bound."""

    pod: PodInfo
    node_name: str
    plugins: frozenset[str]
    """Those that keep it waiting."""
    until: float
    """When the first of them gives up on it, monotonic seconds."""


class WaitingPods(Protocol):
    """The pods that Permit plugins keep waiting between Reserve and PreBind."""

    def all(self) -> Sequence[WaitingPod]:
        """Those that wait now, longest first."""
        ...

    def allow(self, uid: str, plugin: str) -> None:
        """`plugin` lets the pod go on; it does when no other plugin keeps it. Unknown pods are ignored."""
        ...

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """The pod gives its node back and is unschedulable for `reason`. Unknown pods are ignored."""
        ...


class Activate(Protocol):
    """Has pods tried now that a plugin knows to have a chance."""

    def __call__(self, uids: Iterable[str], /, *, beside: str = "") -> None:
        """Take these pods out of backoff and from the unschedulable ones; unknown ones are ignored.

        With the uid `beside` of a pod that has a node or is being tried, they are tried in that pod's place in the line.
        """
        ...


def activate_nobody(_uids: Iterable[str], /, *, beside: str = "") -> None:
    """For a handle without a queue."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What a plugin may use of the scheduler."""

    writer: Writer
    lister: Lister
    waiting: WaitingPods
    until: Until
    activate: Activate = activate_nobody
