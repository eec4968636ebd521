"""One step of a reconciler within its timeout: every way in which it can end becomes an outcome.

Results and exceptions flow in; what the status shall show and when to come back flows out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from konverge.cache.advice import with_rule
from konverge.errors import (
    ApiError,
    Conflict,
    Forbidden,
    KonvergeError,
    NotController,
    RetryAfter,
    Terminal,
    WriteBlocked,
)
from konverge.model.conditions import State, Verdict
from konverge.model.custom import CustomResource
from konverge.ports import Clock, Recorder
from konverge.runtime.context import Context
from konverge.runtime.metrics import ControllerMetrics
from konverge.runtime.result import Result

Log: TypeAlias = "logging.LoggerAdapter[logging.Logger]"
Step: TypeAlias = Callable[[Any, Context], Awaitable[Result]]

READY_REASON: Final = "Reconciled"
ERROR_REASON: Final = "ReconcileError"
TIMEOUT_REASON: Final = "ReconcileTimeout"
MAX_ERROR_MESSAGE: Final = 1024
PANICS: Final = (RecursionError, MemoryError, SystemError)
"""Exceptions that tell of the process rather than of the object; counted as panics, as what is no Exception at all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one reconcile ended: what the status shall show (None: leave it), and when to come back.

    `result` is controller-runtime's label: success, error, requeue or requeue_after. `retry` asks for a rate-limited
    requeue, `after` for one in so many seconds. `finished` means that nothing is left to do: a finalizer may go.
    """

    result: str
    verdict: Verdict | None = None
    retry: bool = False
    after: float | None = None
    finished: bool = False


class Attempt:
    """Runs steps of one reconciler. `timeout` is in seconds."""

    def __init__(self, timeout: float, *, recorder: Recorder, metrics: ControllerMetrics, clock: Clock) -> None:
        self._timeout, self._recorder, self._metrics, self._clock = timeout, recorder, metrics, clock

    async def run(self, step: Step, obj: CustomResource[Any, Any], ctx: Context, log: Log) -> Outcome:
        """Run `step`. Raises: WriteBlocked, when this replica may not act any more; nothing else but cancellation."""
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                result = await step(obj, ctx)
        except WriteBlocked:
            raise
        except Terminal as error:
            log.warning("will not be retried until it changes: %s", error)
            self._recorder.event(obj.raw, "Warning", error.reason, error.message)
            self._metrics.terminal()
            return Outcome("error", Verdict(State.FAILED, error.reason, error.message))
        except RetryAfter as error:
            log.info("again in %g s: %s", error.seconds, error)
            return Outcome("requeue_after", Verdict(State.FAILING, error.reason, error.message), after=error.seconds)
        except (Conflict, Forbidden) as error:
            return self._refused(obj, error, log)
        except Exception as error:  # noqa: BLE001 - whatever it was, it stays with this object
            if isinstance(error, PANICS):
                self._metrics.panicked()
            return self._failed(obj, error, log, timed_out=limit.expired())
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            # A worker must outlive a library that calls sys.exit(), and a cancelled future that a reconciler awaited.
            if isinstance(error, asyncio.CancelledError) and _cancelled():
                raise
            self._metrics.panicked()
            return self._failed(obj, error, log, timed_out=False)
        return self._judge(result, ctx)

    def _refused(self, obj: CustomResource[Any, Any], error: Conflict | Forbidden, log: Log) -> Outcome:
        """A write that the server refused for what others do: no error, only another try on what is there then."""
        if isinstance(error, Conflict):
            return conflict(error, log)
        if _namespace_is_going(error):
            log.info("the namespace is being deleted: %s", error)
            return Outcome("requeue", retry=True)
        return self._failed(obj, error, log, timed_out=False)

    def _failed(self, obj: CustomResource[Any, Any], error: BaseException, log: Log, *, timed_out: bool) -> Outcome:
        """A reconcile that broke: told in log, event and status, and tried again with growing delays."""
        if timed_out:
            reason, message = TIMEOUT_REASON, f"took longer than {self._timeout:g} s"
            self._metrics.timed_out()
        else:
            named = isinstance(error, ApiError | NotController) and error.reason
            reason = named or ERROR_REASON
            message = with_rule(error, obj.resource, MAX_ERROR_MESSAGE)
        ours = timed_out or isinstance(error, KonvergeError)
        log.error("reconcile failed: %s", message, exc_info=None if ours else error)
        self._metrics.failed()
        self._recorder.event(obj.raw, "Warning", reason, message)
        return Outcome("error", Verdict(State.FAILING, reason, message), retry=True)

    def _judge(self, result: Result, ctx: Context) -> Outcome:
        """The verdict on a reconcile that did not fail: the reconciler's own, the phase's, or Ready."""
        draft = ctx.phase_draft
        verdict = result.verdict or draft.verdict() or Verdict(State.DONE, READY_REASON)
        after = result.requeue_after
        remaining = draft.remaining(self._clock.now())
        if remaining is not None:
            if remaining <= 0:
                verdict = draft.timed_out()
            else:
                after = min(after or remaining, remaining)
        finished = result.verdict is None and result.requeue_after is None
        return Outcome("success" if after is None else "requeue_after", verdict, after=after, finished=finished)


def _namespace_is_going(error: Forbidden) -> bool:
    """Whether the server refused a child because its namespace is being deleted; the object itself goes next."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _cancelled() -> bool:
    """Whether it is the running task that was cancelled, and not something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def conflict(error: Conflict, log: Log) -> Outcome:
    """Others wrote meanwhile: no error, only another try on what is there now."""
    log.debug("others wrote meanwhile: %s", error)
    return Outcome("requeue", retry=True)
