"""Replicas that share work: each holds a Lease of its own, and who holds one is a member. Leases flow in and out, the
members flow out.

The safety argument is that of the leader's lease (see `elector`), seen from the other side. A member acts only while its
own lease's term runs on its own clock, which ends `renew_deadline` after the last answered renewal. The others judge it
gone only after they have seen its record unchanged for `lease_duration` on theirs, or released. A lease that somebody
deletes still has its term. Whoever judges a member gone removes what is left of its lease.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from konverge.election.elector import LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, LeaderElector
from konverge.errors import ApiError, ConfigError, ConnectionFailed, KonvergeError
from konverge.model.meta import uid_of
from konverge.model.resource import Lease, Object
from konverge.ports import Api, Clock, Random, Scope

log = logging.getLogger(__name__)

GROUP: Final = "konverge.dev/members-of"
"""The label of the members' leases: the name of their group."""

_MAX_LABEL: Final = 63


class _Sighting(NamedTuple):
    """A member's lease as it was last seen to change, and when, on our monotonic clock."""

    lease: Object
    since: float

    @property
    def holder(self) -> str:
        return str(self.lease["spec"].get("holderIdentity") or "")

    def runs(self, now: float) -> bool:
        """Whether its term may run still."""
        return now < self.since + float(self.lease["spec"].get("leaseDurationSeconds") or LEASE_DURATION)


class Members:
    """One member of `group`. Use it once: `join`, then `hold`, then, when all work has stopped, `leave`.

    The durations are in seconds, as those of `LeaderElector`.

    Raises: ConfigError when the durations, the names or the identity cannot work.
    """

    def __init__(
        self,
        api: Api,
        *,
        group: str,
        namespace: str,
        identity: str,
        clock: Clock,
        random: Random,
        lease_duration: float = LEASE_DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry_period: float = RETRY_PERIOD,
    ) -> None:
        if len(group) > _MAX_LABEL:
            raise ConfigError(
                f"the members of {group!r} are found by a label: its name must have at most {_MAX_LABEL} characters"
            )
        self._api, self._clock = api, clock
        self._callbacks: list[Callable[[], None]] = []
        self._group, self._namespace, self.identity = group, namespace, identity
        self._lease_duration, self._retry_period = lease_duration, retry_period
        self._own = LeaderElector(
            api,
            name=f"{group}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}",
            namespace=namespace,
            identity=identity,
            clock=clock,
            random=random,
            labels={GROUP: group},
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
            retry_period=retry_period,
        )
        self._sightings: dict[str, _Sighting] = {}
        self._over: dict[str, _Sighting] = {}
        """Leases that are over and not removed yet."""
        self._departed: set[str] = set()
        self._strangers: dict[str, float] = {}
        self.alive: frozenset[str] = frozenset({identity})
        """The identities of all members that are not known to be gone, this one among them."""

    @property
    def is_member(self) -> bool:
        """Whether this replica may act now."""
        return self._own.is_leader

    @property
    def trouble(self) -> str:
        """What keeps this replica from reading or writing its lease right now; empty where nothing does."""
        return self._own.trouble

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` when members came or went."""
        self._callbacks.append(callback)

    def is_gone(self, identity: str) -> bool:
        """Whether that member can act no longer. One that was never seen may be about to come, for the time of a term."""
        if identity in self.alive:
            self._strangers.pop(identity, None)
            return False
        now = self._clock.monotonic()
        return identity in self._departed or now >= self._strangers.setdefault(identity, now) + self._lease_duration

    async def join(self) -> None:
        """Become a member, and learn who the others are. Failed calls are tried again."""
        await self._own.acquire()
        while not await self._look():
            await self._clock.sleep(self._retry_period)

    async def hold(self) -> None:
        """Stay a member, and see the others come and go, for ever. Raises: LeaseLost when the own lease is lost."""
        holding = asyncio.create_task(self._own.hold(), name="member's lease")
        looking = asyncio.create_task(self._keep_looking(), name="other members")
        try:
            await asyncio.wait([holding, looking], return_when=asyncio.FIRST_COMPLETED)
            for task in (holding, looking):
                if task.done():
                    task.result()
        finally:
            for task in (holding, looking):
                task.cancel()
            await asyncio.gather(holding, looking, return_exceptions=True)

    async def leave(self) -> None:
        """Give the lease up: the others take over at once. Only when nothing that was begun can still take effect."""
        await self._own.release()

    async def _keep_looking(self) -> None:
        while True:
            await self._clock.sleep(self._retry_period)
            await self._look()

    async def _look(self) -> bool:
        """See who is there. Without an answer nothing is known of the others, so that none of them is judged by it."""
        began = self._clock.monotonic()
        scope = Scope(self._namespace, label_selector=f"{GROUP}={self._group}")
        try:
            leases = (await self._api.list(Lease, scope, limit=0)).items
        except (ApiError, ConnectionFailed) as error:
            log.debug("the leases of %s cannot be listed: %s", self._group, error)
            return False
        over = self._see({lease["metadata"]["name"]: lease for lease in leases}, began)
        before = self.alive
        self.alive = frozenset({self.identity} | {sighting.holder for sighting in self._sightings.values()})
        self._departed = (self._departed | before) - self.alive
        if before != self.alive:
            log.info("the members of %s: %s", self._group, ", ".join(sorted(self.alive)))
            for callback in self._callbacks:
                callback()
        for lease in over:
            with suppress(KonvergeError):  # the next look finds it again
                await self._api.delete(Lease, lease["metadata"]["name"], self._namespace, uid=uid_of(lease))
        return True

    def _see(self, leases: Mapping[str, Object], began: float) -> list[Object]:
        """Take over the records that changed, and judge those that did not; returns the leases that nobody holds any more."""
        now = self._clock.monotonic()
        for name, lease in leases.items():
            known = self._sightings.get(name) or self._over.get(name)
            if known is None or known.lease["spec"] != lease["spec"]:
                self._over.pop(name, None)
                self._sightings[name] = _Sighting(lease, now)
        for name, sighting in list(self._sightings.items()):
            if not (sighting.holder and sighting.runs(began)) and sighting.holder != self.identity:
                self._over[name] = self._sightings.pop(name)
        self._over = {name: sighting for name, sighting in self._over.items() if name in leases}
        return [sighting.lease for sighting in self._over.values()]
