"""CEL in schemas: notes of immutable fields flow in, `x-kubernetes-validations` flow out; costs that explode are refused."""

import re
from typing import Any, Final

from konverge.errors import ModelError
from konverge.model.fields import IMMUTABLE

Schema = dict[str, Any]
VALIDATIONS: Final = "x-kubernetes-validations"

_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def cel_name(name: str) -> str:
    """How a field is called in an expression: `namespace` is `__namespace__`, `a-b` is `a__dash__b`."""
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


def _readable(name: str, path: str) -> str:
    field = cel_name(name)
    if _IDENTIFIER.fullmatch(field) is None:
        raise ModelError(f"{path}: CEL cannot read a field of this name; give it an alias of letters, digits and -")
    return field


def add_rule(schema: Schema, rule: str, message: str) -> None:
    """Append a rule to a schema."""
    schema.setdefault(VALIDATIONS, []).append({"rule": rule, "message": message})


def seal(schema: Schema, path: str, unbounded: str = "") -> bool:
    """Turn the notes of immutable fields below `schema` into rules, in place; say whether there were any.

    `self == oldSelf` alone is bypassed by unsetting the field, since no rule runs on what is absent. So every object on
    the way down also refuses that an optional field which holds an immutable value goes away.

    `unbounded` names the nearest list or map above that has no bound: the server estimates a rule's cost by the largest
    number of items that fits into a request, and refuses the CRD. Raises: ModelError.
    """
    if unbounded and schema.get(VALIDATIONS):
        raise ModelError(
            f"{path}: a CEL rule below {unbounded}, which has no bound, exceeds the server's cost limit; "
            "give that field a max_length"
        )
    found = False
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        immutable = child.pop(IMMUTABLE, False)
        if immutable:
            _check_comparable(child, where)
            add_rule(child, "self == oldSelf", f"{name} cannot be changed once it is set")
        if seal(child, where, unbounded) or immutable:
            found = True
            if name not in required and "default" not in child:
                field = _readable(name, where)
                add_rule(
                    schema, f"!has(oldSelf.{field}) || has(self.{field})", f"{name} cannot be removed once it is set"
                )
    for key, bound in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        if key in schema:
            _seal_inside(schema, key, path, unbounded if bound in schema else path)
    return found


def _seal_inside(schema: Schema, key: str, path: str, unbounded: str) -> None:
    child, where = schema[key], f"{path}[]"
    found = bool(child.pop(IMMUTABLE, False))
    if found:
        _check_comparable(child, where)
        add_rule(child, "self == oldSelf", "cannot be changed once it is set")
    if (seal(child, where, unbounded) or found) and key == "items" and schema.get("x-kubernetes-list-type") != "map":
        raise ModelError(
            f"{where}: the items of this list have no identity over an update, so that none can be immutable; "
            "key the list with ListMap, or make the whole list immutable"
        )


def _check_comparable(schema: Schema, path: str) -> None:
    """Refuse what the server cannot compare, here and below. Raises: ModelError."""
    inside = schema.get("items", {})
    if schema.get("x-kubernetes-list-type") == "set" and inside.get("format") in {"date", "date-time"}:
        # CEL compares the times of one side with the texts of the other.
        raise ModelError(
            f"{path}: the server takes a set of times for changed when it is not; use a list to be immutable"
        )
    if schema.get("type") == "object" and schema.get("x-kubernetes-preserve-unknown-fields"):
        raise ModelError(
            f"{path}: the server does not notice when one unknown field takes the place of another, so that this cannot be "
            "immutable; declare the fields, or say Any inside of a Part that is immutable"
        )
    for name, child in schema.get("properties", {}).items():
        _check_comparable(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            _check_comparable(schema[key], f"{path}[]")
