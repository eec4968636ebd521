"""Side by side: Konverge, controller-runtime and kopf reconcile the same Echo resources on the same local cluster.

    python bench/converge.py --rounds 3
    python bench/converge.py --count 10000 --peers konverge controller-runtime:16 controller-runtime:32

Each round runs every peer once, on empty caches and an empty namespace; the table shows medians over the rounds. Needs
Linux (CPU and memory come from /proc) and, for controller-runtime, a Go.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.arena import arena
from harness.measure import EDIT_SECONDS, IDLE_SECONDS, Plan, Run, measure
from harness.peers import NAMES, Peer, peer_of
from harness.report import as_json, table

from konverge.errors import KonvergeError


def main() -> int:
    """Run the benchmark; 1 when it could not."""
    options = _options()
    try:
        peers = [peer_of(text, options.workers) for text in options.peers]
        plan = Plan(count=options.count, edit_seconds=options.edit_seconds, idle_seconds=options.idle_seconds)
        runs = asyncio.run(_run(peers, plan, options.rounds))
    except (KonvergeError, TimeoutError, ProcessLookupError) as error:
        print("\n".join([f"converge: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    setup = {
        "count": plan.count,
        "rounds": options.rounds,
        "workers": options.workers,
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    print(f"\n{plan.count} resources, {options.rounds} round(s), {os.cpu_count()} CPUs; ratios to controller-runtime\n")
    print(table(runs))
    if options.json:
        options.json.write_text(json.dumps(as_json(runs, setup), indent=2) + "\n")
    return 0


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="how many Echoes (2000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each peer runs (3)")
    parser.add_argument("--peers", nargs="+", default=list(NAMES), metavar="PEER[:WORKERS]", help=", ".join(NAMES))
    parser.add_argument("--workers", type=int, default=32, help="for peers without a number of their own (32)")
    parser.add_argument("--edit-seconds", type=float, default=EDIT_SECONDS, help="of 50 edits a second (10)")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS, help="for the idle CPU (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    return parser.parse_args()


async def _run(peers: list[Peer], plan: Plan, rounds: int) -> list[Run]:
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as directory:
        async with arena(f"bench-{os.getpid()}") as place:
            for number in range(rounds):
                # Turned each round, so that nobody always runs first.
                for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                    began = time.monotonic()
                    run = await measure(place, peer, plan, Path(directory, "operator.log"))
                    runs.append(run)
                    print(
                        f"round {number + 1}, {peer.label}: {run.resources_per_second:.0f}/s, "
                        f"{run.cpu_ms_per_resource:.2f} ms a resource ({time.monotonic() - began:.0f} s)",
                        file=sys.stderr,
                    )
    order = {peer.label: position for position, peer in enumerate(peers)}
    return sorted(runs, key=lambda run: order[run.peer])


if __name__ == "__main__":
    sys.exit(main())
