"""docs/conventions.md says what holds each expectation; what it names has to be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = [
    row.strip("|").split("|")
    for row in (ROOT / "docs" / "conventions.md").read_text().splitlines()
    if row.startswith("| ") and not row.startswith("| expectation")
]
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_list_is_not_cut_short() -> None:
    assert len(ROWS) >= 35


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row[0]).strip("-")[:60])
def test_each_expectation_has_a_test_or_a_reason(row: list[str]) -> None:
    expectation, held = (cell.strip() for cell in row)
    assert expectation
    assert REFERENCE.search(held) or held.startswith("Not tested, ")


@pytest.mark.parametrize(("path", "name"), sorted({found for row in ROWS for found in REFERENCE.findall(row[1])}))
def test_the_tests_that_are_named_exist(path: str, name: str) -> None:
    assert re.search(rf"^ *(?:async def|def|class) {name}\b", (ROOT / path).read_text(), re.MULTILINE)


def test_nothing_that_looks_like_a_test_is_named_in_another_form() -> None:
    text = (ROOT / "docs" / "conventions.md").read_text()
    assert text.count("tests/") == len(REFERENCE.findall(text))
