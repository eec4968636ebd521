"""Several replicas place pods in one cluster, and none over-commits a node: each bind is booked in a register first.

    decide -> assume -> book -> bind -> take the booking out

In flow pods with the node that was chosen for them, and what the others have booked; out flow, for each pod, leave to bind
it or a refusal. The register is one object, written under its resourceVersion. So whoever's write the server takes had
read all bookings before it, had counted them on their nodes, and asked of each of its own that is not written yet whether
it still fits beside them. All bookings are in one order, so what spans nodes (spread, anti-affinity between zones) holds as
well as in a single scheduler. A gang's members are booked together or not at all. Decisions go on meanwhile: what waits is
written in one go, so a write is shared by many binds.

A booking is taken out when this replica's cache shows what became of the pod; with it goes the resourceVersion of pods at
which all binds show whose bookings are out. Whoever reads the register waits until its own cache is there: so no replica
can miss a booking and its bind both. A replica that dies leaves its bookings; when its lease has run out it writes no more,
and another one asks the server about these pods and takes them out.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.errors import Conflict, KonvergeError, NotFound
from konverge.model.meta import is_newer, resource_version, uid_of
from konverge.model.resource import ConfigMap, Object, Pod
from konverge.ports import Api, Clock, Scope
from konverge.scheduler.bind import Assignment
from konverge.scheduler.changes import Changes
from konverge.scheduler.gangs import Gang, gang_of
from konverge.scheduler.neighbours import Neighbours
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.register import NOTHING, Booking, Register, Section, bound_at, latest
from konverge.scheduler.snapshot import Placement, Snapshot

_log = logging.getLogger(__name__)

MAX_WAITING: Final = 256
"""So many pods wait for their booking at most; scheduling waits when there are more."""

TIDY: Final = 1.0
"""Seconds after which bookings that are over are taken out, if no other write did it before."""

_STOPS: Final = "the scheduler stops"

CATCH_UP: Final = 2.0
"""Seconds that the cache of pods may be behind the register before all pods are listed."""

RETRY: Final = 1.0
"""Seconds before another try when the register cannot be read or written."""


class Team(Protocol):
    """The replicas that place pods; `konverge.election.Members` is one."""

    identity: str
    """This replica."""
    alive: frozenset[str]
    """All that are not known to be gone."""

    def is_gone(self, identity: str) -> bool:
        """Whether that replica can write no more."""
        ...


@dataclass(slots=True, eq=False)
class _Promise:
    """A pod of ours between its decision and the end of its bind."""

    assignment: Assignment
    decided: asyncio.Future[str]
    booking: Booking
    gang: Gang | None
    epoch: int
    """What was known of the others when it was decided, or last looked at."""
    booked: bool = False
    bound: bool = False
    placement: Placement | None = field(default=None)
    """How it is counted, while it is lifted from its node."""


class Bookings:
    """See the module. `fits` says whether a pod that is not counted at the moment fits the node that it was promised."""

    def __init__(
        self,
        api: Api,
        team: Team,
        *,
        namespace: str,
        name: str,
        pods: Cache,
        clock: Clock,
        snapshot: Snapshot,
        neighbours: Neighbours,
        fits: Callable[[Assignment], bool],
        past_permit: Callable[[], Iterable[PodInfo]],
    ) -> None:
        """The register is the ConfigMap `namespace/name`. `past_permit` gives the pods that ask for leave here, or soon will."""
        self._api, self._team, self._namespace, self._name = api, team, namespace, name
        self._pods, self._clock, self._snapshot = pods, clock, snapshot
        self._neighbours, self._fits, self._past_permit = neighbours, fits, past_permit
        self.epoch = 0
        """Another number whenever others have booked or bound something that was not known here before."""
        self._own: dict[str, _Promise] = {}
        self._register = Register()
        self._shown: Object | None = None
        self._sent = NOTHING
        self._bound = self._listed = ""
        self._moved = Changes(clock)
        self._sure = self._closed = False
        self._wake, self._joined = asyncio.Event(), asyncio.Event()
        self._few = asyncio.Event()
        self._few.set()

    # For the scheduler

    async def ready(self) -> None:
        """Wait until another pod may be decided on."""
        await self._joined.wait()
        await self._few.wait()

    async def book(self, assignment: Assignment) -> str:
        """Wait for leave to bind the assumed pod. Empty when it is given, else why not; the pod is not assumed then."""
        if self._closed:
            return _STOPS
        pod = assignment.waiting.pod
        promise = self._own[pod.uid] = _Promise(
            assignment,
            asyncio.get_running_loop().create_future(),
            Booking(pod.key, assignment.node_name),
            gang_of(pod),
            assignment.epoch,
        )
        self._count()
        try:
            return await promise.decided
        finally:
            if not promise.booked and self._own.get(pod.uid) is promise:
                del self._own[pod.uid]
            self._count()

    def end(self, uid: str, *, bound: bool) -> None:
        """The pod is bound, or will not be. The booking of one that is stays until the cache shows it."""
        promise = self._own.get(uid)
        if promise is not None and bound:
            promise.bound = True
            self._look_at(uid, self._pods.get(promise.booking.pod))
        elif promise is not None:
            del self._own[uid]
        self._count()  # the rest of its gang may have waited for it

    def on_pod(self, change: Change) -> None:
        """The cache shows what became of a pod."""
        self._moved.notify()
        uid = "" if change.old is None else uid_of(change.old)
        promise = self._own.get(uid)
        if promise is not None and promise.bound:
            self._look_at(uid, change.new)
        elif change.new is not None and bound_at(change.new) and not bound_at(change.old):
            # Bound by others, perhaps while it was promised a node here; and their booking was out before we knew of it.
            ours = (
                promise is not None and promise.booked and promise.booking.node_name == change.new["spec"]["nodeName"]
            )
            self.epoch += not ours and not self._neighbours.has(uid)

    def _look_at(self, uid: str, pod: Object | None) -> None:
        """Take the booking of a bound pod out if the pod is shown so, or is gone."""
        if pod is None or uid_of(pod) != uid or bound_at(pod):
            self._bound = latest([self._bound, bound_at(pod)])
            del self._own[uid]

    def show(self, obj: Object | None) -> None:
        """The register, as a watch shows it."""
        if obj is not None and is_newer(resource_version(obj), self._register.version):
            self._shown = obj
            self._wake.set()

    def look_again(self) -> None:
        """The team changed."""
        self._wake.set()

    async def run(self) -> None:
        """Keep the register until cancelled."""
        self._closed = False
        tidy = asyncio.create_task(self._tidy(), name="bookings that are over")
        try:
            while True:
                try:
                    await self._round()
                except KonvergeError as error:
                    self._sure = False
                    _log.warning("the register of bookings cannot be read or written, and nothing is bound: %s", error)
                    await self._clock.sleep(RETRY)
                else:
                    await self._wake.wait()
                    self._wake.clear()
        finally:
            self._closed = True
            for promise in self._own.values():
                if not promise.booked:
                    _decide(promise, _STOPS)
            tidy.cancel()
            await asyncio.gather(tidy, return_exceptions=True)

    async def leave(self) -> bool:
        """Take out what is booked, at the end; False when something may still take effect, or it did not work."""
        if not all(promise.bound for promise in self._own.values()):
            return False
        bound = [promise.booking for promise in self._own.values()]
        try:
            self._bound = latest([self._bound, *map(bound_at, await self._neighbours.read(bound))])
            self._own.clear()
            if self._section() != self._register.section(self._team.identity):
                patch = {"data": {self._team.identity: self._section().text}}
                await self._api.patch(ConfigMap, self._name, patch, self._namespace)
        except KonvergeError as error:
            _log.warning("the register of bookings is left as it is: %s", error)
            return False
        return True

    # Rounds

    async def _round(self) -> None:
        """Read what is new, and write what is due. Raises: KonvergeError."""
        if not self._sure:
            await self._read()
        if not self._joined.is_set():
            await self._list_pods()
            self._joined.set()
        while True:
            if self._shown is not None:
                shown, self._shown = self._shown, None
                await self._take_over(shown)
            self._judge()
            if not self._due():
                return
            await self._write()

    def _due(self) -> bool:
        return self._section() != self._register.section(self._team.identity) or bool(self._left())

    def _section(self) -> Section:
        ready = set(self._ready())
        own = {uid: each.booking for uid, each in self._own.items() if each.booked or each in ready}
        return Section(own, self._bound)

    def _ready(self) -> list[_Promise]:
        """The promises that wait for leave, but for those of gangs of which some pods are still on their way here."""
        waiting = [each for each in self._own.values() if not each.booked and not each.decided.done()]
        if not any(each.gang for each in waiting):
            return waiting
        coming = {gang_of(pod) for pod in self._past_permit() if pod.uid not in self._own} - {None}
        return [each for each in waiting if each.gang not in coming]

    def _left(self) -> list[str]:
        """The replicas that are gone and left bookings."""
        others = (replica for replica in self._register.sections if replica != self._team.identity)
        return [replica for replica in others if self._team.is_gone(replica)]

    async def _write(self) -> None:
        """Write our section, if nobody wrote since we read; otherwise read. Raises: KonvergeError."""
        left = self._left()
        if left:
            await self._inherit(left)
            self._judge()  # something may have happened meanwhile
        section, identity, version = self._section(), self._team.identity, self._register.version
        data: dict[str, Any] = {identity: section.text, **dict.fromkeys(left)}
        self._sent, self._sure = section, False
        try:
            if version:
                patch = {"metadata": {"resourceVersion": version}, "data": data}
                written = await self._api.patch(ConfigMap, self._name, patch, self._namespace)
            else:
                # Whatever the others had booked when it was lost is booked still.
                kept = {replica: kept.text for replica, kept in self._register.sections.items()}
                data = {replica: text for replica, text in {**kept, **data}.items() if text is not None}
                new = {"metadata": {"name": self._name, "namespace": self._namespace}, "data": data}
                written = await self._api.create(ConfigMap, new, self._namespace)
        except (Conflict, NotFound):
            await self._read()
            return
        await self._take_over(written)
        self._sure = True

    async def _inherit(self, left: Sequence[str]) -> None:
        """What came of the bookings of replicas that are gone is for us to say. Raises: KonvergeError."""
        sections = [self._register.section(replica) for replica in left]
        pods = await self._neighbours.read([each for section in sections for each in section.bookings.values()])
        self._bound = latest([self._bound, *(section.bound for section in sections), *map(bound_at, pods)])

    async def _read(self) -> None:
        """Read the register from the server. Raises: KonvergeError."""
        try:
            await self._take_over(await self._api.get(ConfigMap, self._name, self._namespace))
        except NotFound:
            self._register = Register("", self._register.sections)
        self._sure = True

    async def _take_over(self, obj: Object) -> None:
        """Give leave to what the register shows of ours; judge the rest beside what is new of the others."""
        if not is_newer(resource_version(obj), self._register.version):
            return
        register = Register.read(obj, self._register)
        await self._catch_up(register.bound)
        others = register.others(self._team.identity)
        await self._neighbours.meet(others)
        self._register = register
        sent, written = self._sent.bookings, register.section(self._team.identity).bookings
        for uid, promise in self._own.items():
            if not promise.booked and promise.booking == sent.get(uid) == written.get(uid):
                promise.booked = True
                _decide(promise, "")
        self.epoch += self._neighbours.news(others)
        self._neighbours.absorb(others)

    async def _catch_up(self, version: str) -> None:
        """Wait until the cache of pods is at that version; before long, ask for all of them. Raises: KonvergeError."""
        if not await self._moved.until(lambda: self._has_seen(version), CATCH_UP):
            await self._list_pods()

    def _has_seen(self, version: str) -> bool:
        return not version or self._pods.has_seen(version) or not is_newer(version, self._listed)

    async def _list_pods(self) -> None:
        """Bring the cache of pods to where the server is. Raises: KonvergeError."""
        token = listed = ""
        while True:
            page = await self._api.list(Pod, Scope(), continue_token=token)
            listed = listed or page.resource_version
            for raw in page.items:
                self._pods.wrote(raw)
            if not (token := page.continue_token):
                self._listed = listed
                return

    # Judging

    def _judge(self) -> None:
        """Look again at what was decided before others booked what we know of now: refuse what fits no longer, and a
        gang as a whole.
        """
        ready = self._ready()
        stale = [each for each in ready if each.epoch != self.epoch]
        gangs = {each.gang for each in stale} - {None}
        promises = [each for each in ready if each.epoch != self.epoch or each.gang in gangs]
        for promise in promises:
            promise.epoch = self.epoch
        promises = self._lift(promises)
        while refused := self._refused(promises):
            gangs = {promise.gang for promise in refused} - {None}
            refused += [each for each in promises if each.gang in gangs and each not in refused]
            for promise in refused:
                _decide(promise, _why(promise, booked=False))
                self._neighbours.freed(promise.assignment.waiting.pod.uid)
            promises = self._lift([promise for promise in promises if promise not in refused])

    def _lift(self, promises: Sequence[_Promise]) -> list[_Promise]:
        """Take pods off the nodes that they were promised; those that are there no longer are refused."""
        found = []
        for promise in promises:
            uid = promise.assignment.waiting.pod.uid
            ours = self._snapshot.is_assumed(uid) and not self._neighbours.has(uid)
            promise.placement = self._snapshot.lift(uid) if ours else None
            if promise.placement is None:
                _decide(promise, _why(promise, booked=self._neighbours.has(uid)))
            else:
                found.append(promise)
        return found

    def _refused(self, promises: Collection[_Promise]) -> list[_Promise]:
        """Those of the lifted pods that do not fit any more; the others are counted again."""
        refused = []
        for promise in promises:
            if not self._fits(promise.assignment):
                refused.append(promise)
            else:
                assert promise.placement is not None  # lifted before
                self._snapshot.put_back(promise.placement)
        return refused

    # Inside

    async def _tidy(self) -> None:
        while True:
            await self._clock.sleep(TIDY)
            if self._due():
                self._wake.set()

    def _count(self) -> None:
        waiting = sum(not promise.booked for promise in self._own.values())
        if waiting:
            self._wake.set()
        if waiting < MAX_WAITING:
            self._few.set()
        else:
            self._few.clear()


def _decide(promise: _Promise, reason: str) -> None:
    if not promise.decided.done():
        promise.decided.set_result(reason)


def _why(promise: _Promise, *, booked: bool) -> str:
    if booked:
        return "another replica places the pod"
    return f"another replica was faster on node {promise.booking.node_name}"
