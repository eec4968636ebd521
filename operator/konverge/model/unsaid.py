"""What pydantic checks and leaves out of its JSON schema: a core schema and the JSON from it flow in, a refusal flows out.

A bound that never reaches the CRD lets the server take what the model then refuses to read, each time anew. So it is an
error of the model, and told with the form that does reach the server.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

CoreSchema = Mapping[str, Any]

_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_TIMES: Final = frozenset({"date", "datetime", "time", "timedelta"})
_COMPARED: Final = ("gt", "ge", "lt", "le", "now_op")
_LAX_ONLY: Final = frozenset({*_TIMES, "uuid", "enum", "set", "frozenset", "tuple", "is-instance", "bytes", "url"})
"""What JSON has no value for, so that pydantic must be allowed to make it from a text or a list."""
_ONE_FORM: Final = frozenset({"str", "int", "bool", "literal", "enum"})
_CASES: Final = ("strip_whitespace", "to_lower", "to_upper")
_CEL: Final = "say it with a Cel rule"


def unsaid(schema: CoreSchema, result: Mapping[str, Any]) -> str:
    """What of a core schema the JSON does not say, and the way out; empty where it says all."""
    return next(filter(None, (_lacks(each, result) for each in _layers(schema))), "")


def _lacks(schema: CoreSchema, result: Mapping[str, Any]) -> str:
    kind = schema["type"]
    problem = ""
    if kind == "chain":
        problem = f"a pattern on what is not a plain str does not reach the server; put it on the str itself, or {_CEL}"
    elif kind == "function-after" and (bound := _lost(schema, result)):
        problem = (
            f"the bound {bound} does not reach the server here; put it next to a plain str, int or list, or {_CEL}"
        )
    elif kind in _TIMES and any(key in schema for key in _COMPARED):
        problem = (
            f"the server cannot compare a {kind}; {_CEL}, such as timestamp(self) > timestamp('2026-01-01T00:00:00Z')"
        )
    elif schema.get("strict") and kind in _LAX_ONLY:
        problem = f"a strict {kind} refuses all that JSON can say; leave strict out"
    elif kind == "str" and schema.get("strip_whitespace") and {"minLength", "pattern"} & set(result):
        problem = "the model checks the text after stripping it, the server before; leave strip_whitespace out"
    elif kind in {"set", "frozenset"} and schema.get("min_length", 0) > 1 and not _one_form(schema.get("items_schema")):
        problem = (
            "items that are written differently can be equal, so that the model counts fewer; "
            "use a list, or a smaller min_length"
        )
    return problem


def _layers(schema: CoreSchema) -> Iterator[CoreSchema]:
    """A schema and those in its functions, which pydantic describes by the innermost or not at all."""
    yield schema
    while schema["type"].startswith("function-") and "schema" in schema:
        schema = schema["schema"]
        yield schema


def _lost(schema: CoreSchema, result: Mapping[str, Any]) -> str:
    """A bound that pydantic put around a type, where the JSON does not have it: a number's never, a length's often."""
    function = schema["function"]["function"]
    if not isinstance(function, partial) or not function.func.__module__.startswith("pydantic."):
        return ""
    for name, value in function.keywords.items():
        edge, _, length = name.partition("_")
        of = _LENGTHS.get(str(result.get("type")))
        if length != "length" or result.get(f"{edge}{of}") != value:
            return f"{name}={value!r}"
    return ""


def _one_form(items: CoreSchema | None) -> bool:
    if items is None:
        return False
    if items["type"] == "union":
        return all(_one_form(choice) for choice in items["choices"] if isinstance(choice, Mapping))
    return items["type"] in _ONE_FORM and not any(items.get(key) for key in _CASES)
