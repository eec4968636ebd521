"""Random types for the fields of models, each with what a manifest may say there: chance flows in, shapes flow out.

Bounds are small and choices few: what is made shall meet its bounds and its own kind often.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from hypothesis import strategies as st
from pydantic import AwareDatetime, Field

from konverge.model.custom import Part
from konverge.model.fields import Duration, Quantity

Values = st.SearchStrategy[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Color(Enum):
    """A colour."""

    RED = "Red"
    BLUE = "Blue"
    NONE = ""


class Level(Enum):
    """A number by name."""

    LOW = 1
    HIGH = 10


class Tree(Part):
    """A node with nodes below."""

    name: str = Field(max_length=10)
    weight: int = Field(default=1, ge=0)
    children: list["Tree"] = Field(default=[], max_length=3)


@dataclass(frozen=True)
class Shape:
    """A type for a field, and a strategy for what a manifest may say there."""

    annotation: Any
    values: Values
    rule: str = ""
    """A CEL rule that holds for all of `values`."""
    column: str = ""
    """The type of a printer column for it."""
    comparable: bool = True
    """Whether the server can tell whether it changed."""
    time: bool = False


_TEXTS: Final = st.text(alphabet="ab9 Zé\n\u0663\u00a0\U0001f600", max_size=8)
_PATTERNS: Final[Sequence[tuple[str, Values]]] = (
    ("^[a-z]{1,5}$", st.text(alphabet="abz", min_size=1, max_size=5)),
    ("b+", st.sampled_from(["b", "abba", "\nb\n"])),
    (r"^\d{1,3}$", st.sampled_from(["0", "123"])),
    (r"^[^/]*$", st.sampled_from(["", "é", "a b"])),
    (r"^\w+(\s\w+)?$", st.sampled_from(["a", "a b"])),
    (r"^\pL+\.?$", st.sampled_from(["a", "éa."])),
    ("^(?i)kelvin$", st.sampled_from(["kelvin", "KELVIN"])),
    ("^[[:alpha:]]$", st.sampled_from(["a", "Z"])),
    ("^(?P<first>a|b)(?:c{0,3})?$", st.sampled_from(["a", "bccc"])),
    (r"^[-+]?[0-9]+(\.[0-9]*)?(%|\$)?$", st.sampled_from(["1", "-1.5%", "7$"])),
)
_NUMBERS: Final = (int, Annotated[int, Field(ge=0)], Annotated[int, Field(gt=0, lt=50)])
_PERCENTS: Final = (str, Annotated[str, Field(max_length=4)], Annotated[str, Field(pattern="^[0-9]+%$")])


def of(generic: Any, *arguments: Any) -> Any:
    """A generic type of types that are known at run time only: `of(dict, str, item)` is `dict[str, item]`."""
    return generic[arguments if len(arguments) > 1 else arguments[0]]


def bounded(annotation: Any, least: int | None, most: int | None) -> Any:
    """The type with bounds on its length; a bound that is None is left out."""
    bounds: Any = {"min_length": least, "max_length": most}
    return Annotated[annotation, Field(**{name: bound for name, bound in bounds.items() if bound is not None})]


@st.composite
def _integers(draw: Draw) -> Shape:
    low, high = draw(st.none() | st.integers(-9, 3)), draw(st.none() | st.integers(10, 20))
    factor, strict = draw(st.sampled_from([None, None, 2, 5])), draw(st.booleans())
    bounds: Any = {"gt" if strict else "ge": low, "lt" if strict else "le": high, "multiple_of": factor}
    step = factor or 1
    least = -30 if low is None else low + strict
    most = 30 if high is None else high - strict
    values = st.integers(math.ceil(least / step), most // step).map(lambda number: number * step)
    annotation = Annotated[int, Field(**{name: bound for name, bound in bounds.items() if bound is not None})]
    return Shape(annotation, values, "self != 987654", "integer")


@st.composite
def _strings(draw: Draw) -> Shape:
    least, most = draw(st.sampled_from([None, 0, 1, 2])), draw(st.sampled_from([None, 4, 8]))
    values = _TEXTS.filter(lambda text: (least or 0) <= len(text) <= (most or 8))
    return Shape(bounded(str, least, most), values, "self != 'bad'", "string")


@st.composite
def _patterned(draw: Draw) -> Shape:
    pattern, values = draw(st.sampled_from(_PATTERNS))
    return Shape(Annotated[str, Field(pattern=pattern)], values, "self != 'bad'", "string")


@st.composite
def _literals(draw: Draw) -> Shape:
    words, numbers = st.sampled_from(["a", "B", "y", "on", "1", "é", ""]), st.sampled_from([0, 1, -5, 100])
    values = draw(
        st.lists(words, min_size=1, max_size=3, unique=True)
        | st.lists(numbers, min_size=1, max_size=3, unique=True)
        | st.just([True])
    )
    return Shape(Literal[tuple(values)], st.sampled_from(values))


@st.composite
def _int_or_string(draw: Draw) -> Shape:
    annotation = draw(st.sampled_from(_NUMBERS)) | draw(st.sampled_from(_PERCENTS))
    return Shape(annotation, st.integers(1, 30) | st.sampled_from(["1%", "25%"]))


_FIXED: Final = (
    Shape(bool, st.booleans(), column="boolean"),
    Shape(Color, st.sampled_from(["Red", "Blue", ""])),
    Shape(Level, st.sampled_from([1, 10])),
    Shape(Quantity, st.sampled_from(["1Gi", "500m", 2, "0", "1e3", ".5", "-1.5Ki", 0])),
    Shape(Duration, st.sampled_from(["1h30m", "90s", "250ms", "0s", "2h2h", "999999999h999999999h"])),
    Shape(
        AwareDatetime,
        st.sampled_from(["2026-02-28T23:59:59Z", "2026-02-28t01:02:03.123456+05:30", "1970-01-01T00:00:00-11:59"]),
        time=True,
    ),
    Shape(date, st.sampled_from(["2026-02-28", "0001-01-01", "9999-12-31"]), time=True),
    Shape(UUID, st.sampled_from(["00000000-0000-0000-0000-00000000000a", "12345678-1234-5678-1234-567812345678"])),
    Shape(IPv4Address, st.sampled_from(["10.0.0.1", "0.0.0.0", "255.255.255.255"])),
    Shape(IPv6Address, st.sampled_from(["::", "fe80::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"])),
)
plain: Final[st.SearchStrategy[Shape]] = st.one_of(
    _integers(), _strings(), _patterned(), _literals(), _int_or_string(), st.sampled_from(_FIXED)
)
"""What may stand in a set."""

_JSON: Final = st.recursive(
    st.booleans() | st.integers(-5, 5) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
_OBJECTS: Final = st.dictionaries(st.sampled_from("abc"), _JSON, max_size=2)
_TREES: Final = st.recursive(
    st.fixed_dictionaries({"name": st.just("n")}, optional={"weight": st.integers(0, 3)}),
    lambda inner: st.fixed_dictionaries({"name": st.just("m"), "children": st.lists(inner, max_size=2)}),
    max_leaves=3,
)
free: Final = st.sampled_from(
    (
        Shape(Any, _JSON, comparable=False),
        Shape(dict[str, Any], _OBJECTS, comparable=False),
        Shape(Tree, _TREES, comparable=False),
    )
)
"""What the server does not look into, or not wholly."""
floats: Final = st.just(Shape(Annotated[float, Field(gt=-0.5, le=8)], st.sampled_from([0, 0.5, 8.0, 1e-9])))
"""What only a status may hold."""
