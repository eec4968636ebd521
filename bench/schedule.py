"""Schedulers side by side: Konverge's and kube-scheduler place the same pods on the same local cluster; then Konverge's
alone, without a cluster.

    python bench/schedule.py --rounds 3
    python bench/schedule.py --nodes 1000 --peers konverge --no-decisions
    python bench/schedule.py --nodes

First so many pods wait when a scheduler starts; then pods arrive at a steady rate. The tables show medians over the
rounds. In the end, decisions a second of one core by scenario, and how they hold as the cluster grows. Needs Linux (CPU
and memory come from /proc).
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from harness.decisions import SCENARIOS, rate
from harness.report import Rows, medians, rendered
from harness.schedulers import KUBE_SCHEDULER, NAMES, POLICY, SHARED, scheduler_of
from harness.scheduling import Plan, Run, measure
from harness.stage import stage

from konverge.errors import KonvergeError
from konverge.host import collector

NODES: Final = (1000, 5000)
SIZES: Final = (100, 1000, 5000, 15000)
_ROWS: Final[Rows] = (
    ("pods/s", "pods_per_second", "{:.0f}"),
    ("all bound, s from the start", "all_bound_seconds", "{:.1f}"),
    ("CPU a pod, ms", "cpu_ms_per_pod", "{:.2f}"),
    ("API server's CPU a pod, ms", "apiserver_cpu_ms_per_pod", "{:.2f}"),
    ("peak memory, MB", "peak_mb", "{:.0f}"),
    ("memory beside the nodes, MB", "start_mb", "{:.0f}"),
    ("start, CPU s", "start_cpu_seconds", "{:.2f}"),
    ("creation to bind, p50 ms", "arrival_p50_ms", "{:.1f}"),
    ("creation to bind, p99 ms", "arrival_p99_ms", "{:.1f}"),
    ("CPU a pod that arrives, ms", "arrival_cpu_ms", "{:.2f}"),
)


def main() -> int:
    """Run the benchmark; 1 when it could not."""
    options = _options()
    runs: dict[int, list[Run]] = {}
    try:
        if options.nodes:
            runs = asyncio.run(_run(options))
    except (KonvergeError, TimeoutError, ProcessLookupError) as error:
        print("\n".join([f"schedule: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    for nodes, of_size in runs.items():
        print(f"\n{nodes} nodes, {options.pods} pods, {options.rounds} round(s); ratios to {KUBE_SCHEDULER}\n")
        print(rendered(medians(of_size), _ROWS, KUBE_SCHEDULER if KUBE_SCHEDULER in options.peers else None))
    rates = _decide(options.sizes, options.decisions) if options.decisions else {}
    if options.json:
        options.json.write_text(json.dumps(_as_json(options, runs, rates), indent=2) + "\n")
    return 0


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="*",
        default=list(NODES),
        help="sizes of the cluster (1000 5000); none: only what needs no cluster",
    )
    parser.add_argument("--pods", type=int, default=3000, help="how many wait at the start (3000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each scheduler runs on each size (3)")
    parser.add_argument("--peers", nargs="+", default=list(NAMES), metavar="PEER", help=", ".join([*NAMES, *SHARED]))
    parser.add_argument("--arrive-seconds", type=float, default=20.0, help="of 50 pods a second (20)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="nodes without a cluster")
    parser.add_argument("--decisions", type=int, default=1000, help="without a cluster, a scenario and size (1000)")
    parser.add_argument("--no-decisions", action="store_const", dest="decisions", const=0, help="only on the cluster")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    return parser.parse_args()


async def _run(options: Any) -> dict[int, list[Run]]:
    plan = Plan(waiting=options.pods, arrive_seconds=options.arrive_seconds)
    runs: dict[int, list[Run]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        async with stage(f"bench-{os.getpid()}", POLICY) as place:
            peers = [scheduler_of(name, place.directory, Path(scratch)) for name in options.peers]
            for nodes in sorted(options.nodes):
                await place.grow(nodes)
                for number in range(options.rounds):
                    # Turned each round, so that nobody always runs first.
                    for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                        began = time.monotonic()
                        run = await measure(place, peer, plan, Path(scratch, "scheduler.log"))
                        runs.setdefault(nodes, []).append(run)
                        print(
                            f"{nodes} nodes, round {number + 1}, {peer.name}: {run.pods_per_second:.0f} pods/s, "
                            f"{run.cpu_ms_per_pod:.2f} ms a pod, p99 {run.arrival_p99_ms:.0f} ms "
                            f"({time.monotonic() - began:.0f} s)",
                            file=sys.stderr,
                        )
    return runs


def _decide(sizes: list[int], pods: int) -> dict[str, dict[int, float]]:
    collector.relax()  # as an operator does
    print(f"\nDecisions a second of one core, {pods} pods, without a cluster\n")
    names = [scenario.name for scenario in SCENARIOS]
    print(f"| nodes | {' | '.join(names)} |")
    print(f"| ---: | {' | '.join('---:' for _ in names)} |")
    rates: dict[str, dict[int, float]] = {name: {} for name in names}
    for size in sizes:
        for name in names:
            # The pods of a scenario may each need a node, or a share of all.
            rates[name][size] = rate(name, size, min(pods, size // 2))
        print(f"| {size:,} | {' | '.join(f'{rates[name][size]:,.0f}' for name in names)} |", flush=True)
    return rates


def _as_json(options: Any, runs: dict[int, list[Run]], rates: dict[str, dict[int, float]]) -> dict[str, Any]:
    return {
        "setup": {
            "pods": options.pods,
            "rounds": options.rounds,
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
        },
        "clusters": {
            str(nodes): {"medians": medians(of_size), "runs": [asdict(run) for run in of_size]}
            for nodes, of_size in runs.items()
        },
        "decisions_per_second": rates,
    }


if __name__ == "__main__":
    sys.exit(main())
