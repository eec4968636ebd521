"""One scheduler, measured once on one size of cluster: a stage and a scheduler flow in, a `Run` of plain numbers flows out."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from harness.measure import quantile
from harness.process import Operators
from harness.schedulers import Scheduler
from harness.stage import Placements, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much: pods that wait at the start, then pods that arrive at a steady rate."""

    waiting: int = 3000
    arrive_seconds: float = 20.0
    arrivals_per_second: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was measured. Times are in the unit of the name, memory in MB (10^6 bytes)."""

    peer: str
    pods_per_second: float
    """From the first bind of those that waited to the last."""
    all_bound_seconds: float
    """From the start of the process to the last bind."""
    cpu_ms_per_pod: float
    """Of the scheduler, less the start beside the same nodes and no pods."""
    apiserver_cpu_ms_per_pod: float
    peak_mb: float
    start_mb: float
    """Resident beside the nodes, with no pods."""
    start_cpu_seconds: float
    arrival_p50_ms: float
    """From the sending of a pod to its node, as a watch shows it."""
    arrival_p99_ms: float
    arrival_cpu_ms: float
    """Of the scheduler, a pod."""


async def measure(stage: Stage, scheduler: Scheduler, plan: Plan, log: Path) -> Run:
    """Run `scheduler` through the course. Raises: TimeoutError, with the end of its log, when it gets stuck."""
    await stage.clear()
    environment = {"KUBECONFIG": stage.kubeconfig}
    with Operators(scheduler.command, environment, log, scheduler.replicas) as process:
        await asyncio.sleep(1)
        await process.settled()
        start_mb, start_cpu = process.rss, process.cpu
    await stage.populate(scheduler.pods_of, plan.waiting)
    await stage.settled()
    apiserver = stage.apiserver_cpu
    async with stage.watching() as placements:
        with Operators(scheduler.command, environment, log, scheduler.replicas) as process:
            await placements.all_of(f"waiting-{number}" for number in range(plan.waiting))
            # What follows a bind, such as its event, belongs to it.
            await process.settled()
            cpu, apiserver = process.cpu, stage.apiserver_cpu - apiserver
            first, last = min(placements.at.values()), max(placements.at.values())
            arrivals = await _arrive(stage, scheduler.pods_of, placements, plan)
            await process.settled()
            return Run(
                peer=scheduler.name,
                pods_per_second=(plan.waiting - 1) / (last - first),
                all_bound_seconds=last - process.started,
                cpu_ms_per_pod=(cpu - start_cpu) * 1000 / plan.waiting,
                apiserver_cpu_ms_per_pod=apiserver * 1000 / plan.waiting,
                peak_mb=process.peak,
                start_mb=start_mb,
                start_cpu_seconds=start_cpu,
                arrival_p50_ms=quantile(arrivals, 0.50),
                arrival_p99_ms=quantile(arrivals, 0.99),
                arrival_cpu_ms=(process.cpu - cpu) * 1000 / len(arrivals),
            )


async def _arrive(stage: Stage, scheduler: str, placements: Placements, plan: Plan) -> list[float]:
    """Make pods at a steady rate, whatever the answers take; the milliseconds from each to its node, sorted."""
    sent: dict[str, float] = {}

    async def arrive(number: int) -> None:
        name = f"arriving-{number}"
        sent[name] = time.monotonic()
        await stage.create(scheduler, name)

    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(round(plan.arrive_seconds * plan.arrivals_per_second)):
            await asyncio.sleep(begin + number / plan.arrivals_per_second - time.monotonic())
            group.create_task(arrive(number))
    await placements.all_of(sent)
    return sorted((placements.at[name] - began) * 1000 for name, began in sent.items())
