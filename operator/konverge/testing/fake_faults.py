"""Faults of the fake API server: what goes wrong between one client and the server, by chance or by order.

Every client has its own `Faults`, so that one replica can be cut off while another works. Chances are drawn from a
seeded `random.Random`; `stop()` ends them (the simulations' "once faults stop"), `start()` begins again.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Final, NamedTuple

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
    """What becomes of a watch `seconds` after it opened, by the kind of fault: `error` is raised in it, or it falls silent."""

    kind: str
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


_ROUGH: Final = "rough"


def _kind(rough: Callable[[float], Any], none: Any = 0.0) -> Any:
    """A field that is a kind of fault: `none` by default, and `rough(rate)` when everything goes wrong at some rate."""
    return field(default=none, metadata={_ROUGH: rough})


@dataclass
class Faults:
    """The faults of one client. Chances are per call, in [0, 1]; `(low, high)` are seconds.

    `drop_before`: the connection breaks and the server never saw the call. `drop_after`: it breaks after the server
    acted, so that the caller cannot know. `hang`: no answer for `hang_seconds`, then a broken connection; the server
    never acts, or acts at once, or (writes) at some time meanwhile, whether the caller still waits or not. `server_error`:
    500 or 503, half of them after the server acted. `conflict`: 409 on apply, patch, replace and the bind of a pod.
    `too_many`: 429 that asks for `retry_after` seconds. Per watch: `watch_gone` is 410 on connect
    or in the stream, `watch_drop` a broken stream, `watch_silent` a stream that says nothing more and does not end.
    `watch_delay` delays each event; every stream draws its own slowness from it, so that kinds overtake each other.
    `latency` is no fault: it stays after `stop()`.

    `happened` counts, by kind, the calls and streams that met a fault, and the events that came late; under `partition`
    the calls that were cut off.
    """

    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - must be repeatable
    latency: tuple[float, float] = (0.0, 0.0)
    drop_before: float = _kind(lambda rate: rate)
    drop_after: float = _kind(lambda rate: rate)
    hang: float = _kind(lambda rate: rate / 5)
    hang_seconds: float = 60.0
    server_error: float = _kind(lambda rate: rate)
    conflict: float = _kind(lambda rate: rate)
    too_many: float = _kind(lambda rate: rate)
    retry_after: tuple[float, float] = (1.0, 5.0)
    watch_gone: float = _kind(lambda rate: rate * 4)
    watch_drop: float = _kind(lambda rate: rate * 4)
    watch_silent: float = _kind(lambda rate: rate * 2)
    watch_delay: tuple[float, float] = _kind(lambda _: (0.0, 2.0), none=(0.0, 0.0))
    active: bool = True
    happened: Counter[str] = field(default_factory=Counter)
    _partition: bool = False
    _injections: list[Injection] = field(default_factory=list)

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The fields that are a kind of fault."""
        return tuple(each.name for each in fields(cls) if _ROUGH in each.metadata)

    @classmethod
    def rough(cls, chance: Random, rate: float = 0.05, *, only: str = "") -> "Faults":
        """Everything goes wrong now and then: each fault at about `rate`, with latencies up to 0.1 s.

        `only`: that kind alone. Raises: ValueError when there is no such kind.
        """
        if only and only not in cls.kinds():
            raise ValueError(f"{only!r} is no kind of fault; there are {', '.join(cls.kinds())}")
        rough = {each.name: each.metadata[_ROUGH](rate) for each in fields(cls) if _ROUGH in each.metadata}
        chosen = {kind: chances for kind, chances in rough.items() if only in {"", kind}}
        return cls(random=chance, latency=(0.001, 0.1), **chosen)

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

    def fate(self, verb: str, resource: ResourceType, name: str, subresource: str = "") -> Fate:
        """What this call meets."""
        plain = Fate(wait_before=self._draw(self.latency) / 2, wait_after=self._draw(self.latency) / 2)
        if self._partition:
            self.happened["partition"] += 1
            return plain._replace(before=ConnectionFailed("the client is cut off from the server"))
        for injection in self._injections:
            if injection.fits(verb, resource, name):
                injection.times -= 1
                error = injection.error
                return plain._replace(after=error) if injection.after else plain._replace(before=error)
        guarded = verb in GUARDED or subresource == "binding"
        return self._by_chance(verb, plain, guarded=guarded) if self.active else plain

    def stream_fate(self) -> StreamFate | None:
        """What becomes of a watch that opens now; None: nothing."""
        if not self.active:
            return None
        seconds = self.random.uniform(0, 60)
        if self._hits(self.watch_gone):
            return StreamFate("watch_gone", seconds, gone("the watch is too old"))
        if self._hits(self.watch_drop):
            return StreamFate("watch_drop", seconds, ConnectionFailed("connection reset by peer"))
        if self._hits(self.watch_silent):
            return StreamFate("watch_silent", seconds)
        return None

    def slowness(self) -> float:
        """The most seconds by which a stream that opens now delays an event."""
        return self._draw(self.watch_delay) if self.active else 0.0

    def delay(self, slowness: float) -> float:
        """The seconds by which one event of such a stream is late."""
        if not self.active or slowness <= 0:
            return 0.0
        self.happened["watch_delay"] += 1
        return self._draw((0.0, slowness))

    def _by_chance(self, verb: str, plain: Fate, *, guarded: bool) -> Fate:
        lost = ConnectionFailed("connection reset by peer")
        outcomes: list[tuple[str, bool, Callable[[], Fate]]] = [
            ("drop_before", True, lambda: plain._replace(before=lost)),
            ("drop_after", True, lambda: plain._replace(after=lost)),
            ("hang", True, lambda: self._hang(verb)),
            ("server_error", True, lambda: self._server_error(plain)),
            ("conflict", guarded, lambda: plain._replace(before=_conflict())),
            ("too_many", True, lambda: plain._replace(before=self._too_many())),
            ("watch_gone", verb == "watch", lambda: plain._replace(before=gone("too old resource version"))),
        ]
        for kind, possible, outcome in outcomes:
            if possible and self._hits(getattr(self, kind)):
                self.happened[kind] += 1
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
