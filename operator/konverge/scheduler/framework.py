"""The plugin framework: what a plugin may implement, what it is given, and what it answers.

A plugin is a class that derives from one or more of the extension points below. The cycle calls them in this order:

    PreEnqueue -> QueueSort -> PreFilter -> Filter -> (PostFilter, when no node fits) -> PreScore -> Score -> normalize
        -> Reserve -> Permit -> PreBind -> Bind -> PostBind

A plugin author writes the per-node methods `filter` and `score`. `filter_batch` and `score_batch` judge many nodes at
once from the snapshot's columns; their default loops over the per-node methods, and the built-in plugins replace it.
Plugins are pure: no clock, no chance, no I/O, save for PreBind and Bind, which run beside the next attempts.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from konverge.model.resource import ResourceType
from konverge.ports import Random
from konverge.scheduler.columns import BoolArray, IntArray
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.events import ANY_EVENT, Cause, ClusterEvent
from konverge.scheduler.handle import Handle
from konverge.scheduler.limits import Limits
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.occupants import Occupants
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

MAX_SCORE: Final = 100
"""Scores are integers from 0 to this, after normalising and before weighting."""

T = TypeVar("T")


class Code(Enum):
    """What a plugin answers."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable"
    """Not here now; removing pods could help."""
    UNRESOLVABLE = "unresolvable"
    """Not here, and removing pods would not help."""
    WAIT = "wait"
    """Not decided yet; only Permit plugins may say so."""
    SKIP = "skip"
    """Nothing to do for this pod: from PreFilter and PreScore, leave the plugin out; from Bind, ask the next."""
    ERROR = "error"
    """Something went wrong; the pod is tried again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer with its reasons, in the words that the pod's event and condition show."""

    code: Code
    reasons: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether it says that the pod does not fit."""
        return self.code is Code.UNSCHEDULABLE or self.code is Code.UNRESOLVABLE


SUCCESS: Final = Verdict(Code.SUCCESS)
SKIP: Final = Verdict(Code.SKIP)


def unschedulable(*reasons: str) -> Verdict:
    """It does not fit now, but could if pods left."""
    return Verdict(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Verdict:
    """It does not fit, whatever pods leave."""
    return Verdict(Code.UNRESOLVABLE, reasons)


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """What a filter says of many nodes: for each reason which of the rows it rejects, and which for good.

    Every mask is as long as the rows that were asked about. A row may have several reasons.
    """

    reasons: Mapping[str, BoolArray]
    unresolvable: BoolArray | None = None
    """None: none of them."""

    def rejected(self, count: int) -> BoolArray:
        """Which of the `count` rows are rejected, for whatever reason."""
        result = np.zeros(count, dtype=np.bool_)
        for mask in self.reasons.values():
            result |= mask
        return result


ALL_PASS: Final = BatchVerdict({})


class CycleState:
    """What plugins keep for themselves between the extension points of one attempt: one value of each type."""

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}
        self.skipped: set[str] = set()
        """The filters that have nothing to do for this pod, as their PreFilter said."""

    def write(self, value: object) -> None:
        """Keep `value` under its type."""
        self._values[type(value)] = value

    def read(self, kind: type[T]) -> T | None:
        """The value of that type, if one was written."""
        return self._values.get(kind)

    def copy(self) -> "CycleState":
        """Another one that holds the same values."""
        other = CycleState()
        other._values, other.skipped = dict(self._values), set(self.skipped)
        return other


class PluginArgs(BaseModel):
    """The base of a plugin's arguments: camelCase outside, snake_case here; unknown fields are refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


FIRST_VERSION: Final = "v1"
"""The version of a plugin that says none."""


