"""What a field of a spec or status can say that plain Python types cannot.

Types (`Quantity`, `Duration`) and markers for `Annotated` (`ListMap`, `Cel`, `Immutable`) flow in by a user's model; the
markers leave notes in pydantic's JSON schema, which `schema` turns into the keywords of a CRD.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, GetJsonSchemaHandler, PlainSerializer, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from konverge.errors import ModelError
from konverge.model.quantity import parse_quantity

IMMUTABLE: Final = "x-konverge-immutable"
"""The note that `Immutable` leaves; it never reaches a CRD."""


@dataclass(frozen=True)
class Cel:
    """A CEL rule on a field, where `self` is its value: `Annotated[str, Cel("self.startsWith('v')", "must start with v")]`.

    `message` is what a person reads when the rule refuses. Raises: ModelError when it is empty or has line breaks.
    """

    rule: str
    message: str

    def __post_init__(self) -> None:
        check_rule(self.rule, self.message)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        rules = [*schema.get("x-kubernetes-validations", ()), {"rule": self.rule, "message": self.message}]
        return {**schema, "x-kubernetes-validations": rules}


@dataclass(frozen=True)
class Immutable:
    """The field cannot change once it is set, nor be taken away: `Annotated[str, Immutable()]`."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), IMMUTABLE: True}


class ListMap:
    """The list is keyed by fields of its items, so that several owners can each apply theirs.

    `Annotated[list[Port], ListMap("name")]`; keys are named as on the wire, and must be required or have a default.
    A list without this marker is replaced as a whole.
    """

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise ModelError('ListMap needs the fields that identify an item, as in ListMap("name")')
        self.keys = keys

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            **handler(core),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(self.keys),
        }


def check_rule(rule: str, message: str) -> None:
    """Check the text of a CEL rule. Raises: ModelError."""
    if not rule.strip():
        raise ModelError("a CEL rule is empty; write an expression about self")
    if not message.strip() or "\n" in message:
        raise ModelError(f"CEL rule {rule!r}: give a message of one line that says what a person should write instead")


def _quantity_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked_quantity(value: str) -> str:
    parse_quantity(value)
    return value


Quantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    AfterValidator(_checked_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 64,
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$",
        }
    ),
]
"""An amount such as `500m` or `10Gi`, kept as the text that a person wrote (an integer becomes its digits).

`quantity.parse_quantity` gives its value. The CRD's pattern takes what the API machinery takes, with exponents of two
digits at most.
"""

_UNITS: Final = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
_LONGEST: Final = 999_999_999
"""The number of a unit that the CRD's pattern takes at once."""
_LENGTH = re.compile(r"([0-9]+)(ms|h|m|s)", re.ASCII)
_LENGTHS = re.compile(r"(?:[0-9]+(?:ms|h|m|s))+", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Read `1h30m`, `90s`, `250ms` (at most 64 characters). Raises: ValueError."""
    if len(text) > _MAX_DURATION or _LENGTHS.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is no duration; write it like 1h30m, 90s or 250ms")
    micros = sum(int(number) * _UNITS[unit] for number, unit in _LENGTH.findall(text))
    try:
        return timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(f"{text!r} is too long for a duration") from None


def format_duration(duration: timedelta) -> str:
    """Write a duration in the form that `parse_duration` reads; less than a millisecond is cut off.

    Raises: ValueError when it is negative.
    """
    if duration < timedelta():
        raise ValueError(f"{duration} is negative; a duration cannot be")
    rest = duration // timedelta(milliseconds=1) * 1_000
    parts = []
    for unit, micros in _UNITS.items():
        number, rest = divmod(rest, micros)
        while number > _LONGEST:
            parts.append(f"{_LONGEST}{unit}")
            number -= _LONGEST
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


_MAX_DURATION: Final = 64

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 32, "pattern": r"^([0-9]{1,9}(ms|h|m|s))+$"}),
]
"""A length of time, `1h30m` on the wire and a `timedelta` in Python."""
