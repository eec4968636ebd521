"""Each shape of a model has one form in a structural schema, or is refused by field, rule and way out."""

# ruff: noqa: RUF012, PYI061 - pydantic copies mutable defaults; Literal[..., None] is a form under test

import random
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import AnyUrl, AwareDatetime, BaseModel, ConfigDict, Discriminator, Field, SecretStr, Tag

from konverge.errors import ModelError
from konverge.model.custom import Part, Spec
from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity
from konverge.model.schema import structural


def spec_with(annotation: Any, default: Any = ..., config: ConfigDict | None = None) -> type[Spec]:
    """A spec with one field, `field`."""
    namespace = {"__annotations__": {"field": annotation}, "__module__": __name__}
    if default is not ...:
        namespace["field"] = default
    if config is not None:
        namespace["model_config"] = config
    return type("Sample", (Spec,), namespace)


def form(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The schema of one field of that type."""
    found: dict[str, Any] = structural(spec_with(annotation, default), "spec")["properties"]["field"]
    return found


def refusal(annotation: Any, default: Any = ..., config: ConfigDict | None = None) -> str:
    """Why a field of that type is refused."""
    with pytest.raises(ModelError) as caught:
        structural(spec_with(annotation, default, config), "spec")
    return str(caught.value)


class Color(Enum):
    RED = "Red"
    BLUE = "Blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Inner(Part):
    """Something inside."""

    name: str
    count: int = 1


class Easy(Part):
    count: int = 1
    note: str | None = None


class Cat(Part):
    kind: Literal["Cat"]
    lives: int = 9
    name: str | None = None


class Dog(Part):
    kind: Literal["Dog"]
    tricks: list[str]
    name: str | None = None


class Clash(Part):
    kind: Literal["Clash"]
    name: int


class Pair(NamedTuple):
    left: str
    right: str


class Holder(Part):
    inner: Inner


NOTHING: dict[str, Any] = {}
BY_FUNCTION = Annotated[Cat, Tag("Cat")] | Annotated[Dog, Tag("Dog")]
NESTED = Annotated[Cat | Dog, Field(discriminator="kind")]


@dataclass
class Plain:
    left: str = "x"


class Tree(Part):
    """A tree."""

    name: str
    children: list["Tree"] = []


class TestOptionalFields:
    @pytest.mark.parametrize(
        ("annotation", "expected"),
        [
            (str | None, {"type": "string"}),
            (Color | None, {"type": "string", "enum": ["Red", "Blue"]}),
            (Literal["a", "b", None], {"type": "string", "enum": ["a", "b"]}),
            (Annotated[int, Field(ge=1)] | None, {"type": "integer", "minimum": 1}),
            (Inner | None, form(Inner)),
        ],
    )
    def test_are_plain_not_required_and_never_nullable(self, annotation: Any, expected: dict[str, Any]) -> None:
        """Replay 24, with the enums."""
        schema = structural(spec_with(annotation, None), "spec")
        assert schema["properties"]["field"] == expected
        assert "required" not in schema

    def test_need_a_default(self) -> None:
        assert (
            refusal(str | None) == "Sample: spec.field: it may be None and yet has no default; write `= None` behind it"
        )

    @pytest.mark.parametrize("annotation", [list[str | None], dict[str, int | None], list[Literal["a", None]]])
    def test_cannot_be_items(self, annotation: Any) -> None:
        assert "spec.field[]: None cannot stand in a list or map" in refusal(annotation)


class TestValues:
    @pytest.mark.parametrize(
        ("annotation", "expected"),
        [
            (bool, {"type": "boolean"}),
            (Color, {"type": "string", "enum": ["Red", "Blue"]}),
            (Size, {"type": "integer", "enum": [1, 2]}),
            (Literal["a"], {"type": "string", "enum": ["a"]}),
            (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
            (Annotated[int, Field(gt=0, lt=9)], {
                "type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True,
            }),
            (Annotated[int, Field(ge=0, gt=0)], {"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
            (Annotated[int, Field(ge=1, gt=0)], {"type": "integer", "minimum": 1}),
            (Annotated[int, Field(multiple_of=5)], {"type": "integer", "multipleOf": 5}),
            (Annotated[str, Field(min_length=1, max_length=9, pattern="^a+$")], {
                "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a+$",
            }),
            (UUID, {"type": "string", "format": "uuid", "minItems": 1, "maxItems": 0}),
            (Any, {"x-kubernetes-preserve-unknown-fields": True}),
            (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            (dict, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
            (dict[str, Literal["a"]], {"type": "object", "additionalProperties": {"type": "string", "enum": ["a"]}}),
            (list[Any], {
                "type": "array", "x-kubernetes-list-type": "atomic", "items": {"x-kubernetes-preserve-unknown-fields": True},
            }),
            (list[Literal["a"]], {
                "type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string", "enum": ["a"]},
            }),
            (Annotated[set[str], Field(max_length=3)], {
                "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3,
            }),
            (tuple[str, ...], {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}),
            (int | str, {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (Annotated[str, Field(pattern="^[0-9]+%$")] | Annotated[int, Field(ge=0)], {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+%$",
                "minimum": 0,
            }),
        ],
    )  # fmt: skip
    def test_have_one_form(self, annotation: Any, expected: dict[str, Any]) -> None:
        assert form(annotation) == expected

    @pytest.mark.parametrize(
        ("annotation", "why", "way_out"),
        [
            (tuple[str, int], "a tuple's items have no names", "use a Part with named fields"),
            (Pair, "a tuple's items have no names", "use a Part with named fields"),
            (Decimal, "a Decimal needs a pattern that RE2 lacks", "Quantity"),
            (float, "a float in a spec does not survive a round trip", "an int in a smaller unit"),
            (Annotated[float, Field(multiple_of=0.5)], "a float in a spec", "an int in a smaller unit"),
            (datetime, "without time zone fails the server's date-time format", "AwareDatetime"),
            (timedelta, "written in ISO 8601", "Duration"),
            (time, "checks the format time differently or not at all", "a pattern"),
            (AnyUrl, "checks the format uri differently or not at all", "a pattern"),
            (SecretStr, "checks the format password differently or not at all", "a pattern"),
            (Plain, "Plain is a dataclass", "derive it from konverge.model.custom.Part"),
            (Color | int, "cannot tell", "a union of models with Field\\(discriminator"),
            (Cat | Dog, "cannot tell object in a union", "Field\\(discriminator"),
            (Annotated[Cat | Clash, Field(discriminator="kind")], "spec.field.name: two branches", "rename one"),
            (
                Annotated[BY_FUNCTION, Discriminator(lambda value: value["kind"])],
                "needs a field that tells",
                "discriminator",
            ),
            (Annotated[NESTED | Clash, Field(discriminator="kind")], "two branches", "rename one"),
            (Annotated[list[Holder], ListMap("inner")], "the key inner is no plain value", "a string or an integer"),
            (Literal["a", 1], "are not of one plain type", "use strings only"),
            (dict[int, str], "cannot check the keys of a dict", "dict\\[str, ...\\], or a list with ListMap"),
            (dict[Color, str], "cannot check the keys of a dict", "dict\\[str, ...\\], or a list with ListMap"),
            (dict[Annotated[str, Field(pattern="^a")], str], "cannot check the keys", "a list with ListMap"),
            (set[Any], "a set holds plain values only", "ListMap"),
            (None, "nothing but null fits", "give the field a type"),
            (type, "has no JSON form", "use strings"),
            (
                Annotated[list[Inner], ListMap("title")],
                "the key title is no field of the items",
                "name one of name, count",
            ),
            (
                Annotated[list[Easy], ListMap("note")],
                r"spec.field\[\].note: it is a key of the list and optional",
                "required",
            ),
            (Annotated[str, ListMap("name")], "the list type map is for lists", "on the list"),
            (Annotated[Any, Cel("self > 1", "more")], "a CEL rule needs a typed field", "another type than Any"),
        ],
    )
    def test_without_a_form_are_refused_by_field_rule_and_way_out(
        self, annotation: Any, why: str, way_out: str
    ) -> None:
        message = refusal(annotation)
        assert message.startswith("Sample: spec.field")
        with pytest.raises(ModelError, match=why):
            structural(spec_with(annotation), "spec")
        with pytest.raises(ModelError, match=way_out):
            structural(spec_with(annotation), "spec")

    @pytest.mark.parametrize(
        "pattern",
        ["(?!a)b", "(?=a)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"a\Z", "(?>a)", "a*+", "a{1001}", "a{2,2000}", r"\u0061"],
    )
    def test_patterns_that_re2_lacks_are_refused(self, pattern: str) -> None:
        config = ConfigDict(regex_engine="python-re")
        assert "which RE2 lacks" in refusal(Annotated[str, Field(pattern=pattern)], config=config)

    @pytest.mark.parametrize(
        "pattern", [r"^\(\?!$", "[(?!]", r"\\1", "(?P<x>a)", "(?:a)+?", r"[\]*+]", "[]*+]", "a{1000}", r"\.\d\$"]
    )
    def test_patterns_that_only_look_like_it_are_taken(self, pattern: str) -> None:
        config = ConfigDict(regex_engine="python-re")
        schema = structural(spec_with(Annotated[str, Field(pattern=pattern)], config=config), "spec")
        assert schema["properties"]["field"]["pattern"] == pattern

    @pytest.mark.parametrize(
        ("annotation", "text", "taken"),
        [
            (AwareDatetime, "2026-01-31T12:00:00Z", True),
            (AwareDatetime, "2026-01-31T12:00:00.123456789-11:30", True),
            (AwareDatetime, "2026-01-31T12:00:00", False),
            (AwareDatetime, "2026-01-31T12:00:00+99:00", False),
            (AwareDatetime, "0000-01-31T12:00:00Z", False),
            (date, "0001-01-01", True),
            (date, "0000-01-01", False),
        ],
    )
    def test_of_time_take_only_what_both_sides_read(self, annotation: Any, text: str, taken: bool) -> None:
        schema = form(annotation)
        assert schema["format"] in {"date-time", "date"}
        assert bool(re.search(schema["pattern"], text)) is taken

    def test_of_a_status_may_be_floats(self) -> None:
        schema = structural(spec_with(Annotated[float, Field(gt=0.5)]), "status", floats=True)
        assert schema["properties"]["field"] == {"type": "number", "minimum": 0.5, "exclusiveMinimum": True}

    def test_of_a_status_that_are_floats_are_still_no_multiples(self) -> None:
        with pytest.raises(
            ModelError, match=r"status\.field: multiple_of=0\.5 is for integers only; count in a smaller unit"
        ):
            structural(spec_with(Annotated[float, Field(multiple_of=0.5)]), "status", floats=True)


class TestModels:
    def test_are_written_in_place_with_their_docstring(self) -> None:
        assert form(list[Inner])["items"] == {
            "description": "Something inside.",
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["name"],
        }

    def test_are_described_better_by_the_field(self) -> None:
        assert form(Annotated[Inner, Field(description="Mine.")])["description"] == "Mine."

    def test_describe_fields_by_the_string_below(self) -> None:
        class Documented(Spec):
            how_many: int = 1
            """In pieces."""

        assert structural(Documented, "spec")["properties"]["howMany"]["description"] == "In pieces."

    def test_that_contain_themselves_are_cut(self) -> None:
        children = form(Tree)["properties"]["children"]
        assert children["items"] == {
            "description": "A tree.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }

    def test_used_twice_are_not_taken_for_recursion(self) -> None:
        class Twice(Spec):
            first: Inner
            second: Inner

        fields = structural(Twice, "spec")["properties"]
        assert fields["first"] == fields["second"] == form(Inner)

    def test_that_forbid_more_fields_leave_that_to_the_server(self) -> None:
        assert "additionalProperties" not in structural(spec_with(int, config=ConfigDict(extra="forbid")), "spec")

    def test_that_allow_more_fields_keep_them(self) -> None:
        schema = structural(spec_with(int, config=ConfigDict(extra="allow")), "spec")
        assert schema["x-kubernetes-preserve-unknown-fields"] is True

    def test_with_other_names_in_and_out_are_refused(self) -> None:
        message = refusal(Annotated[int, Field(validation_alias="a", serialization_alias="b")])
        assert "field has other names in and out; give it one alias" in message

    def test_in_a_discriminated_union_are_merged(self) -> None:
        assert form(Annotated[Cat | Dog, Field(discriminator="kind")]) == {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["Cat", "Dog"]},
                "lives": {"type": "integer"},
                "name": {"type": "string"},
                "tricks": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            },
            "required": ["kind"],
            "oneOf": [
                {"properties": {"kind": {"enum": ["Cat"]}}, "required": ["kind"]},
                {"properties": {"kind": {"enum": ["Dog"]}}, "required": ["kind", "tricks"]},
            ],
        }


class TestDefaults:
    @pytest.mark.parametrize(
        ("annotation", "default", "written"),
        [
            (int, 5, 5),
            (bool, False, False),
            (str, "", ""),
            (Color, Color.RED, "Red"),
            (set[str], {"b", "a", "c"}, ["a", "b", "c"]),
            (list[int], [2, 1], [2, 1]),
            (Duration, timedelta(minutes=90), "1h30m"),
            (Quantity, "1Gi", "1Gi"),
            (int | str, "25%", "25%"),
            (Easy, Easy(), {}),
            (Easy, Easy(count=2), {"count": 2}),
            (list[Easy], [Easy(count=2)], [{"count": 2}]),
            (list[int], Field(default_factory=lambda: [1]), [1]),
            (Easy, Field(default_factory=Easy), {}),
        ],
    )
    def test_are_written_as_a_person_would(self, annotation: Any, default: Any, written: Any) -> None:
        schema = structural(spec_with(annotation, default), "spec")
        assert schema["properties"]["field"]["default"] == written
        assert "required" not in schema

    @pytest.mark.parametrize(("annotation", "default"), [(list[int], []), (dict[str, str], {}), (str | None, None)])
    def test_that_mean_nothing_are_left_out(self, annotation: Any, default: Any) -> None:
        assert "default" not in form(annotation, default)

    @pytest.mark.parametrize(
        ("annotation", "default", "why"),
        [
            (Annotated[int, Field(ge=1)], 0, "0 must be more than or equal to 1"),
            (Annotated[int, Field(lt=9)], 9, "9 must be less than 9"),
            (Annotated[int, Field(multiple_of=2)], 3, "3 is no multiple of 2"),
            (Annotated[str, Field(min_length=1)], "", "0 characters are less than 1"),
            (Annotated[str, Field(pattern="^a")], "b", "'b' does not match ^a"),
            (Literal["a"], "b", "'b' is not one of a"),
            (Annotated[list[int], Field(max_length=1)], [1, 2], "2 items are more than 1"),
            (list[Annotated[int, Field(ge=1)]], [0], "0 must be more than or equal to 1"),
            (dict[str, Annotated[int, Field(ge=1)]], {"a": 0}, "a: 0 must be more than or equal to 1"),
            (Quantity, "1K", "'1K' does not match"),
            (int, "x", "'x' is no integer"),
            (Inner, Inner.model_construct(**NOTHING), "it lacks name"),
            (Annotated[list[int], Field(min_length=2)], [1], "1 items are less than 2"),
        ],
    )
    def test_outside_their_bounds_are_refused(self, annotation: Any, default: Any, why: str) -> None:
        message = refusal(annotation, default)
        assert f"spec.field: the default does not fit: {why}" in message
        assert message.endswith("change the default or the bound")

    def test_that_differ_each_time_are_refused(self) -> None:
        message = refusal(int, Field(default_factory=lambda: random.getrandbits(64)))
        assert "default_factory gives another value each time; make the field optional" in message

    def test_that_follow_other_fields_are_refused(self) -> None:
        assert "cannot follow other fields" in refusal(int, Field(default_factory=lambda data: 1 + len(data)))

    def test_that_cannot_be_written_are_refused(self) -> None:
        assert "cannot be written as JSON" in refusal(Duration, timedelta(seconds=-1))


class TestRules:
    def test_stand_at_their_field(self) -> None:
        schema = form(Annotated[str, Cel("self != 'x'", "must not be x"), Cel("self != 'y'", "must not be y")])
        assert schema["x-kubernetes-validations"] == [
            {"rule": "self != 'x'", "message": "must not be x"},
            {"rule": "self != 'y'", "message": "must not be y"},
        ]

    @pytest.mark.parametrize(("rule", "message"), [("", "m"), ("self", ""), ("self", "two\nlines")])
    def test_need_an_expression_and_a_message_of_one_line(self, rule: str, message: str) -> None:
        with pytest.raises(ModelError, match="CEL rule"):
            Cel(rule, message)

    @pytest.mark.parametrize(
        "annotation", [list[Annotated[str, Cel("self != ''", "m")]], dict[str, Annotated[str, Cel("self != ''", "m")]]]
    )
    def test_below_a_list_or_map_need_its_bound(self, annotation: Any) -> None:
        assert refusal(annotation).endswith("exceeds the server's cost limit; give that field a max_length")
        assert form(Annotated[annotation, Field(max_length=5)])

    def test_that_make_a_field_immutable_also_keep_it_set(self) -> None:
        schema = structural(spec_with(Annotated[str | None, Immutable()], None), "spec")
        assert schema["properties"]["field"]["x-kubernetes-validations"] == [
            {"rule": "self == oldSelf", "message": "field cannot be changed once it is set"}
        ]
        assert schema["x-kubernetes-validations"] == [
            {"rule": "!has(oldSelf.field) || has(self.field)", "message": "field cannot be removed once it is set"}
        ]

    @pytest.mark.parametrize("default", [..., "x"])
    def test_need_not_keep_set_what_is_always_there(self, default: Any) -> None:
        assert "x-kubernetes-validations" not in structural(spec_with(Annotated[str, Immutable()], default), "spec")

    def test_keep_the_part_that_holds_an_immutable_field(self) -> None:
        class Holder(Part):
            class_name: Annotated[str, Immutable()]

        schema = structural(spec_with(Holder | None, None), "spec")
        assert schema["x-kubernetes-validations"][0]["rule"] == "!has(oldSelf.field) || has(self.field)"

    def test_escape_the_names_that_cel_reserves(self) -> None:
        class Reserved(Spec):
            namespace: Annotated[str | None, Immutable()] = None
            dashed: Annotated[str | None, Immutable(), Field(alias="a-b.c/d__e")] = None

        rules = [rule["rule"] for rule in structural(Reserved, "spec")["x-kubernetes-validations"]]
        assert rules == [
            "!has(oldSelf.__namespace__) || has(self.__namespace__)",
            "!has(oldSelf.a__dash__b__dot__c__slash__d__underscores__e) || has(self.a__dash__b__dot__c__slash__d__underscores__e)",
        ]

    def test_cannot_follow_the_items_of_a_list_that_is_replaced_as_a_whole(self) -> None:
        class Item(Part):
            name: Annotated[str, Immutable()]

        bounded = Annotated[list[Item], Field(max_length=5)]
        assert "key the list with ListMap, or make the whole list immutable" in refusal(bounded)
        assert form(Annotated[list[Item], Field(max_length=5), ListMap("name")])

    def test_can_follow_the_values_of_a_map(self) -> None:
        values = form(Annotated[dict[str, Annotated[str, Immutable()]], Field(max_length=5)])["additionalProperties"]
        assert values["x-kubernetes-validations"][0]["rule"] == "self == oldSelf"
        assert "ListMap" in refusal(Annotated[list[Annotated[str, Immutable()]], Field(max_length=5)])


def test_keywords_that_the_server_lacks_are_refused() -> None:
    message = refusal(Annotated[int, Field(json_schema_extra={"contentEncoding": "base64"})])
    assert (
        message == "Sample: spec.field: contentEncoding cannot stand in a CRD; say it with types, bounds or a Cel rule"
    )


def test_a_model_with_an_unknown_type_is_refused() -> None:
    assert refusal("Nowhere").startswith("Sample: `Sample` is not fully defined; you should define `Nowhere`")


def test_keywords_of_kubernetes_pass_through() -> None:
    assert form(Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-embedded-resource": True})]) == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-embedded-resource": True,
    }


def test_any_pydantic_model_will_do() -> None:
    class Foreign(BaseModel):
        snake_case: int = 1

    assert structural(Foreign, "x")["properties"] == {"snake_case": {"type": "integer", "default": 1}}
