"""Where pydantic and the API server are easily of two minds, the schema makes them agree, or the model is refused."""

# ruff: noqa: RUF012 - pydantic copies mutable defaults

import re
from datetime import date, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal, Union

import pytest
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, StringConstraints, computed_field, create_model
from typing_extensions import TypeAliasType

from konverge.errors import ManifestError, ModelError
from konverge.model.custom import CustomResource, Part, Spec, Status
from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity, format_duration, parse_duration
from konverge.model.patterns import matches, trouble
from konverge.model.schema import structural
from konverge.runtime.status import own_fields
from tests.unit.model.test_schema import form, refusal

PRESERVE = "x-kubernetes-preserve-unknown-fields"


class And(Part):
    kind: Literal["And"]
    of: list[Annotated["And | Not", Field(discriminator="kind")]]


class Not(Part):
    kind: Literal["Not"]
    it: Annotated["And | Not", Field(discriminator="kind")]


class Disk(Part):
    kind: Literal["Disk"] = "Disk"
    size: int = 1


class Bucket(Part):
    kind: Literal["Bucket"]
    size: int = 2
    url: str


class OpenBucket(Bucket):
    model_config = ConfigDict(extra="allow")


class ClosedDisk(Disk):
    model_config = ConfigDict(extra="forbid")


def union(*branches: Any) -> Any:
    return Annotated[Union[branches], Field(discriminator="kind")]  # noqa: UP007 - of a tuple


class TestNames:
    def test_are_those_of_the_wire_only(self) -> None:
        """The server keeps `snake_case` as an unknown field at best; it must not be taken for ours."""

        class Loose(Part):
            model_config = ConfigDict(extra="allow")
            max_count: int = 1

        class WebSpec(Spec):
            field: Loose

        class Web(CustomResource[WebSpec, Status], group="a.dev", version="v1"):
            pass

        raw: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"field": {"max_count": "many"}}}
        assert Web.parse(raw).spec.field.max_count == 1
        raw["spec"]["field"] = {"maxCount": "many"}
        with pytest.raises(ManifestError, match=r"spec\.field\.maxCount: Input should be a valid integer"):
            Web.parse(raw)

    def test_that_two_fields_share_are_refused(self) -> None:
        twice = create_model("Twice", __base__=Spec, a_b=(int, 1), aB=(str, ""))
        with pytest.raises(ModelError, match=r"spec\.aB: a_b and aB are both aB on the wire; rename one"):
            structural(twice, "spec")

    def test_that_cel_cannot_read_cannot_be_kept_set(self) -> None:
        fixed = Annotated[str | None, Immutable(), Field(alias="$ref")]
        assert "CEL cannot read a field of this name; give it an alias" in refusal(fixed, None)
        assert form(Annotated[str, Immutable(), Field(alias="field")])

    def test_of_what_is_written_and_not_read_or_the_other_way_round_are_refused(self) -> None:
        class Computed(Spec):
            @computed_field
            def two_fold(self) -> int:
                return 2

        with pytest.raises(ModelError, match=r"spec\.twoFold: a computed field is written and yet no field"):
            structural(Computed, "spec")
        assert "exclude=True is read and never written" in refusal(Annotated[int, Field(exclude=True)], 1)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("it is odd")
    return value


class TestDefaults:
    @pytest.mark.parametrize(
        ("annotation", "default", "written"),
        [
            (union(Disk, Bucket), Disk(), {"kind": "Disk"}),
            (union(Disk, Bucket), Disk(size=5), {"kind": "Disk", "size": 5}),
            (Annotated[str, Field(pattern=r"^\pL$")], "é", "é"),
            (Annotated[str, Field(pattern="^[[:alpha:]]$")], "a", "a"),
        ],
    )
    def test_that_the_server_fills_in_whole_are_written(self, annotation: Any, default: Any, written: Any) -> None:
        assert form(annotation, default)["default"] == written

    def test_of_a_part_with_a_union_inside_tell_the_branch(self) -> None:
        class Holder(Part):
            sources: list[Annotated[Disk | Bucket, Field(discriminator="kind")]] = []
            by: dict[str, Disk] = {}

        default = Holder(sources=[Disk(size=5)], by={"a": Disk(size=2)})
        assert form(Holder, default)["default"] == {
            "sources": [{"kind": "Disk", "size": 5}],
            "by": {"a": {"kind": "Disk", "size": 2}},
        }

    @pytest.mark.parametrize(
        ("annotation", "default", "why"),
        [
            (Duration, timedelta(microseconds=1), r"is written as '0s', and read back: datetime.timedelta\(0\)"),
            (Annotated[int, AfterValidator(even)], 3, "is written as 3, and read back: Value error, it is odd"),
            (tuple[int, ...], [1], r"is written as \[1\], and read back: \(1,\)"),
        ],
    )
    def test_that_come_back_as_something_else_are_refused(self, annotation: Any, default: Any, why: str) -> None:
        assert re.search(f"spec.field: the default {why}; change the default", refusal(annotation, default))

    def test_beside_none_are_refused_because_none_cannot_be_written(self) -> None:
        assert "None cannot be written, for the server fills in 5 then; drop None" in refusal(int | None, 5)

    def test_that_are_empty_need_a_bound_that_takes_it(self) -> None:
        assert "the default is empty and min_length is 1" in refusal(Annotated[list[int], Field(min_length=1)], [])


