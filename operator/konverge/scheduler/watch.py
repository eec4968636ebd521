"""The calls of plugins: timed, named when they raise or are slow, and told to the observer.

In flow the plugin and the extension point of each call; out flow `PluginFailed`, warnings and durations. Every tenth
attempt is measured for the observer, as kube-scheduler does, and every call that raises; the others cost two looks at
the clock.
"""

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from konverge.errors import PluginFailed
from konverge.scheduler.framework import Code, Plugin, Point, Verdict
from konverge.scheduler.stats import NullObserver, SchedulingObserver

_log = logging.getLogger(__name__)

SLOW: Final = 1.0
"""Seconds that one call may keep all other pods waiting before the log names the plugin."""

SAMPLED: Final = 10
"""One attempt of so many is measured."""

STATUS: Final = {
    Code.SUCCESS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.ERROR: "Error",
}
"""The codes as kube-scheduler's metrics call them."""


class Call:
    """One call under way. Whatever it raises comes out as PluginFailed, in the name of the plugin that raised first.

    `code` is what the plugin answered.
    """

    __slots__ = ("_plugin", "_point", "_since", "_watch", "code")

    def __init__(self, watch: "PluginWatch", plugin: Plugin, point: Point) -> None:
        self._watch, self._plugin, self._point = watch, plugin, point
        self.code = Code.SUCCESS

    def __enter__(self) -> Self:
        self._since = self._watch.now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = self._watch.now() - self._since
        if seconds > SLOW:
            _warn(self._plugin, self._point, seconds)
        if error is None:
            if self._watch.sampled:
                self._watch.add(self._plugin, self._point, self.code, seconds)
            return
        if isinstance(error, Exception):
            self._watch.tell(self._plugin, self._point, Code.ERROR, seconds)
            if not isinstance(error, PluginFailed):
                raise failed(self._plugin, self._point, f"{type(error).__name__}: {error}") from error


class PluginWatch:
    """All calls of a scheduler's plugins. `sampled` says whether the attempt at hand is measured."""

    def __init__(self, observer: SchedulingObserver, now: Callable[[], float]) -> None:
        """`now` gives monotonic seconds."""
        self._observer, self.now = observer, now
        self.sampled = False
        self._attempts = 0
        self._points: dict[Point, float] = {}

    def begin(self) -> None:
        """Another attempt begins."""
        self.sampled = self._attempts % SAMPLED == 0
        self._attempts += 1

    def call(self, plugin: Plugin, point: Point) -> Call:
        """To be used as a context around the call."""
        return Call(self, plugin, point)

    def add(self, plugin: Plugin, point: Point, code: Code, seconds: float) -> None:
        """A call of the attempt that is measured."""
        self._points[point] = self._points.get(point, 0.0) + seconds
        self.tell(plugin, point, code, seconds)

    def end(self, profile: str) -> None:
        """The attempt's part that keeps others waiting is over."""
        for point, seconds in self._points.items():
            self._observer.extension_point(profile, name_of(point), STATUS[Code.SUCCESS], seconds)
        self._points.clear()
        self.sampled = False

    async def waited(self, plugin: Plugin, point: Point, answer: Awaitable[Verdict], *, sampled: bool) -> Verdict:
        """Await a plugin that works beside the next attempts. Raises: what it raises."""
        since, code = self.now(), Code.ERROR
        try:
            verdict = await answer
            code = verdict.code
        finally:
            if sampled or code is Code.ERROR:
                self.tell(plugin, point, code, self.now() - since)
        return verdict

    def tell(self, plugin: Plugin, point: Point, code: Code, seconds: float) -> None:
        """Tell the observer of one call."""
        self._observer.plugin(plugin.label(), name_of(point), STATUS[code], seconds)

    def passed(self, profile: str, point: Point, code: Code, since: float) -> None:
        """A measured attempt is through the extension point that it reached at `since`, monotonic seconds."""
        seconds = self.now() - since
        self._observer.extension_point(profile, name_of(point), STATUS[code], seconds)


UNWATCHED: Final = PluginWatch(NullObserver(), lambda: 0.0)
"""For calls whose time interests nobody."""


def failed(plugin: Plugin, point: Point, what: str) -> PluginFailed:
    """The error that names the plugin."""
    return PluginFailed(plugin.name, f"running {plugin.label()!r} {point.value} plugin: {what}")


def misplaced(plugin: Plugin, point: Point, verdict: Verdict) -> PluginFailed:
    """It answered what it must not."""
    reasons = ", ".join(verdict.reasons) or "no reason given"
    return failed(plugin, point, f"{verdict.code.value}: {reasons}")


def name_of(point: Point) -> str:
    """The extension point as kube-scheduler's metrics call it."""
    return point.value[0].upper() + point.value[1:]


def _warn(plugin: Plugin, point: Point, seconds: float) -> None:
    _log.warning("plugin %s took %.1f s at %s, and all pods waited", plugin.label(), seconds, point.value)
