"""One peer, measured once: an arena and a peer flow in, a `Run` of plain numbers flows out."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.arena import Arena
from harness.peers import Peer
from harness.process import Operator
from harness.world import Observer, World, name_of

EDIT_SECONDS: Final = 10.0
EDITS_PER_SECOND: Final = 50
IDLE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large and how long: objects, seconds of edits at `edits_per_second`, seconds of idling."""

    count: int = 2000
    edit_seconds: float = EDIT_SECONDS
    edits_per_second: int = EDITS_PER_SECOND
    idle_seconds: float = IDLE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was measured. Times are in the unit of the name, memory in MB (10^6 bytes)."""

    peer: str
    first_ready_seconds: float
    """From the start of the process to the first Ready object."""
    all_ready_seconds: float
    """From the start of the process to the last one."""
    resources_per_second: float
    """All of them by `all_ready_seconds`."""
    cpu_ms_per_resource: float
    """Of the operator, its start included."""
    work_cpu_ms_per_resource: float
    """Of the operator, less the start of a process with nothing to do."""
    apiserver_cpu_ms_per_resource: float
    requests_per_resource: float
    edit_p50_ms: float
    """From the sending of an edit to Ready for its generation."""
    edit_p99_ms: float
    edit_requests: float
    """Requests an edit, the edit itself not counted."""
    idle_cpu_percent: float
    """Of one core."""
    peak_mb: float
    start_mb: float
    """Resident with nothing cached."""
    start_cpu_seconds: float
    cached_mb: float
    """Resident after a start beside objects that are all Ready."""
    cached_kb_per_object: float
    """What each cached object (two a resource) added to that."""
    restart_cpu_ms_per_resource: float
    """To look at every resource again and find nothing to do."""


async def measure(arena: Arena, peer: Peer, plan: Plan, log: Path) -> Run:
    """Run `peer` through the whole course. Raises: TimeoutError, with the end of the peer's log, when it gets stuck."""
    course = _Course(arena, peer, plan, log)
    await arena.world.clear()
    start_mb, start_cpu = await course.at_rest()
    await arena.world.populate(plan.count)
    await arena.settled()
    numbers = await course.converge(start_cpu)
    cached_mb, cached_cpu = await course.at_rest()
    return Run(
        peer=peer.label,
        start_mb=start_mb,
        start_cpu_seconds=start_cpu,
        cached_mb=cached_mb,
        cached_kb_per_object=(cached_mb - start_mb) * 1000 / (2 * plan.count),
        restart_cpu_ms_per_resource=(cached_cpu - start_cpu) * 1000 / plan.count,
        **numbers,
    )


class _Course:
    def __init__(self, arena: Arena, peer: Peer, plan: Plan, log: Path) -> None:
        self._arena, self._peer, self._plan, self._log = arena, peer, plan, log

    def _operator(self) -> Operator:
        environment = {**self._peer.environment, "KUBECONFIG": self._arena.kubeconfig}
        return Operator(self._peer.command, environment, self._log)

    async def at_rest(self) -> tuple[float, float]:
        """Start it with nothing to do: the memory and the CPU time once it is quiet."""
        with self._operator() as operator:
            await asyncio.sleep(1)
            await operator.settled()
            return operator.rss, operator.cpu

    async def converge(self, start_cpu: float) -> dict[str, float]:
        """The course itself."""
        count = self._plan.count
        requests, apiserver = await self._arena.requests(), self._arena.apiserver_cpu
        async with self._arena.world.watching() as observer:
            with self._operator() as operator:
                seconds = await observer.all_ready(count) - operator.started
                cpu, apiserver = operator.cpu, self._arena.apiserver_cpu - apiserver
                # The operator may still be at work on what its own last writes brought back.
                await operator.settled()
                seen = await self._arena.requests()
                edits = await _edit(self._arena.world, observer, self._plan)
                await operator.settled()
                edited = await self._arena.requests()
                before = operator.cpu
                await asyncio.sleep(self._plan.idle_seconds)
                return {
                    "first_ready_seconds": min(observer.ready.values()) - operator.started,
                    "all_ready_seconds": seconds,
                    "resources_per_second": count / seconds,
                    "cpu_ms_per_resource": cpu * 1000 / count,
                    "work_cpu_ms_per_resource": (cpu - start_cpu) * 1000 / count,
                    "apiserver_cpu_ms_per_resource": apiserver * 1000 / count,
                    "requests_per_resource": (seen - requests) / count,
                    "edit_p50_ms": quantile(edits, 0.50),
                    "edit_p99_ms": quantile(edits, 0.99),
                    "edit_requests": (edited - seen) / len(edits) - 1,
                    "idle_cpu_percent": (operator.cpu - before) * 100 / self._plan.idle_seconds,
                    "peak_mb": operator.peak,
                }


async def _edit(world: World, observer: Observer, plan: Plan) -> list[float]:
    """Edit at a steady rate, whatever the answers take; the milliseconds from each edit to Ready, sorted."""
    sent: dict[tuple[str, int], float] = {}

    async def edit(number: int, turn: int) -> None:
        began = time.monotonic()
        generation = await world.edit(number, f"edit {turn}")
        sent[name_of(number), generation] = began

    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for turn in range(round(plan.edit_seconds * plan.edits_per_second)):
            await asyncio.sleep(begin + turn / plan.edits_per_second - time.monotonic())
            group.create_task(edit(turn % plan.count, turn))
    await observer.those_ready(sent)
    return sorted((observer.ready[each] - began) * 1000 for each, began in sent.items())


def quantile(values: list[float], share: float) -> float:
    """The value at or below which `share` of the sorted values lie."""
    return values[min(len(values) - 1, round(share * len(values)))]