class TestBounds:
    @pytest.mark.parametrize("bound", [2**53 + 1, 2**63, -(2**64)])
    def test_that_the_server_cannot_hold_are_refused(self, bound: int) -> None:
        assert f"the server reads the bound {bound} as" in refusal(Annotated[int, Field(ge=bound)])

    @pytest.mark.parametrize(
        "annotation",
        [
            Annotated[Duration, Field(gt=timedelta(0))],
            Annotated[Quantity, Field(max_length=5)],
            Annotated[int | str, Field(max_length=5)],
            Annotated[int | str, Field(ge=5)],
            Annotated[dict[str, int], AfterValidator(dict), Field(min_length=1)],
        ],
    )
    def test_that_do_not_reach_the_schema_are_refused(self, annotation: Any) -> None:
        assert "does not reach the server here; put it next to a plain str, int or list" in refusal(annotation)

    def test_around_a_validator_are_said(self) -> None:
        assert form(Annotated[int, Field(multiple_of=4), AfterValidator(even)]) == {"type": "integer", "multipleOf": 4}
        assert form(Annotated[list[int], AfterValidator(list), Field(max_length=4)])["maxItems"] == 4

    def test_on_what_is_stripped_first_are_refused(self) -> None:
        stripped = StringConstraints(strip_whitespace=True, min_length=1)
        assert "checks the text after stripping it" in refusal(Annotated[str, stripped])
        assert form(Annotated[str, StringConstraints(strip_whitespace=True)]) == {"type": "string"}

    @pytest.mark.parametrize(
        "annotation",
        [
            set[Duration],
            set[AwareDatetime],
            set[Quantity],
            set[Annotated[str, StringConstraints(to_lower=True)]],
        ],
    )
    def test_on_the_fewest_items_of_a_set_need_items_of_one_form(self, annotation: Any) -> None:
        """`1h` and `60m` are two items to the server, and one to the model."""
        few, some = (Annotated[annotation, Field(min_length=least)] for least in (2, 1))
        assert "items that are written differently can be equal" in refusal(few)
        assert form(some)
        assert form(Annotated[frozenset[str | int], Field(min_length=2)])

    def test_that_are_strict_leave_nothing_for_json(self) -> None:
        assert "a strict datetime refuses all that JSON can say" in refusal(
            Annotated[AwareDatetime, Field(strict=True)]
        )
        assert "spec: strict=True refuses the texts" in refusal(int, config=ConfigDict(strict=True))
        assert form(Annotated[int, Field(strict=True)]) == {"type": "integer"}


class TestPatterns:
    @pytest.mark.parametrize(
        "pattern",
        [
            "(?x)a b",
            "(?-u)a",
            "(?R)a",
            "(?#note)a",
            "[a[bc]]",
            "[a&&b]",
            "[a--b]",
            r"\<a",
            "a**",
            "a{2}{3}",
            r"\p{Emoji}",
        ],
    )
    def test_that_re2_reads_otherwise_or_not_at_all_are_refused(self, pattern: str) -> None:
        assert "which RE2 lacks" in (trouble(pattern) or ("",))[0]

    @pytest.mark.parametrize("pattern", [r"\D", r"\W", r"\S", r"\bword", r"\B", r"[^\d]", r"[^a\s]", r"[\D]"])
    def test_by_which_the_server_would_take_more_than_the_model_are_refused(self, pattern: str) -> None:
        rule, way_out = trouble(pattern) or ("", "")
        assert "by ASCII, and would take more than the model" in rule
        assert "[^0-9]" in way_out

    @pytest.mark.parametrize(
        "pattern",
        [
            r"^\d+\s\w*$", r"[\d.]", "(?i)a", "(?i-s:a)", "(?P<n>a)", "(?<n>a)", r"[[:alpha:]]", "[a-]", r"[^\]]", r"\pL",
            r"\p{Greek}", "a??", "a{2}?",
        ],
    )  # fmt: skip
    def test_that_both_read_alike_are_taken(self, pattern: str) -> None:
        assert trouble(pattern) is None

    def test_are_matched_by_the_engine_that_reads_them(self) -> None:
        assert matches("^[[:alpha:]]$", "a")
        assert not matches("^[[:alpha:]]$", ":")
        assert matches(r"^(a)\1$", "aa")


