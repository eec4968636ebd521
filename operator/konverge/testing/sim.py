"""Simulated time: an asyncio event loop that never waits. A coroutine and a seed flow in, its result or a named failure out.

When everything waits, the loop jumps to the next timer, so an hour of leases, backoffs and relists takes milliseconds
and every run with the same seed takes the same course. What would hang for ever in a real loop is an error here:
nothing ready and no timer (`Deadlock`, naming each task and the line where it waits), too many steps, too much time.

Use it in pytest with the decorator::

    @simulate(seeds=range(20))
    async def test_recovers(sim: Sim) -> None:
        api = FakeApi(clock=sim.clock, random=sim.random)
        sim.spawn(operator.run())
        await sim.until(lambda: operator.ready)

or anywhere with `run_sim(scenario, seed=7)`. To replay a failure, pass the seed that the traceback's note names.

Sockets, pipes and subprocesses are refused: they would wait for the real world. Work for a thread pool runs in place.
The one thing left to the interpreter is the order of sets of strings: set PYTHONHASHSEED to pin that too.
"""

import asyncio
import contextlib
import functools
import inspect
import random
import selectors
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""What the wall clock of a simulation shows at its start."""

MAX_STEPS: Final = 2_000_000
"""How many turns of the loop a simulation may take."""

MAX_SECONDS: Final = 7 * 86400.0
"""How many simulated seconds a simulation may take."""


class SimulationError(AssertionError):
    """The simulated program did what would not end, or what a simulation cannot do."""


class Deadlock(SimulationError):
    """Nothing is ready and no timer is set; the message names the waiting tasks."""


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop on simulated time, which starts at 0.

    `failures` holds what the loop's exception handler was told: callbacks that raised and tasks that failed unseen.
    """

    def __init__(self, *, max_steps: int = MAX_STEPS, max_seconds: float = MAX_SECONDS) -> None:
        self._time = _TimeSelector(self._deadlock, max_steps, max_seconds)
        super().__init__(self._time)
        self._time.sealed = True
        self._born = 0
        self.failures: list[BaseException] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        """Simulated seconds since the loop was made."""
        return self._time.now

    @property
    def steps(self) -> int:
        """How many turns the loop took so far."""
        return self._time.steps

    def run_in_executor(
        self,
        executor: Any,  # noqa: ARG002 - the signature is the base's
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Call `func` at once, in place: a thread would make the course of things depend on the machine."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it raises belongs to the awaiting caller
            future.set_exception(error)
        return future

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        self._born += 1
        return _SimTask(self._born, coro, loop=loop, **options)

    def _note_failure(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self.failures.append(context.get("exception") or SimulationError(str(context.get("message"))))

    def _deadlock(self) -> Deadlock:
        waiting = [f"  {task.get_name()}: {_where(task)}" for task in sorted(asyncio.all_tasks(self), key=hash)]
        return Deadlock(f"at {self.time():.3f} s nothing is ready and no timer is set; waiting:\n" + "\n".join(waiting))


class _SimTask(asyncio.Task[T]):
    """A task that hashes by its number: sets of tasks, as asyncio keeps them, then iterate alike in every run."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _TimeSelector(selectors.BaseSelector):
    """Where the loop would wait for I/O: time jumps instead. Only the loop's own wake-up socket is ever watched."""

    def __init__(self, deadlock: Callable[[], Deadlock], max_steps: int, max_seconds: float) -> None:
        self.now = 0.0
        self.steps = 0
        self.sealed = False
        self._deadlock, self._max_steps, self._max_seconds = deadlock, max_steps, max_seconds
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.sealed:
            raise SimulationError(
                f"{fileobj!r}: no sockets or pipes in a simulation; put a fake behind the port instead"
            )
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.steps += 1
        if self.steps > self._max_steps:
            self.steps = 0  # the clean-up that follows gets as many again
            raise SimulationError(f"{self._max_steps} steps taken at {self.now:.3f} s: a loop that never waits?")
        if timeout is not None and timeout <= 0:
            return []
        if woken := self._real.select(0):
            return woken
        if timeout is None:
            raise self._deadlock()
        self.now += timeout
        if self.now > self._max_seconds:
            self._max_seconds += self.now
            raise SimulationError(f"{self.now:.0f} simulated seconds and not done: does it wait for what never comes?")
        return []


def _where(task: asyncio.Task[Any]) -> str:
    """The coroutine of `task` and the innermost line at which it waits."""
    coro: Any = task.get_coro()
    name, inner = getattr(coro, "__qualname__", repr(coro)), coro
    while (awaited := getattr(inner, "cr_await", None)) is not None and hasattr(awaited, "cr_frame"):
        inner = awaited
    frame = getattr(inner, "cr_frame", None)
    return f"{name} at {frame.f_code.co_filename}:{frame.f_lineno} ({inner.__qualname__})" if frame else name


class SimClock:
    """The clock of the running loop: a `ports.Clock`.

    `epoch` is what the wall clock shows at loop time 0; give replicas different ones to simulate skewed clocks. In an
    ordinary loop it works too, on that loop's real time.
    """

    def __init__(self, epoch: datetime = EPOCH) -> None:
        self._epoch = epoch

    def monotonic(self) -> float:
        """The loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """The epoch plus the loop's time."""
        return self._epoch + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop's time; always yields once."""
        await asyncio.sleep(seconds)


@dataclass
class Sim:
    """What a scenario is given: its seed, chance drawn from that seed, and the clock."""

    seed: int
    random: random.Random
    clock: SimClock = field(default_factory=SimClock)
    _failures: list[BaseException] = field(default_factory=list)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _main: asyncio.Task[Any] | None = None

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return self.clock.monotonic()

    def spawn(self, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run `coro` beside the scenario. If it fails, the scenario fails at once; it is cancelled at the end."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)
        return task

    async def until(self, condition: Callable[[], object], *, within: float = 300.0, every: float = 0.05) -> None:
        """Wait until `condition()` is true, looking every `every` seconds. Raises: SimulationError after `within` seconds."""
        end = self.time + within
        while not condition():
            if self.time >= end:
                raise SimulationError(f"not within {within} s: {_source(condition)}")
            await asyncio.sleep(every)

    def _spawned_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)
            if self._main is not None:
                self._main.cancel(f"{task.get_name()} failed")


def _source(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)


def run_sim(
    scenario: Callable[[Sim], Coroutine[Any, Any, T]],
    seed: int = 0,
    *,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
) -> T:
    """Run `scenario(sim)` in a fresh simulated loop and return its result. Tasks left over are cancelled at the end.

    Raises: what the scenario raised, what a spawned task or a callback raised, `Deadlock`, or `SimulationError`; each
    with a note that names the seed.
    """
    sim = Sim(seed, random.Random(seed))  # noqa: S311 - chance for a simulation must be repeatable
    loop = SimLoop(max_steps=max_steps, max_seconds=max_seconds)

    async def main() -> T:
        sim._main = asyncio.current_task()  # noqa: SLF001 - one module, two halves
        return await scenario(sim)

    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            result = _run(runner, main(), sim)
        if loop.failures:
            raise loop.failures[0]  # noqa: TRY301 - it gets the note too
    except BaseException as error:
        error.add_note(f"simulation: seed={seed} time={loop.time():.3f} s steps={loop.steps}")
        raise
    return result


def _run(runner: asyncio.Runner, main: Coroutine[Any, Any, T], sim: Sim) -> T:
    """Run `main`; the failure of a spawned task, which cancelled it, takes the place of the cancellation."""
    try:
        result = runner.run(main)
    except asyncio.CancelledError:
        if sim._failures:  # noqa: SLF001 - one module, two halves
            raise sim._failures[0] from None  # noqa: SLF001
        raise
    if sim._failures:  # noqa: SLF001 - a scenario that swallowed the cancellation
        raise sim._failures[0]  # noqa: SLF001
    return result


def simulate(
    seeds: Iterable[int] = (0,), *, max_steps: int = MAX_STEPS, max_seconds: float = MAX_SECONDS
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Make a pytest test of an async function with a parameter `sim`: one test a seed, beside its other fixtures."""
    import pytest  # noqa: PLC0415 - an extra; the loop itself works without it

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, seed: int, **fixtures: Any) -> None:
            def scenario(sim: Sim) -> Coroutine[Any, Any, None]:
                return test(*args, sim=sim, **fixtures)

            run_sim(scenario, seed, max_steps=max_steps, max_seconds=max_seconds)

        signature = inspect.signature(test)
        parameters = [p for p in signature.parameters.values() if p.name != "sim"]
        parameters.append(inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, annotation=int))
        with contextlib.suppress(AttributeError):
            del run.__wrapped__  # pytest plugins would see the coroutine function behind
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return cast(Callable[..., None], pytest.mark.parametrize("seed", list(seeds))(run))

    return decorate
