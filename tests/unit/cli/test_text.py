"""How the commands write: what is the same for all of them."""

import pytest

from konverge.cli.text import Once, console, field, table


def test_in_a_pipe_lines_are_not_filled_up_with_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table(("NAME", "WHY"), [("one", "because it is long"), ("a-long-name", "")]))
    assert capsys.readouterr().out == "NAME         WHY\none          because it is long\na-long-name\n"


def test_lines_without_blanks_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("\n  a  b\n\nc")
    assert capsys.readouterr().out == "\n  a  b\n\nc\n"


def test_a_long_value_goes_on_below_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(field("Last", f"{'word ' * 60}\nand this"))
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("  Last:        word word")
    assert len(rest) == 2
    assert all(line.startswith(" " * 15) and line[15] != " " for line in rest)


def test_a_text_of_several_lines_is_told_once_also_where_it_is_part_of_what_was_told() -> None:
    once = Once()
    assert once("Why: first\nsecond\nthird") == "Why: first\nsecond\nthird"
    assert once("first\nsecond\nthird") == "first"
    assert once("first\nanother") == "first\nanother"


def test_a_text_of_one_line_is_told_each_time() -> None:
    once = Once()
    assert [once("same"), once("same"), once("")] == ["same", "same", ""]
