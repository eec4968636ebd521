"""Leader election with a coordination.k8s.io Lease: attempts flow out on a clock, the right to act flows in and is lost.

A candidate may act from the moment that `acquire()` returns until `hold()` raises, or until it calls `release()`.

The safety argument. A holder counts its term from the moment *before* it sent the last renewal that was answered, on
its own monotonic clock, and gives up after `renew_deadline` seconds of it, whatever its calls do: each is cut off at
that deadline. Another candidate takes over only after it has itself seen the same record, unchanged, for the whole
duration that the record states, on its own monotonic clock; what it saw cannot be older than the renewal. As long as
`lease_duration` > `renew_deadline`, the old holder has stopped before the new one starts, with the difference (5 s) left
for what the old one must still stop. No wall clock takes part: the timestamps in the record are for people. What this
cannot cover is a holder whose process is frozen across the deadline; the writes of such a one are refused as soon as
its loop turns again, and a write already under way can still arrive late.
"""

import asyncio
import logging
import math
import re
import socket
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from konverge.cache.advice import missing_rule
from konverge.errors import AlreadyExists, ApiError, ConfigError, Conflict, ConnectionFailed, LeaseLost, NotFound
from konverge.model.resource import Lease, Object
from konverge.ports import Api, Clock, Random

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE_DURATION: Final = 15.0
RENEW_DEADLINE: Final = 10.0
RETRY_PERIOD: Final = 2.0
JITTER: Final = 1.2
"""A standby waits `retry_period` times a factor from 1 to 1 + JITTER, so that standbys do not march in step."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def default_identity() -> str:
    """`hostname_uuid`: unique a process, and a person can tell which pod it is."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A record of the lease, and since when we have seen it as it is, on our monotonic clock."""

    spec: Mapping[str, Any]
    since: float


