"""The types and markers that a model's fields may carry."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from konverge.errors import ModelError
from konverge.model.fields import Duration, ListMap, Quantity, format_duration, parse_duration
from konverge.model.quantity import parse_quantity

QUANTITY: TypeAdapter[str] = TypeAdapter(Quantity)
DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
PATTERN = QUANTITY.json_schema()["pattern"]


class TestQuantity:
    def test_keeps_the_text_that_a_person_wrote(self) -> None:
        assert QUANTITY.validate_python("0.5Gi") == "0.5Gi"

    def test_takes_an_integer_as_its_digits(self) -> None:
        assert QUANTITY.validate_python(4) == "4"

    @pytest.mark.parametrize("wrong", ["1K", "", True, None, 0.5])
    def test_refuses_what_is_none(self, wrong: Any) -> None:
        with pytest.raises(ValidationError):
            QUANTITY.validate_python(wrong)

    @given(text=st.from_regex(PATTERN, fullmatch=True))
    def test_takes_whatever_the_pattern_of_the_crd_takes(self, text: str) -> None:
        parse_quantity(text)


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "length"),
        [
            ("1h30m", timedelta(hours=1, minutes=30)),
            ("90s", timedelta(seconds=90)),
            ("250ms", timedelta(milliseconds=250)),
            ("0s", timedelta()),
            ("1m1h", timedelta(minutes=61)),
        ],
    )
    def test_is_text_on_the_wire_and_a_length_of_time_inside(self, text: str, length: timedelta) -> None:
        assert DURATION.validate_python(text) == length

    @pytest.mark.parametrize("wrong", ["", "5", "PT5M", "1d", "-1s", "1.5h", " 1s", "1s" * 40])
    def test_refuses_other_texts(self, wrong: str) -> None:
        with pytest.raises(ValidationError, match="write it like 1h30m"):
            DURATION.validate_python(wrong)

    def test_has_a_limit(self) -> None:
        with pytest.raises(ValidationError, match="is too long for a duration"):
            DURATION.validate_python("9" * 60 + "h")

    @given(text=st.from_regex(DURATION.json_schema()["pattern"], fullmatch=True).filter(lambda text: len(text) <= 32))
    def test_takes_whatever_the_pattern_of_the_crd_takes(self, text: str) -> None:
        parse_duration(text.rstrip("\n"))

    @given(length=st.timedeltas(timedelta(), timedelta(days=365_000)))
    def test_is_written_as_it_is_read(self, length: timedelta) -> None:
        back = parse_duration(format_duration(length))
        assert timedelta() <= length - back < timedelta(milliseconds=1)

    def test_is_never_negative(self) -> None:
        with pytest.raises(ValueError, match="is negative"):
            format_duration(timedelta(seconds=-1))


def test_a_keyed_list_needs_a_key() -> None:
    with pytest.raises(ModelError, match=r'as in ListMap\("name"\)'):
        ListMap()
