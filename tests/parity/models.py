"""Random models: chance flows in, classes of custom resources flow out, with a strategy for the specs they must take."""

import secrets
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Annotated, Any, Final, Literal, Union

from hypothesis import strategies as st
from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.alias_generators import to_camel

from konverge.model.crd import ResourceClass
from konverge.model.custom import Column, CustomResource, Part, Spec, Status
from konverge.model.fields import Cel, Immutable, ListMap
from tests.parity.shapes import Draw, Shape, Values, bounded, floats, free, of, plain

GROUP: Final = f"m{secrets.token_hex(3)}.example.dev"
"""A group for each run, so that runs on one cluster do not meet."""
NAMES: Final = (
    "size", "y", "namespace", "max_count", "default", "type", "properties", "items", "required", "enum", "label", "on",
    "a_b2_c", "spec", "metadata", "ref", "x1", "null", "status",
)  # fmt: skip
_ALIASES: Final = ("in", "a-b.c/d__e", "X", "-", "snake_case", "a" * 40)
_UNREADABLE: Final = ("$ref", "0", "with space", "é", "")
"""Names that CEL cannot read, so that nothing there is immutable."""
_MAX_DEPTH: Final = 2
_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, set(), ())
"""Defaults that mean the same as nothing."""


class Loose(Part):
    """Takes more than it declares."""

    model_config = ConfigDict(extra="allow")


