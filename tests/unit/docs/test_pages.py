"""The pages in docs/ say what is: their code runs, their links lead somewhere."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def code_of(page: Path) -> str:
    """All Python blocks of a page, one after the other."""
    return "\n\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def simulations(page: str) -> Iterator[Any]:
    """The simulations that a page shows, seed by seed."""
    namespace: dict[str, Any] = {"__name__": f"docs.{Path(page).stem}"}
    exec(compile(code_of(DOCS / page), page, "exec"), namespace)
    for name, value in namespace.items():
        for mark in getattr(value, "pytestmark", []) if name.startswith("test_") else []:
            for seed in mark.args[1]:
                yield pytest.param(value, seed, id=f"{name}[{seed}]")


@pytest.mark.parametrize(("test", "seed"), list(simulations("testing.md")))
def test_the_simulations_on_the_page_about_testing_pass(test: Callable[..., None], seed: int) -> None:
    test(seed=seed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_compiles_and_links_lead_somewhere(page: Path) -> None:
    compile(code_of(page), str(page), "exec")
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not link.startswith("http") and not (page.parent / link).exists()] == []