class Plugin(ABC):
    """The base of all extension points."""

    name: ClassVar[str]
    """How profiles, policies and messages call it."""
    version: ClassVar[str] = FIRST_VERSION
    """Which of several implementations under one name this is; a profile may run one of them for a share of its pods."""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    """The model of its arguments."""
    events: ClassVar[frozenset[ClusterEvent]] = ANY_EVENT
    """What may make a pod fit that this plugin rejected; such a pod is not tried again before one happens."""

    reads: ClassVar[frozenset[ResourceType]] = frozenset()
    """What it reads through `Handle.lister`, besides pods, nodes and namespaces."""

    reads_if_served: ClassVar[frozenset[ResourceType]] = frozenset()
    """The same, of resources that a cluster may lack: read where the server had them when the operator started."""

    node_only: ClassVar[bool] = False
    """Whether pods change nothing about what the plugin says of a node: neither those on it nor those elsewhere."""

    @classmethod
    def label(cls) -> str:
        """What metrics and messages call it: its name, and beyond the first version that too, `NodeResourcesFit@v2`."""
        return cls.name if cls.version == FIRST_VERSION else f"{cls.name}@{cls.version}"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:  # noqa: B027 - most plugins take neither
        """Take the validated `Args`; called anew whenever a profile changes."""

    def signature(self, state: CycleState, pod: PodInfo, /) -> Hashable | None:  # noqa: ARG002 - for overriding
        """What Filter and Score read of the pod and of `state`, where all else that they read is the node in question.

        Pods with equal signatures get the same answers, so these are kept for each node until the node or a pod on it
        changes, and the per-node methods are asked about single nodes that did. None, the default: ask each time.
        """
        return None

    def hint(self, pod: PodInfo, cause: Cause, /) -> bool:  # noqa: ARG002 - for overriding
        """Whether one of `events`, brought by `cause`, may make the pod fit, which this plugin turned away.

        True where in doubt: a pod that is not queued for what would have helped waits for minutes. Pure, and quick: it is
        asked while all pods wait. Where it raises the pod is queued.
        """
        return True

    def hint_key(self, pod: PodInfo, /) -> Hashable | None:  # noqa: ARG002 - for overriding
        """What `hint` reads of the pod: of pods with equal keys one is asked about. None, the default: of each."""
        return None


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod's place in the queue, as a QueueSort plugin sees it: `since` is when it was queued, monotonic seconds."""

    pod: PodInfo
    since: float


class PreEnqueue(Plugin):
    """Keeps a pod out of the queue until it is ready to be scheduled."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo, /) -> Verdict:
        """Success, or a rejection; asked again whenever the pod changes. One that raises keeps nobody out."""


class QueueSort(Plugin):
    """Orders the pods that wait. All profiles of a scheduler use the same."""

    @abstractmethod
    def sort_key(self, queued: QueuedPod, /) -> tuple[Any, ...]:
        """The pod with the smallest key goes first."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """A PreFilter's answer; `node_names` narrows the search to these nodes (None: any)."""

    verdict: Verdict = SUCCESS
    node_names: frozenset[str] | None = None


