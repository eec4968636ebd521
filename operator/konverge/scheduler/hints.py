"""Which of the pods that fit nowhere something that happened may help: the plugins that turned them away are asked.

In flow a pod with the names of those plugins, and what happens in the cluster; out flows whether the pod is to be tried
again. Pods about which the same plugins answer the same stand together, so thousands of pods from a few templates cost
one question an event and template.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from konverge.scheduler.events import ANY_EVENT, Cause, ClusterEvent
from konverge.scheduler.framework import Plugin
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile
from konverge.scheduler.stats import SchedulingObserver

_log = logging.getLogger(__name__)

QUEUE: Final = "Queue"
SKIP: Final = "QueueSkip"
ERROR: Final = "Error"
"""The answers as kube-scheduler's metrics call them."""


class Judge(NamedTuple):
    """A plugin that turned a pod away: the instance, if its profile still has it, and what it reads of the pod."""

    name: str
    plugin: Plugin | None
    key: Hashable
    events: frozenset[ClusterEvent]

    @property
    def label(self) -> str:
        """Its name with its version, as far as known."""
        return self.plugin.label() if self.plugin else self.name


@dataclass(frozen=True, slots=True)
class Judges:
    """All plugins that turned a pod away. Equal ones answer the same of both pods."""

    each: tuple[Judge, ...] = ()
    """None: nobody knows what could help, so anything may."""
    alone: str = ""
    """The pod's uid, where one of them wants to be asked about each pod."""
    patient: bool = False
    """Whether a plugin wants the pod to wait out its backoff."""
    events: frozenset[ClusterEvent] = ANY_EVENT
    """All that any of them listens to."""


class Hints:
    """See the module."""

    def __init__(
        self,
        events: Callable[[str], frozenset[ClusterEvent]],
        profile_of: Callable[[PodInfo], Profile | None],
        observer: SchedulingObserver,
        now: Callable[[], float],
    ) -> None:
        """`events` are those of a plugin by its name, for one that no profile has any more; `now` in monotonic seconds."""
        self._events, self._profile_of = events, profile_of
        self._observer, self._now = observer, now
        self._blamed: set[str] = set()

    def judges(self, pod: PodInfo, names: Iterable[str]) -> Judges:
        """Those of these names that the pod meets."""
        profile = self._profile_of(pod)
        known = _by_name(profile) if profile else {}
        each = tuple(self._judge(pod, name, known.get(name)) for name in sorted(names))
        alone = any(judge.key is None for judge in each)
        patient = profile is not None and any(plugin.patient(pod) for plugin in profile.permits)
        events = frozenset[ClusterEvent]().union(*(judge.events for judge in each)) if each else ANY_EVENT
        return Judges(each, pod.uid if alone else "", patient, events)

    def interested(self, judges: Judges, events: Iterable[ClusterEvent]) -> bool:
        """Whether any of the events may help, whatever brought it."""
        return self.helped(judges, None, tuple(events), None) is not None

    def helped(
        self, judges: Judges, pod: PodInfo | None, events: Sequence[ClusterEvent], cause: Cause | None
    ) -> ClusterEvent | None:
        """The first of the events that may help the pods of `judges`, of which `pod` is one. Without cause none is asked."""
        if judges.events.isdisjoint(events):
            return None
        if not judges.each:
            return events[0]
        for judge in judges.each:
            event = next((event for event in events if event in judge.events), None)
            if event is None:
                continue
            if pod is None or cause is None or judge.plugin is None or not _asks(judge.plugin):
                return event
            if self._ask(judge.plugin, pod, event, cause):
                return event
        return None

    def _judge(self, pod: PodInfo, name: str, plugin: Plugin | None) -> Judge:
        events = plugin.events if plugin else self._events(name)
        if plugin is None or not _asks(plugin):
            return Judge(name, plugin, (), events)
        try:
            key = plugin.hint_key(pod)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._blame(plugin, error)
            key = None
        return Judge(name, plugin, key, events)

    def _ask(self, plugin: Plugin, pod: PodInfo, event: ClusterEvent, cause: Cause) -> bool:
        started = self._now()
        try:
            answer = plugin.hint(pod, cause)
            said = QUEUE if answer else SKIP
        except Exception as error:  # noqa: BLE001 - somebody else's code; whoever cannot tell may be helped
            self._blame(plugin, error)
            answer, said = True, ERROR
        self._observer.hint(plugin.label(), label_of(event), said, self._now() - started)
        return answer

    def _blame(self, plugin: Plugin, error: Exception) -> None:
        """Name the plugin in the log, once; the metric counts how often."""
        if plugin.label() not in self._blamed:
            self._blamed.add(plugin.label())
            _log.warning(
                "plugin %s failed to say which pods an event helps, so they are all tried: %s: %s",
                plugin.label(),
                type(error).__name__,
                error,
                exc_info=error,
            )


def label_of(event: ClusterEvent) -> str:
    """The name in the style of kube-scheduler's events: `NodeAdded`."""
    return "".join(word.capitalize() for word in event.name.split("_"))


def _asks(plugin: Plugin) -> bool:
    return type(plugin).hint is not Plugin.hint


def _by_name(profile: Profile) -> dict[str, Plugin]:
    """The plugins that can turn a pod away."""
    points = (profile.pre_filters, profile.filters, profile.reserves, profile.permits, profile.pre_binds, profile.binds)
    return {plugin.name: plugin for plugins in points for plugin in plugins}
