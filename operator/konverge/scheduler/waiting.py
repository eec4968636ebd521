"""Pods that have a node and wait for a Permit plugin's leave: between reserve and prebind.

In flow pods with the plugins that hold them and for how long; out flows, from `decision`, whether each may go on.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from konverge.ports import Clock
from konverge.scheduler.framework import SUCCESS, Verdict, unschedulable
from konverge.scheduler.handle import WaitingPod
from konverge.scheduler.podinfo import PodInfo


class Decision(NamedTuple):
    """What became of a pod that waited, and the plugin that said so; empty when all let it go on."""

    verdict: Verdict
    plugin: str = ""


@dataclass(slots=True, eq=False)
class _Entry:
    pod: PodInfo
    node_name: str
    since: float
    deadlines: dict[str, float]
    """By plugin, monotonic seconds."""
    decision: Decision | None = None
    decided: asyncio.Event = field(default_factory=asyncio.Event)


class WaitingRoom:
    """See `konverge.scheduler.handle.WaitingPods`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether the pod is held, or what became of it was not asked for yet."""
        return uid in self._entries

    def keeps(self, uid: str) -> bool:
        """Whether the pod is held, and nothing is decided yet."""
        entry = self._entries.get(uid)
        return entry is not None and entry.decision is None

    def all(self) -> Sequence[WaitingPod]:
        """Those that wait now, longest first."""
        return [
            WaitingPod(entry.pod, entry.node_name, frozenset(entry.deadlines), min(entry.deadlines.values()))
            for entry in self._entries.values()
            if entry.decision is None
        ]

    def allow(self, uid: str, plugin: str) -> None:
        """`plugin` lets the pod go on; it does when no other plugin keeps it. Unknown pods are ignored."""
        entry = self._entries.get(uid)
        if entry is not None and entry.decision is None:
            entry.deadlines.pop(plugin, None)
            if not entry.deadlines:
                self._decide(entry, Decision(SUCCESS))

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """The pod gives its node back and is unschedulable for `reason`. Unknown pods are ignored."""
        entry = self._entries.get(uid)
        if entry is not None and entry.decision is None:
            self._decide(entry, Decision(unschedulable(reason or f"pod rejected by plugin {plugin}"), plugin))

    def hold(self, pod: PodInfo, node_name: str, timeouts: Mapping[str, float]) -> None:
        """Keep the pod until each plugin of `timeouts` (seconds from now) allows it; `decision` is to be awaited."""
        now = self._clock.monotonic()
        deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        self._entries[pod.uid] = _Entry(pod, node_name, now, deadlines)

    def drop(self, uid: str) -> None:
        """Nobody waits for what becomes of the pod any more."""
        self._entries.pop(uid, None)

    async def decision(self, uid: str) -> Decision:
        """Wait for what becomes of a pod that is held: success, or unschedulable, also when its time is over."""
        entry = self._entries[uid]
        await self._decided(entry)
        self.drop(uid)
        if entry.decision is not None:
            return entry.decision
        late = min(entry.deadlines, key=lambda plugin: entry.deadlines[plugin])
        waited = self._clock.monotonic() - entry.since
        return Decision(unschedulable(f"rejected due to timeout after waiting {waited:g}s at plugin {late}"), late)

    async def _decided(self, entry: _Entry) -> None:
        """Until the entry has a decision, or the first of its deadlines has passed."""
        if entry.decision is not None:
            return
        left = min(entry.deadlines.values()) - self._clock.monotonic()
        timer = asyncio.ensure_future(self._clock.sleep(max(0.0, left)))
        decided = asyncio.ensure_future(entry.decided.wait())
        try:
            await asyncio.wait([timer, decided], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in (timer, decided):
                wait.cancel()
            await asyncio.gather(timer, decided, return_exceptions=True)

    @staticmethod
    def _decide(entry: _Entry, decision: Decision) -> None:
        entry.decision = decision
        entry.decided.set()
