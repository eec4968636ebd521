"""Without a cluster: operations a second of the work queue and of the store, and how they hold with the number of keys.

    python bench/inprocess.py --keys 1000 10000 100000

Queue: every key is added, taken, added once more while it is processed, done, taken again and done: six operations a
key. Store: every object is put (first as new, then as newer), found by its owner, and removed: four operations an object.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from konverge import ConfigMap
from konverge.cache.store import OWNER_INDEX, Store
from konverge.host import collector
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.runtime.clock import SystemClock
from konverge.workqueue.queue import WorkQueue

KEYS: Final = (1_000, 10_000, 100_000, 1_000_000)
QUEUE_OPERATIONS: Final = 6
STORE_OPERATIONS: Final = 4


def queue_rate(count: int) -> float:
    """Operations a second of the work queue with `count` keys in it."""
    keys = [Key("bench", f"echo-{number}") for number in range(count)]

    async def work() -> float:
        queue: WorkQueue[Key] = WorkQueue("bench", clock=SystemClock())
        begin = time.perf_counter()
        for key in keys:
            queue.add(key)
        for _ in keys:
            key = await queue.get()
            queue.add(key)
            queue.done(key)
        for _ in keys:
            queue.done(await queue.get())
        return time.perf_counter() - begin

    return QUEUE_OPERATIONS * count / asyncio.run(work())


def store_rate(count: int) -> float:
    """Operations a second of a store that grows to `count` objects."""
    first = [_config_map(number, version=number + 1) for number in range(count)]
    second = [_config_map(number, version=number + 1 + count) for number in range(count)]
    store = Store(ConfigMap)
    begin = time.perf_counter()
    for obj in (*first, *second):
        store.put(obj)
    for number in range(count):
        store.by_index(OWNER_INDEX, f"owner-{number}")
    for obj in second:
        store.remove(obj)
    return STORE_OPERATIONS * count / (time.perf_counter() - begin)


def _config_map(number: int, version: int) -> Object:
    owner = {"apiVersion": "bench.konverge.dev/v1", "kind": "Echo", "name": f"echo-{number}", "uid": f"owner-{number}"}
    metadata = {
        "name": f"echo-{number}",
        "namespace": "bench",
        "uid": f"uid-{number}",
        "resourceVersion": str(version),
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"message": f"hello {number}"}}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=list(KEYS), help="how many keys (1000 to 1000000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args()
    collector.relax()  # as an operator does
    measures: dict[str, Callable[[int], float]] = {"work queue": queue_rate, "store": store_rate}
    rates: dict[str, dict[int, float]] = {name: {} for name in measures}
    print(f"| keys | {' | '.join(f'{name}, operations/s' for name in measures)} |")
    print(f"| ---: | {' | '.join('---:' for _ in measures)} |")
    for count in options.keys:
        for name, measure in measures.items():
            rates[name][count] = measure(count)
            gc.collect()
        print(f"| {count:,} | {' | '.join(f'{rates[name][count]:,.0f}' for name in measures)} |", flush=True)
    if options.json:
        numbers: dict[str, Any] = {name: {str(count): rate for count, rate in by.items()} for name, by in rates.items()}
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