class PreFilter(Plugin):
    """Looks at the pod once, before any node."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> PreFilterResult:
        """Success, skip (leave this plugin's `filter` out), or a rejection of the pod as a whole."""


class Filter(Plugin):
    """Says whether a pod fits a node."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        """Success or a rejection with its reasons."""

    def filter_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> BatchVerdict:
        """The same for many nodes at once."""
        reasons: dict[str, BoolArray] = {}
        final = np.zeros(len(rows), dtype=np.bool_)
        for index, node in enumerate(snapshot.nodes(rows)):
            verdict = self.filter(state, pod, node)
            if verdict.code is Code.SUCCESS:
                continue
            if not verdict.rejected:
                raise ValueError(f"filter answered {verdict.code.value} for node {node.name}: {_text(verdict)}")
            final[index] = verdict.code is Code.UNRESOLVABLE
            for reason in verdict.reasons or ("node(s) were rejected without a reason",):
                reasons.setdefault(reason, np.zeros(len(rows), dtype=np.bool_))[index] = True
        return BatchVerdict(reasons, final)

    def limits(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Limits | None:  # noqa: ARG002 - for overriding
        """The same as sums over the pods on each node, for preemption on many nodes. None: take pods off and ask `filter`.

        Not asked of a plugin that is `node_only`: what pods leave changes nothing about it.
        """
        return None


class Trial(Protocol):
    """A node as it would be with other pods on it."""

    node: NodeInfo

    def add(self, pod: PodInfo) -> None:
        """Put the pod on the node."""
        ...

    def remove(self, pod: PodInfo) -> None:
        """Take it off."""
        ...

    def verdict(self) -> Verdict:
        """What the filters say of the node as it is now; of higher nominated pods as in a real attempt. PluginFailed."""
        ...


class Trials(Protocol):
    """What an attempt that found no node may try out."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster; within a trial perhaps as it is in the trial."""
        ...

    @property
    def random(self) -> Random:
        """Chance."""
        ...

    @property
    def occupants(self) -> Occupants:
        """The pods on nodes by importance."""
        ...

    @property
    def nominated(self) -> Mapping[str, Sequence[PodInfo]]:
        """By node, the other pods nominated to it to which the pod must leave their room."""
        ...

    def on(self, node: NodeInfo) -> AbstractContextManager[Trial]:
        """Try things on this node; afterwards they have not happened."""
        ...

    def limits(self, rows: IntArray) -> Sequence[Limits | BatchVerdict] | None:
        """What each filter says of `rows`: as sums over the pods there, or whatever pods leave. None where one cannot."""
        ...


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """A PostFilter's answer: success with the node that the pod is nominated to once the victims are gone."""

    verdict: Verdict
    node_name: str | None = None
    """Empty takes the pod's nomination away, None leaves it as it is."""
    victims: tuple[PodInfo, ...] = ()
    """Pods to evict from that node, in order."""


@dataclass(frozen=True, slots=True)
class Company:
    """The pods without which the node of a pod is worth nothing."""

    name: str
    """What they are, for messages, and no other company: `gang default/train`."""
    needed: int
    """How many of `pods` must find a node too."""
    pods: tuple[PodInfo, ...]
    """In the order in which they are to be placed."""


class PostFilter(Plugin):
    """Looks for a way out when no node fits."""

    @abstractmethod
    def post_filter(self, state: CycleState, pod: PodInfo, trials: Trials, diagnosis: Diagnosis, /) -> PostFilterResult:
        """Success with a nomination, or a rejection; the first success ends the search. The scheduler evicts."""

    def company(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, /) -> Company | None:  # noqa: ARG002 - for overriding
        """Who must find a node as well, so that anybody may be evicted for `pod`. None, the default: nobody.

        Asked for whatever way out any plugin finds that has victims.
        """
        return None

    def room_is_made(self, pod: PodInfo, company: Company, /) -> None:
        """The victims of `pod` go: enough of its company would find nodes now, if they were tried next."""


class PreScore(Plugin):
    """Looks at the pod once, before any node is scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> Verdict:
        """Success, or skip: leave this plugin's `score` out."""


class Score(Plugin):
    """Ranks the nodes that a pod fits."""

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        """Any number that `normalize` brings to 0-100."""

    def score_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same for many nodes at once."""
        return np.array([self.score(state, pod, node) for node in snapshot.nodes(rows)], dtype=np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, /) -> IntArray:  # noqa: ARG002 - for overriding
        """Bring the scores of all nodes to 0-100, higher is better. As it stands: they are so already."""
        return scores


class Reserve(Plugin):
    """Keeps books on what a pod was promised on its node."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        """Note that the pod goes there."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        """Undo `reserve`. Called on any failure after it, also where this plugin's own `reserve` never ran."""


@dataclass(frozen=True, slots=True)
class PermitResult:
    """A Permit's answer: success, a rejection, or wait for so many seconds before the pod is rejected."""

    verdict: Verdict = SUCCESS
    timeout: float = 0.0


class Permit(Plugin):
    """May hold a pod back that has a node, until others are ready too."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str, /) -> PermitResult:
        """Success, a rejection, or wait; who waits goes on by `Handle.waiting`."""

    def patient(self, pod: PodInfo, /) -> bool:  # noqa: ARG002 - for overriding
        """Whether the pod waits out its backoff though nobody else is to be tried.

        So should one whose failure makes others give back the room that it would find at once, and take from them again.
        """
        return False


class PreBind(Plugin):
    """Prepares what the pod needs on its node."""

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        """Success, skip, or a rejection that gives the node back. Raises: what its writes raise."""


class PostBind(Plugin):
    """Is told of pods that were bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        """Note it, or clean up; it cannot fail the pod any more."""


class Bind(Plugin):
    """Tells the API server."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        """Success; skip to leave it to the next Bind plugin. Raises: what the write raises."""


class Point(Enum):
    """The extension points, as a profile names them."""

    MULTI_POINT = "multiPoint"
    """All the points that a plugin implements."""
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"


INTERFACES: Final[Mapping[Point, type[Plugin]]] = {
    Point.PRE_ENQUEUE: PreEnqueue,
    Point.QUEUE_SORT: QueueSort,
    Point.PRE_FILTER: PreFilter,
    Point.FILTER: Filter,
    Point.POST_FILTER: PostFilter,
    Point.PRE_SCORE: PreScore,
    Point.SCORE: Score,
    Point.RESERVE: Reserve,
    Point.PERMIT: Permit,
    Point.PRE_BIND: PreBind,
    Point.BIND: Bind,
    Point.POST_BIND: PostBind,
}
"""What a plugin derives from to be called at a point."""


def _text(verdict: Verdict) -> str:
    return ", ".join(verdict.reasons) or "no reason given"
