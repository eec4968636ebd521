"""The whole error tree, lowest layer of all.

KonvergeError
├── ConfigError                what a person passed in: flags, files, environment
│   └── CredentialsError       no way to reach or to authenticate with a cluster; lists what was tried
├── ModelError                 a declaration that cannot become a CRD or a state machine
│   └── UndeclaredTransition   a phase was asked for that the machine has no edge to
├── ManifestError              an object that its model cannot parse
├── ApiError                   an answer of the API server, by HTTP status
│   ├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, Conflict 409 (AlreadyExists),
│   └── Gone 410, Invalid 422, TooManyRequests 429, ServerError 5xx
├── ConnectionFailed           no answer at all
├── CacheNotSynced             a reflector that did not list in time; says why
├── WriteBlocked               a write after the lease was lost
├── LeaseLost                  another replica leads now
├── ReconcileError             raised by, or about, a reconciler
│   ├── Terminal               no retry until the object changes
│   ├── RetryAfter             retry after so many seconds
│   ├── UndeclaredKind         a child or read of a kind that the reconciler did not declare
│   └── NotController          a child that another controller owns, or that was not made by us
├── SchedulingError            about profiles and plugins
│   ├── UnknownPlugin          lists the known ones
│   ├── InvalidPluginArgs      names the plugin, the field and the rule
│   └── PluginFailed           a plugin raised, or answered what it must not
└── ClusterError               about the local cluster
    ├── ToolsMissing           no control plane to be had; lists what was tried
    └── BuildFailed            the control plane did not compile; shows the tail of the log
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self


class KonvergeError(Exception):
    """The root of everything that Konverge raises."""


class ConfigError(KonvergeError):
    """What a person passed in cannot be used; the message says what to change."""


class CredentialsError(ConfigError):
    """No way to reach, or to authenticate with, a cluster; the message lists what was tried."""


class ModelError(KonvergeError):
    """A declaration that cannot become a CRD or a state machine; the message names the field, the rule and the way out."""


class UndeclaredTransition(ModelError):
    """A phase was asked for that the state machine has no edge to."""

    def __init__(self, kind: str, current: str | None, wanted: str, allowed: Sequence[str]) -> None:
        self.kind, self.current, self.wanted, self.allowed = kind, current, wanted, tuple(allowed)
        edges = ", ".join(allowed) or "none"
        super().__init__(f"{kind}: no edge from phase {current or '(none)'} to {wanted}; declared from there: {edges}")


class ManifestError(KonvergeError):
    """An object that its model cannot parse.

    `problems` holds one line a field: `spec.replicas: Input should be a valid integer`.
    """

    def __init__(self, kind: str, name: str, problems: Sequence[str]) -> None:
        self.kind, self.name, self.problems = kind, name, tuple(problems)
        super().__init__(f"{kind} {name}: " + "; ".join(problems))


class ApiError(KonvergeError):
    """An answer of the API server that is not a success.

    `status` is the HTTP status, `reason` the machine-readable reason of the Status object (`NotFound`, `Expired`, ...),
    `details` its details, `retry_after` the seconds that the server asked to wait, if it did.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status, self.reason, self.message = status, reason, message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after
        super().__init__(f"{status} {reason}: {message}")

    @classmethod
    def of(
        cls,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> "ApiError":
        """Build the class of the tree that stands for this HTTP status."""
        kind = ServerError if status >= 500 else _BY_STATUS.get(status, ApiError)
        if status == 409 and reason == "AlreadyExists":
            kind = AlreadyExists
        return kind(status, reason, message, details=details, retry_after=retry_after)


class BadRequest(ApiError):
    """400: the request makes no sense to the server."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: known, but not allowed to."""


class NotFound(ApiError):
    """404: no such object, or no such resource (its CRD is absent)."""


class Conflict(ApiError):
    """409: the object changed meanwhile, or another field manager owns the field."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class Invalid(ApiError):
    """422: the server's validation refused the object."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds."""


class ServerError(ApiError):
    """5xx: the server's own trouble."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class ConnectionFailed(KonvergeError):
    """No answer: refused, reset, timed out, or TLS that does not match."""


class CacheNotSynced(KonvergeError):
    """A reflector that did not finish its first list in time; the message says what is missing and what to do."""


class WriteBlocked(KonvergeError):
    """A write was tried after this replica had lost its lease."""


class LeaseLost(KonvergeError):
    """The lease could not be renewed in time, or another replica holds it."""


class ReconcileError(KonvergeError):
    """The root of what a reconciler raises on purpose."""


class Terminal(ReconcileError):
    """No retry until the object changes: shown as Stalled.

    `reason` is CamelCase, `message` is for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(f"{reason}: {message}")


class RetryAfter(ReconcileError):
    """Retry after `seconds`; the condition shows `reason` and `message` meanwhile."""

    def __init__(self, seconds: float, reason: str = "Retrying", message: str = "") -> None:
        self.seconds, self.reason, self.message = seconds, reason, message
        super().__init__(f"{reason}: {message}" if message else reason)


class UndeclaredKind(ReconcileError):
    """A kind that the reconciler did not declare: there is no watch that would notice its changes."""

    @classmethod
    def of(cls, reconciler: str, kind: str, where: str) -> Self:
        return cls(f"{reconciler} uses {kind} without declaring it: add {kind} to `{where}` of the class")


class NotController(ReconcileError):
    """The child exists and is another controller's, or nobody's; it is not taken over."""

    reason: Final = "NotOurs"
    """What the condition shows."""


class SchedulingError(KonvergeError):
    """The root of what is wrong with profiles and plugins."""


class UnknownPlugin(SchedulingError):
    """A profile names a plugin that is not registered."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"unknown plugin {name!r}; known: {', '.join(self.known)}")


class InvalidPluginArgs(SchedulingError):
    """The args of a plugin do not fit its model; names the plugin, the field and the rule."""


class PluginFailed(SchedulingError):
    """A plugin raised, or answered what it must not; the attempt failed, the scheduler goes on."""

    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        super().__init__(message)


class ClusterError(KonvergeError):
    """The root of what is wrong with a local cluster."""


class ToolsMissing(ClusterError):
    """No control plane to be had; lists what was tried and what to do."""


class BuildFailed(ClusterError):
    """The control plane did not compile; shows the tail of the log."""
