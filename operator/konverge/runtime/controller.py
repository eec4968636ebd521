"""The loop of one resource: keys come out of the queue, workers reconcile, outcomes become status and requeues.

One key never runs twice at once (the queue sees to it); an exception stays with its object; what the reconcile wants to
say goes into one status write at its end.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Any, Final
from uuid import uuid4

from konverge.cache.advice import missing_rule, with_rule
from konverge.cache.backoff import Backoff
from konverge.cache.informer import Caches
from konverge.errors import ApiError, Conflict, ManifestError, WriteBlocked
from konverge.model import meta
from konverge.model.conditions import State, Verdict
from konverge.model.custom import CustomResource
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.ports import Api, Clock, Random, Recorder
from konverge.runtime.apply import Applier
from konverge.runtime.attempt import MAX_ERROR_MESSAGE, Attempt, Log, Outcome, conflict
from konverge.runtime.context import Context
from konverge.runtime.declare import ByIndex, Mapper, View, Watch, harmless, mapper_through
from konverge.runtime.draft import PhaseDraft
from konverge.runtime.echo import OwnWrites, of_the_object
from konverge.runtime.finalize import Finalizer
from konverge.runtime.history import History, Past
from konverge.runtime.logs import ContextLog
from konverge.runtime.metrics import ControllerMetrics
from konverge.runtime.predicates import all_of
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.sources import connect_mapped, connect_owned, connect_primary, follow
from konverge.runtime.status import StatusWriter
from konverge.runtime.tracing import NoTracer, Tracer
from konverge.workqueue.queue import QueueShutDown
from konverge.workqueue.ratelimit import RateLimiter
from konverge.workqueue.sharded import Queue, queue_of

logger = logging.getLogger(__name__)

INVALID_REASON: Final = "InvalidManifest"
FORBIDDEN_REASON: Final = "Forbidden"


class Controller:
    """Runs one reconciler over the objects of its resource.

    `workers` objects are reconciled at once (default: the reconciler's number). `limiter` spaces the retries (default:
    client-go's). `history` is told how each reconcile ended, where there is one.
    """

    def __init__(
        self,
        reconciler: Reconciler[Any],
        *,
        api: Api,
        caches: Caches,
        recorder: Recorder,
        clock: Clock,
        random: Random,
        metrics: ControllerMetrics,
        field_manager: str = "konverge",
        workers: int | None = None,
        limiter: RateLimiter[Key] | None = None,
        history: History | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.resource_class = reconciler.resource()
        self.resource = self.resource_class.resource
        self.name = self.resource.kind.lower()
        self.reconciler, self.workers = reconciler, workers or reconciler.workers
        self._api, self._caches, self._recorder, self._clock, self._random = api, caches, recorder, clock, random
        self._metrics, self._tracer, self.history = metrics, tracer or NoTracer(), history
        kind = type(reconciler)
        self.queue: Queue[Key] = queue_of(
            self.name,
            min(kind.shards, self.workers),
            clock=clock,
            shard_of=kind.shard_of,
            observer=metrics,
            limiter=limiter,
        )
        metrics.watch(self.queue)
        self._cache = caches.cache(self.resource)
        self._applier = Applier(api, caches, self._wake_owner, field_manager=field_manager)
        self._status = StatusWriter(api, api, clock, random)
        self._finalizer = Finalizer(f"{self.resource.group}/{self.name}", api, api)
        self._declared = reconciler.declared()
        self._attempt = Attempt(type(reconciler).timeout, recorder=recorder, metrics=metrics, clock=clock)
        self._own = OwnWrites(self._cache, of_the_object)
        for view in self._declared.views.values():
            if view is not None:
                view.of(caches)
        for index in reconciler.indexes:
            indexed = self._declared.views[index.resource] or View(index.resource)
            indexed.of(caches).add_index(self._declared.index_name(index.name), harmless(index))

    def connect(self) -> None:
        """Let changes flow from the caches into the queue."""
        # Whether it is news comes first: it takes note of what comes while a write is under way.
        connect_primary(self._cache, self.queue.add, all_of(self._own.is_news, type(self.reconciler).predicate))
        for resource in self.reconciler.owns:
            connect_owned(
                self._caches.cache(resource), self.resource, self.queue.add, self._applier.own(resource).is_news
            )
        for watched in self.reconciler.watches:
            mapper = self._mapper(watched)
            connect_mapped(watched.view.of(self._caches), mapper, self.queue.add, watched.predicate)

    async def run(self) -> None:
        """Reconcile until the queue is shut down and empty of running work; cancelling it cancels the reconciles."""
        async with asyncio.TaskGroup() as group:
            streams = [
                group.create_task(self._follow(stream, number))
                for number, stream in enumerate(self.reconciler.sources())
            ]
            workers = [group.create_task(self._work(), name=f"{self.name}-{number}") for number in range(self.workers)]
            await asyncio.gather(*workers)
            for stream in streams:
                stream.cancel()

    def _mapper(self, watched: Watch) -> Mapper:
        if not isinstance(watched.to, ByIndex):
            return watched.to
        return mapper_through(partial(self._cache.by_index, self._declared.index_name(watched.to.name)))

    def _wake_owner(self, owner: Object) -> None:
        self.queue.add(meta.key_of(owner))

    async def drain(self) -> None:
        """Take no more work and wait until what runs has ended."""
        await self.queue.drain()

    async def _follow(self, stream: AsyncIterator[Key], number: int) -> None:
        backoff = Backoff(clock=self._clock, random=self._random)
        await follow(
            stream, lambda: self.reconciler.sources()[number], self.queue.add, clock=self._clock, backoff=backoff
        )

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            try:
                with self._metrics.active():
                    await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: Key) -> None:
        """One key: read, reconcile, write status, requeue. Only cancellation leaves it."""
        raw = self._cache.get(key)
        if raw is None:
            self.queue.forget(key)
            return
        reconcile_id = uuid4().hex[:12]
        log = ContextLog(logger, {"controller": self.name, "object": str(key), "reconcileID": reconcile_id})
        started = self._clock.monotonic()
        with self._tracer.reconcile(self.name, str(key), reconcile_id) as ended:
            try:
                outcome = await self._visit(raw, log)
            except WriteBlocked as error:
                log.info("stopped: %s", error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, it stays with this object
                outcome = self._failed_write(raw, error, log)
            ended(outcome.result, outcome.verdict.message if outcome.verdict else "")
        seconds = self._clock.monotonic() - started
        self._metrics.reconciled(outcome.result, seconds)
        if self.history is not None:
            self.history.note(key, self._past(outcome, seconds, reconcile_id))
        self._requeue(key, outcome)

    async def _visit(self, raw: Object, log: Log) -> Outcome:
        try:
            obj = self.resource_class.parse(raw)
        except ManifestError as error:
            return await self._set_aside(raw, error, log)
        if obj.deleting:
            return await self._finalize(obj, log)
        if self.reconciler.uses_finalizer() and not self._finalizer.on(raw):
            held = await self._send(obj, self._finalizer.add(obj))
            if held is None:
                return Outcome("success")
            obj = self.resource_class.parse(held)
        ctx = self._context(obj, log)
        outcome = await self._attempt.run(self.reconciler.reconcile, obj, ctx, log)
        return await self._conclude(obj, ctx, outcome)

    async def _finalize(self, obj: CustomResource[Any, Any], log: Log) -> Outcome:
        if not self._finalizer.on(obj.raw):
            return Outcome("success")
        ctx = self._context(obj, log)
        outcome = await self._attempt.run(self.reconciler.finalize, obj, ctx, log)
        if outcome.finished:
            if await self._send(obj, self._finalizer.remove(obj)) is None:
                self._cache.removed(obj.raw)
            return outcome
        return await self._conclude(obj, ctx, outcome)

    async def _conclude(self, obj: CustomResource[Any, Any], ctx: Context, outcome: Outcome) -> Outcome:
        if outcome.verdict is None:
            return outcome
        await self._write_status(obj, outcome.verdict, ctx)
        if obj.phases is not None and ctx.phase_draft.current != ctx.phase_draft.before:
            self._tell_transition(obj, ctx.phase_draft)
        return outcome

    async def _write_status(self, obj: CustomResource[Any, Any], verdict: Verdict, ctx: Context | None = None) -> None:
        drafts = (ctx.conditions, ctx.phase_draft) if ctx else (None, None)
        await self._send(obj, self._status.write(obj, verdict, *drafts))

    async def _send(self, obj: CustomResource[Any, Any], write: Awaitable[Object | None]) -> Object | None:
        return await self._own.send(obj.key, write, partial(self.queue.add, obj.key))

    async def _set_aside(self, raw: Object, error: ManifestError, log: Log) -> Outcome:
        """An object that its model cannot parse: said on the object itself, once; the others go on."""
        log.warning("set aside: %s", error)
        kind = self.resource_class
        holder = kind({**raw, "status": {}}, kind.spec_type.model_construct(), kind.status_type())
        verdict = Verdict(State.FAILED, INVALID_REASON, "; ".join(error.problems)[:MAX_ERROR_MESSAGE])
        self._recorder.event(raw, "Warning", verdict.reason, verdict.message)
        self._metrics.terminal()
        await self._write_status(holder, verdict)
        return Outcome("error", verdict)

    def _tell_transition(self, obj: CustomResource[Any, Any], draft: PhaseDraft) -> None:
        """A phase change that is in the status now: an event and a count.

        A phase that the status had and nobody declares is counted as one.
        """
        phases = obj.phases.phases if obj.phases is not None else {}
        if (entered := phases.get(draft.current or "")) is not None:
            wrong = entered.state in {State.FAILING, State.FAILED}
            told = draft.message or f"was {draft.before or 'in no phase'}"
            self._recorder.event(obj.raw, "Warning" if wrong else "Normal", entered.name, told)
        before = "" if draft.before is None else draft.before if draft.before in phases else "unknown"
        self._metrics.transition(obj.resource.kind, before, draft.current or "", draft.lasted(self._clock.now()))

    def _past(self, outcome: Outcome, seconds: float, reconcile_id: str) -> Past:
        reason, message = (outcome.verdict.reason, outcome.verdict.message) if outcome.verdict else ("", "")
        return Past(self._clock.now(), seconds, outcome.result, reconcile_id, reason, message)

    def _failed_write(self, raw: Object, error: Exception, log: Log) -> Outcome:
        """The status or finalizer write itself failed: come back, rate limited. The status cannot tell of it."""
        if isinstance(error, Conflict):
            return conflict(error, log)
        message = with_rule(error, self.resource, MAX_ERROR_MESSAGE)
        log.warning("write failed: %s", message, exc_info=not isinstance(error, ApiError))
        if missing_rule(error, self.resource):
            self._recorder.event(raw, "Warning", FORBIDDEN_REASON, message)
        self._metrics.failed()
        return Outcome("error", retry=True)

    def _requeue(self, key: Key, outcome: Outcome) -> None:
        if outcome.retry:
            self.queue.add_rate_limited(key)
            return
        self.queue.forget(key)
        if outcome.after is not None:
            self.queue.add_after(key, outcome.after)

    def _context(self, obj: CustomResource[Any, Any], log: Log) -> Context:
        return Context(
            obj,
            self._declared,
            applier=self._applier,
            caches=self._caches,
            live=self._api,
            recorder=self._recorder,
            clock=self._clock,
            log=log,
        )
