"""Quantities mean what they mean to the API machinery."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.model.quantity import format_quantity, parse_quantity, same_quantity, to_milli, to_value

AMOUNTS = st.integers(-(10**20), 10**20).map(lambda nanos: Fraction(nanos, 10**9))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5Gi", 536870912),
        ("1e3", 1000),
        ("1k", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("+1.5M", 1_500_000),
        ("-2Ki", -2048),
        (".5k", 500),
        ("5.", 5),
        ("1e-3", Fraction(1, 1000)),
        ("100m", Fraction(1, 10)),
        ("3u", Fraction(3, 10**6)),
        ("7n", Fraction(7, 10**9)),
        (3, 3),
        (0.1, Fraction(1, 10)),
    ],
)
def test_a_quantity_has_an_exact_value(text: str | float, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("1K", "write k for 1000 or Ki for 1024"),
        ("1kb", "unknown suffix 'kb'"),
        ("1e", "unknown suffix 'e'"),
        ("1 Gi", "unknown suffix ' Gi'"),
        ("Gi", "write a number with an optional suffix"),
        ("", "write a number with an optional suffix"),
        ("1e999999999", "exponent must be between -100 and 100"),
        ("1\n", "unknown suffix"),
        (float("nan"), "is no quantity"),
        (True, "is no quantity"),
    ],
)
def test_what_is_no_quantity_says_what_to_write(wrong: str | float, hint: str) -> None:
    with pytest.raises(ValueError, match="is no quantity") as caught:
        parse_quantity(wrong)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "milli", "value"), [("1n", 1, 1), ("1001u", 2, 1), ("1500m", 1500, 2), ("2", 2000, 2)]
)
def test_fractions_of_a_unit_round_up(text: str, milli: int, value: int) -> None:
    assert (to_milli(text), to_value(text)) == (milli, value)


def test_digits_below_a_nano_unit_round_away_from_zero() -> None:
    assert parse_quantity("0.1n") == Fraction(1, 10**9)
    assert parse_quantity("-0.1n") == Fraction(-1, 10**9)


def test_no_amount_is_capped() -> None:
    assert to_value("50E") == 50 * 10**18


def test_forms_of_one_amount_are_the_same() -> None:
    assert same_quantity("1000m", "1")
    assert same_quantity("1Gi", 2**30)
    assert not same_quantity("1G", "1Gi")


def test_what_is_no_quantity_is_the_same_only_as_itself() -> None:
    assert same_quantity("soon", "soon")
    assert not same_quantity("soon", "1")
    assert not same_quantity(True, 1)


@pytest.mark.parametrize(
    ("value", "binary", "text"),
    [
        (2**30, True, "1Gi"),
        (2**30, False, "1073741824"),
        (1500, False, "1500"),
        (Fraction(3, 2), True, "1500m"),
        (0, True, "0"),
    ],
)
def test_the_canonical_text_has_the_largest_suffix_that_leaves_an_integer(
    value: Fraction | int, binary: bool, text: str
) -> None:
    assert format_quantity(value, binary=binary) == text


@given(amount=AMOUNTS, binary=st.booleans())
def test_text_and_back_is_the_same_amount(amount: Fraction, binary: bool) -> None:
    assert parse_quantity(format_quantity(amount, binary=binary)) == amount


@given(amount=AMOUNTS)
def test_rounding_never_counts_less_and_never_a_whole_unit_more(amount: Fraction) -> None:
    assert 0 <= to_value(amount) - amount < 1
    assert 0 <= to_milli(amount) - amount * 1000 < 1
