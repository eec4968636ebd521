"""Faults of the fake API server: what goes wrong between one client and the server, by chance or by order.

Every client has its own `Faults`, so that one replica can be cut off while another works. Chances are drawn from a
seeded `random.Random`; `stop()` ends them (the simulations' "once faults stop"), `start()` begins again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from konverge.errors import ApiError, ConnectionFailed, KonvergeError
from konverge.model.resource import ResourceType

WRITES: Final = frozenset({"create", "apply", "patch", "replace", "delete"})
GUARDED: Final = frozenset({"apply", "patch", "replace"})


class Fate(NamedTuple):
    """What one call meets: an error before the server acts, or after it, and seconds of waiting around the act.

    `late`: the call is under way for so many seconds, and the server then acts even if the caller has given up.
    """

    before: KonvergeError | None = None
    after: KonvergeError | None = None
    wait_before: float = 0.0
    wait_after: float = 0.0
    late: float | None = None


class StreamFate(NamedTuple):
    """What becomes of a watch `seconds` after it opened: `error` is raised in it, or it falls silent."""

    seconds: float
    error: KonvergeError | None = None


@dataclass
class Injection:
    """An ordered fault: the next `times` calls that fit meet `error`."""

    error: KonvergeError
    verbs: Collection[str]
    resource: ResourceType | None
    name: str | None
    times: int
    after: bool

    def fits(self, verb: str, resource: ResourceType, name: str) -> bool:
        """Whether this call is one of those meant."""
        return (
            self.times > 0
            and (not self.verbs or verb in self.verbs)
            and self.resource in {None, resource}
            and self.name in {None, name}
        )


@dataclass
class Faults:
    """The faults of one client. Chances are per call, in [0, 1]; `(low, high)` are seconds.

    `drop_before`: the connection breaks and the server never saw the call. `drop_after`: it breaks after the server
    acted, so that the caller cannot know. `hang`: no answer for `hang_seconds`, then a broken connection; the server
    never acts, or acts at once, or (writes) at some time meanwhile, whether the caller still waits or not. `server_error`: 500 or 503, half of them after the server acted. `conflict`: 409 on apply,
    patch and replace. `too_many`: 429 that asks for `retry_after` seconds. Per watch: `watch_gone` is 410 on connect
    or in the stream, `watch_drop` a broken stream, `watch_silent` a stream that says nothing more and does not end.
    `watch_delay` delays each event; every stream draws its own slowness from it, so that kinds overtake each other.
    `latency` is no fault: it stays after `stop()`.
    """

    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - must be repeatable
    latency: tuple[float, float] = (0.0, 0.0)
    drop_before: float = 0.0
    drop_after: float = 0.0
    hang: float = 0.0
    hang_seconds: float = 60.0
    server_error: float = 0.0
    conflict: float = 0.0
    too_many: float = 0.0
    retry_after: tuple[float, float] = (1.0, 5.0)
    watch_gone: float = 0.0
    watch_drop: float = 0.0
    watch_silent: float = 0.0
    watch_delay: tuple[float, float] = (0.0, 0.0)
    active: bool = True
    _partition: bool = False
    _injections: list[Injection] = field(default_factory=list)

    @classmethod
    def rough(cls, chance: Random, rate: float = 0.05) -> "Faults":
        """Everything goes wrong now and then: each fault at about `rate`, with latencies up to 0.1 s."""
        return cls(
            random=chance,
            latency=(0.001, 0.1),
            drop_before=rate,
            drop_after=rate,
            hang=rate / 5,
            server_error=rate,
            conflict=rate,
            too_many=rate,
            watch_gone=rate * 4,
            watch_drop=rate * 4,
            watch_silent=rate * 2,
            watch_delay=(0.0, 2.0),
        )

    def stop(self) -> None:
        """No more faults by chance, by order or by partition. A stream that fell silent stays so until its idle timeout."""
        self.active, self._partition = False, False
        self._injections.clear()

    def start(self) -> None:
        """Faults by chance again."""
        self.active = True

    def partition(self) -> None:
        """Cut this client off: every call fails with `ConnectionFailed`, and open watches say nothing more."""
        self._partition = True

    def heal(self) -> None:
        """End the partition."""
        self._partition = False

    @property
    def partitioned(self) -> bool:
        """Whether the client is cut off now."""
        return self._partition

    def inject(
        self,
        error: KonvergeError,
        *,
        verbs: Collection[str] = (),
        resource: ResourceType | None = None,
        name: str | None = None,
        times: int = 1,
        after: bool = False,
    ) -> None:
        """Let the next `times` fitting calls fail with `error`; `after`: once the server has acted.

        `verbs` are get, list, watch, create, apply, patch, replace, delete (none: all).
        """
        self._injections.append(Injection(error, frozenset(verbs), resource, name, times, after))

    def fate(self, verb: str, resource: ResourceType, name: str) -> Fate:
        """What this call meets."""
        plain = Fate(wait_before=self._draw(self.latency) / 2, wait_after=self._draw(self.latency) / 2)
        if self._partition:
            return plain._replace(before=ConnectionFailed("the client is cut off from the server"))
        for injection in self._injections:
            if injection.fits(verb, resource, name):
                injection.times -= 1
                error = injection.error
                return plain._replace(after=error) if injection.after else plain._replace(before=error)
        return self._by_chance(verb, plain) if self.active else plain

    def stream_fate(self) -> StreamFate | None:
        """What becomes of a watch that opens now; None: nothing."""
        if not self.active:
            return None
        seconds = self.random.uniform(0, 60)
        if self._hits(self.watch_gone):
            return StreamFate(seconds, gone("the watch is too old"))
        if self._hits(self.watch_drop):
            return StreamFate(seconds, ConnectionFailed("connection reset by peer"))
        if self._hits(self.watch_silent):
            return StreamFate(seconds)
        return None

    def slowness(self) -> float:
        """The most seconds by which a stream that opens now delays an event."""
        return self._draw(self.watch_delay) if self.active else 0.0

    def delay(self, slowness: float) -> float:
        """The seconds by which one event of such a stream is late."""
        return self._draw((0.0, slowness)) if self.active else 0.0

    def _by_chance(self, verb: str, plain: Fate) -> Fate:
        lost = ConnectionFailed("connection reset by peer")
        outcomes: list[tuple[float, Callable[[], Fate]]] = [
            (self.drop_before, lambda: plain._replace(before=lost)),
            (self.drop_after, lambda: plain._replace(after=lost)),
            (self.hang, lambda: self._hang(verb)),
            (self.server_error, lambda: self._server_error(plain)),
            (self.conflict if verb in GUARDED else 0.0, lambda: plain._replace(before=_conflict())),
            (self.too_many, lambda: plain._replace(before=self._too_many())),
            (
                self.watch_gone if verb == "watch" else 0.0,
                lambda: plain._replace(before=gone("too old resource version")),
            ),
        ]
        for chance, outcome in outcomes:
            if self._hits(chance):
                return outcome()
        return plain

    def _hang(self, verb: str) -> Fate:
        lost = ConnectionFailed("timed out waiting for an answer")
        share = self.random.random()
        if share < 1 / 3:
            return Fate(before=lost, wait_before=self.hang_seconds)
        late = self.random.uniform(0, self.hang_seconds) if share > 2 / 3 and verb in WRITES else None
        return Fate(after=lost, wait_after=self.hang_seconds, late=late)

    def _server_error(self, plain: Fate) -> Fate:
        if self._hits(0.5):
            return plain._replace(before=ApiError.of(503, "ServiceUnavailable", "apiserver is shutting down"))
        return plain._replace(after=ApiError.of(500, "InternalError", "etcdserver: request timed out"))

    def _too_many(self) -> ApiError:
        seconds = float(round(self._draw(self.retry_after)))
        return ApiError.of(429, "TooManyRequests", "too many requests, please try again later", retry_after=seconds)

    def _hits(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance

    def _draw(self, bounds: tuple[float, float]) -> float:
        return self.random.uniform(*bounds) if bounds[1] > 0 else 0.0


def gone(message: str) -> ApiError:
    """The 410 of a resourceVersion or continue token that is too old."""
    return ApiError.of(410, "Expired", message)


def _conflict() -> ApiError:
    return ApiError.of(
        409,
        "Conflict",
        "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
    )
