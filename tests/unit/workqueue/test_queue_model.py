"""The work queue against a plain reference that keeps lists and searches them, under any order of calls."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from konverge.testing.sim import SimClock, SimLoop
from konverge.workqueue.queue import LOW_PRIORITY, SECONDS_PER_PRIORITY, WorkQueue
from konverge.workqueue.ratelimit import ExponentialPerKey

KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([LOW_PRIORITY, 0, 10])
# Halves are exact in floating point: times that should be equal are.
SECONDS = st.integers(1, 120).map(lambda n: n / 2)


@dataclass
class Waiting:
    since: float
    priority: int
    order: int
    """When it became ready, among those of the same rank."""


@dataclass
class Reference:
    """What the documentation of the queue says, and no more."""

    now: float = 0.0
    turn: int = 0
    ready: dict[str, Waiting] = field(default_factory=dict)
    again: dict[str, Waiting] = field(default_factory=dict)
    delayed: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    processing: set[str] = field(default_factory=set)

    def next_turn(self) -> int:
        self.turn += 1
        return self.turn

    def enqueue(self, key: str, priority: int, since: float) -> None:
        place = self.again if key in self.processing else self.ready
        held = place.get(key)
        if held is None:
            place[key] = Waiting(since, priority, self.next_turn())
        elif held.priority < priority:
            place[key] = Waiting(held.since, priority, self.next_turn())

    def add(self, key: str, priority: int) -> None:
        _, delayed_priority, _ = self.delayed.pop(key, (0, priority, 0))
        self.enqueue(key, max(priority, delayed_priority), self.now)

    def add_after(self, key: str, seconds: float, priority: int) -> None:
        if key in self.ready or key in self.again:
            return
        due, held, turn = self.delayed.get(key, (float("inf"), priority, 0))
        changed = self.now + seconds < due or priority > held
        self.delayed[key] = (
            min(due, self.now + seconds),
            max(priority, held),
            self.next_turn() if changed else turn,
        )

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for key, (due, priority, _) in sorted(self.delayed.items(), key=lambda item: (item[1][0], item[1][2])):
            if due <= self.now:
                del self.delayed[key]
                self.enqueue(key, priority, due)

    def take(self) -> str | None:
        if not self.ready:
            return None
        key = min(self.ready, key=lambda k: self.rank(self.ready[k]))
        del self.ready[key]
        self.processing.add(key)
        return key

    def done(self, key: str) -> None:
        self.processing.remove(key)
        again = self.again.pop(key, None)
        if again is not None:
            self.ready[key] = Waiting(again.since, again.priority, self.next_turn())

    def rank(self, waiting: Waiting) -> tuple[float, int]:
        return (waiting.since - waiting.priority * SECONDS_PER_PRIORITY, waiting.order)


class QueueAgainstReference(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = SimLoop()
        self.reference = Reference()
        self.queue = WorkQueue[str]("model", clock=SimClock(), limiter=ExponentialPerKey(base=0.5, cap=16))
        self.failures: dict[str, int] = {}

    def teardown(self) -> None:
        self.loop.close()

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: int) -> None:
        async def act() -> None:
            self.queue.add(key, priority)

        self.loop.run_until_complete(act())
        self.reference.add(key, priority)

    @rule(key=KEYS, priority=PRIORITIES, seconds=SECONDS)
    def add_after(self, key: str, priority: int, seconds: float) -> None:
        async def act() -> None:
            self.queue.add_after(key, seconds, priority)

        self.loop.run_until_complete(act())
        self.reference.add_after(key, seconds, priority)

    @rule(key=KEYS)
    def fail(self, key: str) -> None:
        async def act() -> None:
            self.queue.add_rate_limited(key)

        self.loop.run_until_complete(act())
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.reference.add_after(key, min(16, 0.5 * 2**failures), 0)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.reference.advance(seconds)

    @rule()
    def get(self) -> None:
        async def act() -> str | None:
            getter = asyncio.ensure_future(self.queue.get())
            await asyncio.sleep(0)
            if getter.done():
                return getter.result()
            getter.cancel()
            await asyncio.wait({getter})
            return None

        assert self.loop.run_until_complete(act()) == self.reference.take()

    @precondition(lambda self: self.reference.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.reference.processing)))

        async def act() -> None:
            self.queue.done(key)

        self.loop.run_until_complete(act())
        self.reference.done(key)

    @invariant()
    def the_same_keys_wait_in_the_same_places(self) -> None:
        async def look() -> tuple[list[str], set[str], set[str]]:
            return list(self.queue.ready), set(self.queue.delayed), set(self.queue.processing)

        ready, delayed, processing = self.loop.run_until_complete(look())
        assert ready == sorted(self.reference.ready, key=lambda k: self.reference.rank(self.reference.ready[k]))
        assert delayed == set(self.reference.delayed)
        assert processing == self.reference.processing

    @invariant()
    def the_failures_are_counted(self) -> None:
        for key, failures in self.failures.items():
            assert self.queue.failures(key) == failures


TestQueueAgainstReference = QueueAgainstReference.TestCase
TestQueueAgainstReference.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
