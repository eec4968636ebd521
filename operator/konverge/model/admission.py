"""What an admission hook sees and says: a request flows in, problems flow out; and how a hook is declared.

The hooks are methods of the custom resource (`validate`, `validate_delete`, `default`; see `CustomResource`). They decide
by the object alone: they must not wait, and there is no API to ask. `model/review` calls them, `model/webhooks` registers
them with the API server.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from konverge.errors import ModelError

FailurePolicy = Literal["Fail", "Ignore"]
Operation = Literal["CREATE", "UPDATE", "DELETE"]

MAX_TIMEOUT: Final = 5
"""Seconds that a write may have to wait for a hook. Kubernetes allows 30: nobody would know what hangs."""

F = TypeVar("F", bound=Callable[..., Any])
_DECLARED: Final = "__konverge_hook__"
_WARNING: Final = "Warning"
_TEXTS: Final = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
}


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks for what. `dry_run` asks for the same answer; nothing will be stored."""

    operation: Operation
    user: str
    groups: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an object is refused, in the API server's own form: `spec.replicas: Invalid value: 7: must be odd`.

    Or, made by `warning`, what its author should know although it is taken.

    `field` is the path in the manifest, `rule` what it must be. The value is shown to whoever wrote it: for one that is
    secret use `forbidden`, which shows none.
    """

    field: str
    value: Any
    rule: str
    reason: str = "FieldValueInvalid"

    @classmethod
    def forbidden(cls, field: str, rule: str) -> "Problem":
        """The field, or its change, is not allowed, whatever the value."""
        return cls(field, None, rule, "FieldValueForbidden")

    @classmethod
    def required(cls, field: str, rule: str) -> "Problem":
        """The field is missing."""
        return cls(field, None, rule, "FieldValueRequired")

    @classmethod
    def warning(cls, field: str, text: str) -> "Problem":
        """The object is taken, and whoever wrote it is told: kubectl prints `Warning: spec.replicas: one is no spare`."""
        return cls(field, None, text, _WARNING)

    @property
    def refuses(self) -> bool:
        """Whether the object is refused for it."""
        return self.reason != _WARNING

    @property
    def body(self) -> str:
        """All but the field: `Invalid value: 7: must be odd`."""
        if not self.refuses:
            return self.rule
        shown = f": {json.dumps(self.value, ensure_ascii=False)}" if self.reason == "FieldValueInvalid" else ""
        return f"{_TEXTS[self.reason]}{shown}: {self.rule}"

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How the API server calls a hook: see `hook`."""

    on_failure: FailurePolicy | None = None
    timeout: int = MAX_TIMEOUT
    when: str | None = None


def hook(
    *, on_failure: FailurePolicy | None = None, timeout: int = MAX_TIMEOUT, when: str | None = None
) -> Callable[[F], F]:
    """Say how the API server calls the hook below, where the defaults do not fit.

    `on_failure` is for when no answer comes: "Fail" refuses the write (what validation does by default), "Ignore" lets it
    pass (what defaulting does). `timeout` is in whole seconds, 1 to 5. `when` is a CEL expression over `object`,
    `oldObject` and `request`: where it is false, the hook is not called, so that such writes never depend on it.

    Raises: ModelError for options that cannot be.
    """
    if on_failure not in {None, "Fail", "Ignore"}:
        raise ModelError(f'on_failure must be "Fail" or "Ignore", not {on_failure!r}')
    if timeout not in range(1, MAX_TIMEOUT + 1):
        raise ModelError(f"a hook's timeout is a whole number of seconds from 1 to {MAX_TIMEOUT}, not {timeout!r}")
    options = HookOptions(on_failure, timeout, when)

    def declare(method: F) -> F:
        setattr(method, _DECLARED, options)
        return method

    return declare


def options_of(method: Any) -> HookOptions:
    """What `hook` has said of a method; the defaults where it was not used."""
    declared = getattr(method, _DECLARED, None)
    return declared if isinstance(declared, HookOptions) else HookOptions()
