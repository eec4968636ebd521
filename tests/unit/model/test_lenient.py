"""Reading what today's model refuses."""

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from konverge.model.custom import Part
from konverge.model.fields import Duration
from konverge.model.lenient import lenient, wire


class Inner(Part):
    how_many: int = Field(le=3)


class Outer(Part):
    title: str = Field(max_length=3)
    count: Annotated[int, Field(ge=0)] | None = None
    inner: Inner | None = None
    inners: list[Inner] = Field(default=[])
    by_name: dict[str, Inner] = Field(default={})
    wait: Duration | None = None
    either: int | str = 0


GOOD: dict[str, Any] = {"title": "a", "inner": {"howMany": 1}, "byName": {"x": {"howMany": 2}}, "wait": "90s"}


def test_what_fits_is_parsed_as_ever() -> None:
    assert lenient(Outer, GOOD) == Outer.model_validate(GOOD)
    assert wire(lenient(Outer, GOOD)) == {**GOOD, "wait": "1m30s"}


def test_a_value_out_of_bounds_keeps_its_type_and_the_rest_is_typed() -> None:
    read = lenient(Outer, {**GOOD, "title": "too long", "count": -1, "inner": {"howMany": 9}, "unknown": 1})
    assert (read.title, read.count, read.wait) == ("too long", -1, timedelta(seconds=90))
    assert read.inner is not None
    assert read.inner.how_many == 9
    assert read.by_name["x"].how_many == 2
    assert wire(read) == {**GOOD, "title": "too long", "count": -1, "inner": {"howMany": 9}, "wait": "1m30s"}


def test_it_reaches_into_lists_and_maps() -> None:
    read = lenient(Outer, {"title": "a", "inners": [{"howMany": 1}, {"howMany": 9}], "byName": {"x": {"howMany": 9}}})
    assert [each.how_many for each in read.inners] == [1, 9]
    assert wire(read) == {"title": "a", "inners": [{"howMany": 1}, {"howMany": 9}], "byName": {"x": {"howMany": 9}}}


@pytest.mark.parametrize(
    "odd",
    [
        {"wait": "for ever"},
        {"inner": 3},
        {"inners": 3},
        {"inners": [3]},
        {"byName": []},
        {"either": [1]},
        {"inner": {"howMany": "many"}},
    ],
)
def test_a_value_of_another_type_stays_what_it_was(odd: dict[str, Any]) -> None:
    assert wire(lenient(Outer, {"title": "a", **odd})) == {"title": "a", **odd}


def test_fields_may_be_named_as_in_python() -> None:
    assert wire(lenient(Outer, {"title": "too long", "by_name": {"x": {"how_many": 9}}})) == {
        "title": "too long",
        "byName": {"x": {"howMany": 9}},
    }


def test_a_required_field_that_is_missing_stays_missing() -> None:
    assert not hasattr(lenient(Outer, {"count": 1}), "title")
    assert wire(lenient(Outer, {"count": 1})) == {"count": 1}


def test_what_is_no_mapping_is_no_model() -> None:
    with pytest.raises(ValidationError):
        lenient(Outer, [1])