@pytest.mark.parametrize(
    ("annotation", "text", "taken"),
    [
        (IPv4Address, "10.0.0.255", True),
        (IPv4Address, "192.168.001.1", False),
        (IPv4Address, "::1.2.3.4", False),
        (IPv6Address, "::", True),
        (IPv6Address, "::ffff:1.2.3.4", True),
        (IPv6Address, "::1.02.3.4", False),
        (IPv6Address, "fe80::1%eth0", False),
    ],
)
def test_addresses_are_taken_in_the_form_that_both_read(annotation: Any, text: str, taken: bool) -> None:
    assert bool(re.search(form(annotation)["pattern"], text)) is taken


class TestUnions:
    def test_know_their_tag_wherever_the_branches_are_used(self) -> None:
        class Holder(Part):
            source: Annotated[Disk | Bucket, Field(discriminator="kind")]

        class Sample(Spec):
            holder: Holder
            spare: Disk = Disk()
            other: Holder | None = None

        assert structural(Sample, "spec")["properties"]["other"]["properties"]["source"]["required"] == ["kind"]

    def test_require_what_all_branches_require(self) -> None:
        class Tape(Part):
            kind: Literal["Tape"]
            url: str

        either = Annotated[Bucket | Tape, Field(discriminator="kind")]
        keyed = Annotated[list[either], ListMap("url"), Field(max_length=3)]
        assert form(keyed)["items"]["required"] == ["kind", "url"]

    def test_with_a_branch_that_forbids_more_fields_forbid_those_of_the_others(self) -> None:
        disk, bucket = form(union(ClosedDisk, Bucket))["oneOf"]
        assert disk["not"] == {"anyOf": [{"required": ["url"]}]}
        assert "not" not in bucket

    def test_with_a_branch_that_allows_more_fields_keep_them(self) -> None:
        assert form(union(Disk, OpenBucket))[PRESERVE] is True
        assert "one branch allows more fields and another forbids them" in refusal(union(ClosedDisk, OpenBucket))

    def test_hold_the_rules_of_the_chosen_branch(self) -> None:
        ruled = Annotated[Disk, Cel("self.size < 9", "must be small")]
        assert form(union(ruled, Bucket))["x-kubernetes-validations"] == [
            {"rule": '!(self.kind == "Disk") || (self.size < 9)', "message": "must be small"}
        ]

    def test_that_contain_themselves_are_cut(self) -> None:
        fields = form(union(And, Not))["properties"]
        assert fields["of"]["items"] == fields["it"] == {"type": "object", PRESERVE: True}

    def test_are_immutable_as_a_whole_only(self) -> None:
        assert "put Immutable on the whole union" in refusal(union(Annotated[Disk, Immutable()], Bucket))


def test_only_a_model_can_contain_itself() -> None:
    nested = TypeAliasType("nested", "list[nested]")  # type: ignore[misc]
    assert "a type that contains itself must be a model; write it as a Part" in refusal(nested)


class TestImmutable:
    def test_cannot_be_what_has_no_type(self) -> None:
        for untyped in (Any, list[Any], dict[str, list[Any]]):
            assert "a CEL rule needs a typed field" in refusal(Annotated[untyped, Immutable()])

    def test_cannot_be_what_the_server_compares_wrongly(self) -> None:
        class Days(Part):
            days: list[set[date]] = []

        for times in (set[AwareDatetime], Days, Annotated[dict[str, Days], Field(max_length=3)]):
            message = refusal(Annotated[times, Immutable()])
            assert "takes a set of times for changed when it is not; use a list to be immutable" in message
        for free in (dict[str, Any], OpenBucket, list[dict[str, Any]]):
            assert "one unknown field takes the place of another" in refusal(Annotated[free, Immutable()])

    def test_can_be_what_is_next_to_it(self) -> None:
        class Holder(Part):
            inside: Any = None

        assert form(Annotated[list[date], Immutable()])
        assert form(Annotated[Holder, Immutable()])


def test_a_duration_is_written_in_numbers_that_the_crd_takes() -> None:
    length = parse_duration("999999999h999999999h")
    assert format_duration(length) == "999999999h999999999h"
    assert re.search(form(Duration)["pattern"], format_duration(length))


class Seen(Status):
    ports: set[int] = set()
    by: dict[str, list[frozenset[int]]] = {}


class Watched(CustomResource[Spec, Seen], group="a.dev", version="v1"):
    pass


def test_a_set_in_a_status_is_written_in_one_order() -> None:
    """5 and 21 fall into one slot of a small set, so that it gives them in the order of their coming."""
    given, other = [{"ports": order, "by": {"a": [order]}} for order in ([5, 21, 23], [21, 23, 5])]
    first, second = (Watched.parse({"metadata": {"name": "x"}, "status": status}).status for status in (given, other))
    assert [*first.ports] != [*second.ports]
    assert own_fields(first) == own_fields(second)