class LeaderElector:
    """One candidate for the Lease `namespace/name`.

    The durations are in seconds. The API's own retries must not be longer than `renew_deadline`: each call is cut off.
    Use it once: `acquire`, then `hold`, then, when all work has stopped, `release`.

    Raises: ConfigError when the durations, the names or the identity cannot work.
    """

    def __init__(
        self,
        api: Api,
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        random: Random,
        labels: Mapping[str, str] | None = None,
        lease_duration: float = LEASE_DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry_period: float = RETRY_PERIOD,
    ) -> None:
        """`labels` are for a lease that this candidate creates."""
        _check_durations(lease_duration, renew_deadline, retry_period)
        _check_names(name, namespace, identity)
        self._api, self._clock, self._random = api, clock, random
        self._name, self._namespace, self._identity = name, namespace, identity
        self._where, self._labels = (namespace, name), dict(labels or {})
        self._lease_duration, self._renew_deadline, self._retry_period = lease_duration, renew_deadline, retry_period
        self._call_timeout = max(1.0, renew_deadline / 2)
        self._sighting: _Sighting | None = None
        self._held: Object | None = None
        self._renewed = 0.0
        self._trouble = ""

    @property
    def identity(self) -> str:
        """Who this candidate is, as the record names it."""
        return self._identity

    @property
    def is_leader(self) -> bool:
        """Whether this candidate may act now: it holds the lease and its term is not over."""
        return self._held is not None and self._clock.monotonic() < self._renewed + self._renew_deadline

    @property
    def trouble(self) -> str:
        """What keeps this candidate from reading or writing the lease right now; empty where nothing does."""
        return self._trouble

    @property
    def leader(self) -> str:
        """The holder in the record that was seen last; empty when nobody holds it or none was seen."""
        return str(self._sighting.spec.get("holderIdentity") or "") if self._sighting else ""

    async def acquire(self) -> None:
        """Wait until the lease is ours. Failed calls are logged once a change of trouble and tried again."""
        while not (await self._attempt(self._clock.monotonic() + self._call_timeout) and self.is_leader):
            await self._clock.sleep(self._retry_period * self._random.uniform(1.0, 1.0 + JITTER))
        log.info("%s leads: it holds lease %s/%s", self._identity, *self._where)

    async def hold(self) -> None:
        """Renew for ever. Raises: LeaseLost when the term ends without a renewal, or another one holds the lease."""
        while self._held is not None:
            deadline = self._renewed + self._renew_deadline
            await self._clock.sleep(min(self._retry_period, max(0.0, deadline - self._clock.monotonic())))
            if self._clock.monotonic() >= deadline:
                self._held = None
                raise LeaseLost(
                    f"lease {self._namespace}/{self._name} was not renewed for {self._renew_deadline:g} s"
                    + (f"; last trouble: {self._trouble}" if self._trouble else "")
                )
            await self._attempt(min(deadline, self._clock.monotonic() + self._call_timeout))
        raise LeaseLost(
            f"lease {self._namespace}/{self._name} is held by {self.leader or 'nobody'}, not {self._identity}"
        )

    async def release(self) -> None:
        """Give the lease up, if it is still ours, so that another candidate need not wait.

        Call it after all work has stopped and `hold()` has ended. Never raises for a failed call: the lease then runs
        out by itself.
        """
        held, self._held = self.is_leader, None
        if not held:
            return
        try:
            await self._within(self._call_timeout, self._give_up())
        except (ApiError, ConnectionFailed, TimeoutError) as error:
            log.warning("lease %s/%s was not released and runs out by itself: %s", *self._where, _text(error))

    async def _give_up(self) -> None:
        lease = await self._api.get(Lease, self._name, self._namespace)  # the last renewal may have gone unanswered
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._identity:
            return
        now = self._stamp()
        empty = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        await self._replace(lease, {**empty, "leaseTransitions": spec.get("leaseTransitions") or 0})
        log.info("released lease %s/%s", *self._where)

    async def _attempt(self, deadline: float) -> bool:
        """Try once to take or to renew the lease; whether it is ours. Not later than `deadline`."""
        began = self._clock.monotonic()
        try:
            held = await self._within(deadline - began, self._take())
        except (Conflict, NotFound):
            return False  # somebody was faster: the next attempt reads what came of it
        except (ApiError, ConnectionFailed, TimeoutError) as error:
            rule = missing_rule(error, Lease)
            self._report(f"{_text(error)}. {rule}" if rule else _text(error))
            return False
        self._report("")
        self._held = held
        if held is not None:
            self._renewed = began
        return held is not None

    async def _take(self) -> Object | None:
        """The lease after it became, or stayed, ours; None when another one holds it. Always from a fresh read."""
        try:
            lease = await self._api.get(Lease, self._name, self._namespace)
        except NotFound:
            return None if self._respects_sighting() else await self._create()
        spec = lease.get("spec") or {}
        if self._sighting is None or self._sighting.spec != spec:
            self._saw(lease)
        if self._respects_sighting():
            return None
        return await self._replace(lease, self._record(spec))

    def _respects_sighting(self) -> bool:
        """Whether the record seen last is another's and not yet over; even one that was deleted since has its term."""
        if self._sighting is None or self.leader in {"", self._identity}:
            return False
        duration = float(self._sighting.spec.get("leaseDurationSeconds") or self._lease_duration)
        return self._clock.monotonic() < self._sighting.since + duration

    async def _create(self) -> Object | None:
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if self._labels:
            metadata["labels"] = self._labels
        body = {"metadata": metadata, "spec": self._record({})}
        try:
            return self._saw(await self._api.create(Lease, body, self._namespace))
        except AlreadyExists:
            return None

    async def _replace(self, lease: Object, spec: Mapping[str, Any]) -> Object:
        """Write `spec` over `lease`, guarded by the resourceVersion that was read."""
        return self._saw(await self._api.replace(Lease, self._name, {**lease, "spec": spec}, self._namespace))

    def _record(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The record that says that we hold the lease, after the record `before`."""
        now, ours = self._stamp(), before.get("holderIdentity") == self._identity
        transitions = int(before.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._lease_duration),
            "acquireTime": before.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or not before else transitions + 1,
        }

    def _saw(self, lease: Object) -> Object:
        """Remember the record, as of now."""
        before = self.leader
        self._sighting = _Sighting(lease.get("spec") or {}, self._clock.monotonic())
        if self.leader != before:
            log.info("lease %s/%s is held by %s", *self._where, self.leader or "nobody")
        return lease

    async def _within(self, seconds: float, call: Awaitable[T]) -> T:
        """Await `call`, at most `seconds` on our clock. Raises: TimeoutError."""
        async with asyncio.timeout(seconds):
            return await call

    def _report(self, trouble: str) -> None:
        """Log trouble when it begins and when it ends, not at every attempt."""
        if trouble and not self._trouble:
            log.warning("lease %s/%s cannot be read or written: %s", *self._where, trouble)
        elif self._trouble and not trouble:
            log.info("lease %s/%s can be read and written again", *self._where)
        self._trouble = trouble

    def _stamp(self) -> str:
        """Now as a `metav1.MicroTime`."""
        return _micro_time(self._clock.now())


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(error: BaseException) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


def _check_durations(lease: float, renew: float, retry: float) -> None:
    if not lease > renew > JITTER * retry > 0:
        raise ConfigError(
            f"leader election: lease duration {lease:g} s, renew deadline {renew:g} s, retry period {retry:g} s; "
            f"lease > renew > {JITTER} x retry > 0 must hold"
        )


def _check_names(name: str, namespace: str, identity: str) -> None:
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ConfigError(f"leader election: lease name {name!r} must be lowercase letters, digits, '-' and '.'")
    if not _LABEL.fullmatch(namespace):
        raise ConfigError(f"leader election: namespace {namespace!r} must be lowercase letters, digits and '-'")
    if not identity:
        raise ConfigError("leader election: the identity must not be empty; default_identity() makes one")
