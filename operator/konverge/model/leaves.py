"""The leaves of a schema: nodes of pydantic's JSON schema for strings, numbers and enums flow in, structural ones flow out."""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from konverge.errors import ModelError
from konverge.model.patterns import trouble

Schema = dict[str, Any]
Node = Mapping[str, Any]

NO_LIST: Final[Mapping[str, int]] = {"minItems": 1, "maxItems": 0}
"""Stands beside a format: the server skips the check of a string's type then and would take any list."""
_DAY: Final = "^(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
_OCTET: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_DOTTED: Final = rf"({_OCTET}\.){{3}}{_OCTET}"
_FORMATS: Final[Mapping[str, Schema]] = {
    "date-time": {"pattern": _DAY + _TIME},
    "date": {"pattern": _DAY + "$"},
    "uuid": {},
    "ipv4": {"pattern": rf"^{_DOTTED}$"},
    "ipv6": {"pattern": rf"^[0-9A-Fa-f:]+(:{_DOTTED})?$"},
}
"""The formats on which the server and pydantic agree, with what it takes to agree: no year 0, no offset of 99 hours, no
leading zeros in addresses and no zone behind them."""
_MEANINGLESS_FORMATS: Final = frozenset({"path"})
BOUNDS: Final = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_LIMIT: Final = 2**63
"""The server keeps bounds as floats, and integers in 64 bits."""
_SCALARS: Final[Mapping[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def refuse(path: str, rule: str, way_out: str = "") -> NoReturn:
    """Say that the field at `path` breaks `rule`, and what to write instead. Raises: ModelError."""
    raise ModelError(f"{path}: {rule}" + (f"; {way_out}" if way_out else ""))


def bounds_of(node: Node) -> Schema:
    """The bounds on length that mean the same on both sides."""
    return {key: node[key] for key in BOUNDS if key in node}


def string_of(node: Node, path: str) -> Schema:
    """A string with its bounds, pattern and format. Raises: ModelError."""
    result: Schema = {"type": "string", **bounds_of(node)}
    kind = node.get("format", "")
    if kind in _FORMATS:
        result |= {"format": kind, **NO_LIST, **_FORMATS[kind]}
    elif kind and kind not in _MEANINGLESS_FORMATS:
        refuse(
            path,
            f"the server checks the format {kind} differently or not at all",
            "use str with a pattern, or a Cel rule",
        )
    if "pattern" in node:
        result["pattern"] = pattern_of(node["pattern"], path)
    return result


def pattern_of(pattern: str, path: str) -> str:
    """The pattern itself, if the server reads it as the model does. Raises: ModelError."""
    if found := trouble(pattern):
        refuse(path, *found)
    return pattern


def number_of(node: Node, path: str, *, floats: bool) -> Schema:
    """An integer, or a number where `floats` allows it; a strict bound is a bound and a boolean. Raises: ModelError."""
    if node["type"] == "number" and not floats:
        refuse(path, "a float in a spec does not survive a round trip", "use an int in a smaller unit, or Quantity")
    result: Schema = {"type": node["type"]}
    for plain, strict, tighter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        bounds = [node[key] for key in (plain, strict) if key in node]
        if bounds:
            bound = tighter(bounds)
            _check_bound(bound, path)
            result[plain] = int(bound) if bound == int(bound) else bound
            if strict in node and node[strict] == bound:
                result[strict] = True
    if "multipleOf" in node:
        factor = node["multipleOf"]
        if node["type"] != "integer" or factor != int(factor):
            refuse(path, f"multiple_of={factor} is for integers only", "count in a smaller unit, as an int")
        _check_bound(factor, path)
        result["multipleOf"] = int(factor)
    return result


def _check_bound(bound: float, path: str) -> None:
    if abs(bound) >= _LIMIT or float(bound) != bound:
        refuse(
            path, f"the server reads the bound {bound} as {float(bound):.0f}", "choose a rounder one, or leave it out"
        )


def enum_of(node: Node, path: str, *, floats: bool) -> Schema:
    """An enum with the type of its values. Raises: ModelError."""
    values = node.get("enum", [node.get("const")])
    types = {_SCALARS.get(type(value), "") for value in values}
    if len(types) != 1 or "" in types:
        refuse(path, f"the values {values} are not of one plain type", "use strings only")
    if types == {"number"} and not floats:
        refuse(path, f"the values {values} are floats, which do not survive a round trip", "use strings only")
    return {"type": types.pop(), "enum": list(values)}
