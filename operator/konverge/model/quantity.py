"""Quantities: `500m` CPUs, `0.5Gi` of memory. Text or numbers flow in, exact fractions and integers flow out.

The grammar and the rounding are the API machinery's: a fraction of a unit rounds up, so that a request is never counted
as less than it is. Nothing is capped to 64 bits: `50E` stays larger than any node.
"""

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern that `controller-gen` puts beside a quantity in a CRD. It skips integers; it is RE2."""

_FORM = re.compile(r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<suffix>.*)", re.ASCII | re.DOTALL)
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = Fraction(1, 10**9)
_MAX_POWER: Final = 100
"""More would let a short text such as `1e999999999` fill the memory; no amount of anything needs it."""

Quantity = str | int | float | Fraction
"""What a quantity may arrive as: the text or number of a manifest, or a value parsed already."""


def parse_quantity(quantity: Quantity) -> Fraction:
    """The exact value of a quantity, in its unit (cores, bytes, pieces).

    Digits below a nano unit round away from zero, as on the server. Raises: ValueError that says what is wrong.
    """
    if isinstance(quantity, Fraction):
        return quantity
    if isinstance(quantity, str):
        return _parse_text(quantity)
    if isinstance(quantity, bool) or not math.isfinite(quantity):
        raise ValueError(f"{quantity!r} is no quantity: write a number, or a text such as 500m or 1Gi")
    return Fraction(quantity) if isinstance(quantity, int) else _parse_text(repr(quantity))


def to_milli(quantity: Quantity) -> int:
    """The value in thousandths of the unit, rounded up: `1` is 1000, `1n` is 1. Raises: ValueError."""
    return math.ceil(parse_quantity(quantity) * 1000)


def to_value(quantity: Quantity) -> int:
    """The value in whole units, rounded up: `1500m` is 2. May exceed 64 bits. Raises: ValueError."""
    return math.ceil(parse_quantity(quantity))


def same_quantity(a: Quantity, b: Quantity) -> bool:
    """Whether both mean the same amount: `1000m` and `1` do. What is no quantity is the same only as itself."""
    try:
        return parse_quantity(a) == parse_quantity(b)
    except ValueError:
        return type(a) is type(b) and a == b


def format_quantity(value: Quantity, *, binary: bool = False) -> str:
    """The canonical text: the largest suffix that leaves an integer, of `Ki`, `Mi`, ... when `binary`, else `k`, `M`, ...

    A value with a fraction is written with a decimal suffix in either case. Raises: ValueError.
    """
    amount = parse_quantity(value)
    if binary and amount.denominator == 1:
        units = {suffix: Fraction(2**power) for suffix, power in _BINARY.items()} | {"": Fraction(1)}
    else:
        units = {suffix: Fraction(10) ** power for suffix, power in _DECIMAL.items()}
        amount = _round_to_nano(amount)
    if amount == 0:
        return "0"
    for suffix, unit in sorted(units.items(), key=lambda item: item[1], reverse=True):
        scaled = amount / unit
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    raise AssertionError("every amount is a whole number of the smallest unit")


@lru_cache(maxsize=4096)  # the same few texts come with every pod
def _parse_text(text: str) -> Fraction:
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(
            f"{text!r} is no quantity: write a number with an optional suffix, such as 2, 500m, 1.5 or 1Gi"
        )
    number, suffix = Fraction(form["number"]), form["suffix"]
    if suffix in _BINARY:
        return _round_to_nano(number * 2 ** _BINARY[suffix])
    return _round_to_nano(number * Fraction(10) ** _power(text, suffix))


def _power(text: str, suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        hint = "; write k for 1000 or Ki for 1024" if suffix == "K" else ""
        known = " ".join([*filter(None, _DECIMAL), *_BINARY])
        raise ValueError(
            f"{text!r} is no quantity: unknown suffix {suffix!r}{hint} (known: {known}, or an exponent such as e3)"
        )
    digits = exponent["power"].lstrip("+-0")
    if len(digits) > len(str(_MAX_POWER)) or int(digits or "0") > _MAX_POWER:
        raise ValueError(
            f"{text[:20]!r} is no quantity that fits: the exponent must be between -{_MAX_POWER} and {_MAX_POWER}"
        )
    return int(exponent["power"])


def _round_to_nano(value: Fraction) -> Fraction:
    nanos = value / _NANO
    if nanos.denominator == 1:
        return value
    return (math.ceil(nanos) if nanos > 0 else math.floor(nanos)) * _NANO