class Closed(Part):
    """Takes nothing more."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Place:
    """Where a field stands: how deep, whether floats are allowed, and which markers the server takes there."""

    depth: int = 0
    floats: bool = False
    rules: bool = True
    immutable: bool = True

    def below(self, *, rules: bool = True, immutable: bool = True) -> "Place":
        """One level further down, where perhaps less is taken."""
        return replace(self, depth=self.depth + 1, rules=self.rules and rules, immutable=self.immutable and immutable)


@dataclass(frozen=True)
class Member:
    """One field of a model."""

    name: str
    wire: str
    annotation: Any
    default: Any
    values: Values
    column: str
    immutable: bool
    comparable: bool = True

    @property
    def required(self) -> bool:
        return self.default is ...


@dataclass(frozen=True)
class Model:
    """A resource and the specs and statuses that it must take.

    Named as on the wire: the fields of the spec that are `immutable`, and those that have a default worth writing.
    """

    cls: ResourceClass
    specs: Values
    statuses: Values
    immutable: tuple[str, ...]
    defaulted: tuple[str, ...]


_numbers: Final = count()


def _class(base: Any, members: Sequence[Member]) -> Any:
    fields: dict[str, Any] = {
        each.name: (each.annotation, Field(default=each.default, alias=each.wire)) for each in members
    }
    return create_model(f"{base.__name__}{next(_numbers)}", __base__=base, **fields)


def _values(members: Sequence[Member]) -> Values:
    required = {each.wire: each.values for each in members if each.required}
    return st.fixed_dictionaries(required, optional={each.wire: each.values for each in members if not each.required})


def _comparable(members: Sequence[Member]) -> bool:
    return all(each.comparable for each in members)


@st.composite
def _members(draw: Draw, place: Place, least: int, most: int) -> list[Member]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=least, max_size=most, unique=True))
    aliases = iter(draw(st.permutations(_ALIASES if place.immutable else _ALIASES + _UNREADABLE)))
    return [
        draw(_member(name, next(aliases) if draw(st.integers(0, 5)) == 0 else to_camel(name), place)) for name in names
    ]


@st.composite
def _member(draw: Draw, name: str, wire: str, place: Place) -> Member:
    shape = draw(_shape(place))
    annotation, immutable = shape.annotation, place.immutable and shape.comparable and draw(st.integers(0, 4)) == 0
    if shape.rule and place.rules and draw(st.integers(0, 2)) == 0:
        annotation = Annotated[annotation, Cel(shape.rule, "must be another value")]
    if immutable:
        annotation = Annotated[annotation, Immutable()]
    presence = draw(st.sampled_from(["required", "optional", "default"]))
    default: Any = ...
    if presence == "optional":
        annotation, default = annotation | None, None
    if presence == "default":
        default = TypeAdapter(annotation).validate_python(draw(shape.values))
    return Member(name, wire, annotation, default, shape.values, shape.column, immutable, shape.comparable)


def _shape(place: Place) -> st.SearchStrategy[Shape]:
    ends = [plain, plain, free] + [floats] * place.floats
    if place.depth >= _MAX_DEPTH:
        return st.one_of(ends)
    return st.one_of(*ends, _part(place), _list(place), _set(), _map(place), _union(place), _keyed(place))


@st.composite
def _part(draw: Draw, place: Place) -> Shape:
    members = draw(_members(place.below(), 1, 4))
    base = draw(st.sampled_from([Part, Loose, Closed]))
    comparable = base is not Loose and _comparable(members)
    return Shape(_class(base, members), _values(members), comparable=comparable)


@st.composite
def _list(draw: Draw, place: Place) -> Shape:
    least, most = draw(st.sampled_from([None, 1])), draw(st.sampled_from([None, 3]))
    item = draw(_shape(place.below(rules=most is not None, immutable=False)))
    annotation = draw(st.sampled_from([of(list, item.annotation), of(tuple, item.annotation, ...)]))
    return Shape(
        bounded(annotation, least, most),
        st.lists(item.values, min_size=least or 0, max_size=most or 3),
        comparable=item.comparable,
    )


@st.composite
def _set(draw: Draw) -> Shape:
    most, item = draw(st.sampled_from([None, 3])), draw(plain)
    annotation = draw(st.sampled_from([of(set, item.annotation), of(frozenset, item.annotation)]))
    values = st.lists(item.values, max_size=most or 3, unique_by=str)
    return Shape(bounded(annotation, None, most), values, comparable=not item.time)


@st.composite
def _map(draw: Draw, place: Place) -> Shape:
    least, most = draw(st.sampled_from([None, 1])), draw(st.sampled_from([None, 3]))
    value = draw(_shape(place.below(rules=most is not None, immutable=most is not None)))
    values = st.dictionaries(
        st.sampled_from(["a", "b.c/d", "", "max_count"]), value.values, min_size=least or 0, max_size=3
    )
    return Shape(bounded(of(dict, str, value.annotation), least, most), values, comparable=value.comparable)


@st.composite
def _union(draw: Draw, place: Place) -> Shape:
    """A discriminated union; the branches share a field, and have others of their own."""
    shared = draw(_member("shared", "shared", replace(place.below(), depth=_MAX_DEPTH)))
    branches: list[Any] = []
    values: list[Values] = []
    comparable = True
    bases = [Part, draw(st.sampled_from([Loose, Closed]))]
    for number in range(draw(st.integers(2, 3))):
        tags = [f"B{number}", f"C{number}"][: draw(st.integers(1, 2))]
        tag_default = draw(st.sampled_from([..., tags[0]]))
        tag = Member("kind_of", "kindOf", Literal[tuple(tags)], tag_default, st.sampled_from(tags), "", immutable=False)
        own = draw(_members(place.below(), 0, 2))
        renamed = [replace(each, name=f"{each.name}_{number}", wire=f"{each.wire}{number}") for each in own]
        members = [tag, *renamed, *([shared] if draw(st.booleans()) else [])]
        branches.append(_class(draw(st.sampled_from(bases)), members))
        comparable = comparable and Loose not in bases and _comparable(members)
        values.append(_values([replace(tag, default=...), *members[1:]]))
    union: Any = Union[tuple(branches)]  # noqa: UP007 - of a tuple
    return Shape(Annotated[union, Field(discriminator="kind_of")], st.one_of(values), comparable=comparable)


@st.composite
def _keyed(draw: Draw, place: Place) -> Shape:
    most = draw(st.sampled_from([None, 3]))
    inside = place.below(rules=most is not None, immutable=most is not None)
    keys, rest = st.sampled_from(["a", "b", "c"]), draw(_members(inside, 0, 2))
    key = Member("key_name", "keyName", bounded(str, 1, 9), ..., keys, "", immutable=False)
    item = _class(Part, [key, *rest])
    annotation: Any = Annotated[bounded(of(list, item), None, most), ListMap("keyName")]
    values = st.lists(_values([key, *rest]), max_size=3, unique_by=lambda value: value["keyName"])
    return Shape(annotation, values, comparable=_comparable(rest))


@st.composite
def models(draw: Draw) -> Model:
    """A resource with a spec of up to ten fields, and a status of up to three."""
    spec = draw(_members(Place(), 3, 10))
    status = draw(_members(Place(depth=1, floats=True, rules=False, immutable=False), 0, 3))
    status = [each for each in status if not each.required]
    bases: Any = CustomResource
    parts = (_class(Spec, spec), _class(Status, status))
    columns = [
        Column(each.name, f".spec.{each.wire}", each.column) for each in spec if each.column and each.wire.isalnum()
    ]
    kind = f"Model{next(_numbers)}"
    cls = types.new_class(kind, (bases[parts],), {"group": GROUP, "version": "v1", "columns": columns})
    immutable = tuple(each.wire for each in spec if each.immutable)
    defaulted = tuple(each.wire for each in spec if not each.required and each.default not in _EMPTY)
    return Model(cls, _values(spec), _values(status), immutable, defaulted)
