"""Every case that broke others is a test here, and says so: `Replay` and its number in its docstring."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = range(1, 29)


def replayed() -> Iterator[int]:
    """The numbers that the docstrings of tests, and of modules that are all about one case, name."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) and _is_of_a_test(node):
                yield from map(int, re.findall(r"Replay (\d+)", ast.get_docstring(node) or ""))


def _is_of_a_test(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(node, ast.Module) or node.name.startswith("test_")


@pytest.fixture(scope="module")
def numbers() -> frozenset[int]:
    return frozenset(replayed())


@pytest.mark.parametrize("number", CASES)
def test_the_case_has_a_test(number: int, numbers: frozenset[int]) -> None:
    assert number in numbers
